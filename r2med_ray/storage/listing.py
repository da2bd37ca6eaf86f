"""What is in a store, for people: the task and the model that an artefact was made for first, its size and date."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from fnmatch import fnmatchcase
from typing import NamedTuple

from r2med_ray.errors import ConfigError
from r2med_ray.storage.artifact import Artifact
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import Json

TASK, MODEL, UNIT = "task", "model", "unit"

SECONDS = "seconds"
"""The attribute of an artefact that holds the wall-clock seconds that making it took."""


def made_for(task: str, model: str) -> dict[str, Json]:
    """Return the attributes that say for which task and by which model an artefact was made; others may share it."""
    return {name: value for name, value in ((TASK, task), (MODEL, model)) if value}


def seconds_noted(arrow: str, artifact: Artifact) -> dict[str, float]:
    """Return arrow → the seconds that making an artefact took; nothing if they were not noted."""
    return {arrow: artifact.attributes[SECONDS]} if SECONDS in artifact.attributes else {}


class Listed(NamedTuple):
    """One line of a list."""

    artifact: Artifact
    written: datetime | None

    @property
    def about(self) -> Mapping[str, str]:
        """The attributes that say what the artefact is about; artefacts of older versions may lack them."""
        attributes = self.artifact.attributes
        return {name: str(attributes[name]) for name in (TASK, MODEL, UNIT) if attributes.get(name)}

    @property
    def task(self) -> str:
        """The task; of a text, the beginning of what it is about: `Demo-Posts, query 'q7'`."""
        return self.about.get(TASK) or self.about.get(UNIT, "").partition(",")[0]

    def line(self) -> str:
        """Return size in bytes, date, name, and what it is about."""
        date = self.written.strftime("%Y-%m-%d %H:%M") if self.written else ""
        about = ", ".join(self.about.values())
        return f"{self.artifact.num_bytes:12}  {date:16}  {self.artifact.name}  {about}".rstrip()


def listed(store: ArtifactStore, *, kind: str = "*", task: str = "*", model: str = "*") -> Iterator[Listed]:
    """Yield the artefacts whose kind, task and model match, in the order of their names.

    Args:
        store: the store.
        kind: a glob such as `*vectors`.
        task: a glob. An artefact of which no task is known matches `*` alone.
        model: a glob, for the name of a retriever, a reranker or a language model.
    """
    for artifact, written in store.dated():
        found = Listed(artifact, written)
        values = ((artifact.name.partition("/")[0], kind), (found.task, task), (found.about.get(MODEL, ""), model))
        if all(fnmatchcase(value, pattern) for value, pattern in values):
            yield found


def remove(store: ArtifactStore, names: Iterable[str], *, dry_run: bool = False) -> list[str]:
    """Remove artefacts by name or by a glob of names such as `vectors/*`, and return their names.

    Args:
        store: the store.
        names: `<kind>/<digest>` or globs of it.
        dry_run: remove nothing.

    Raises:
        ConfigError: a name matches nothing; raised before anything is removed.
    """
    there, gone = store.names(), dict[str, None]()
    for pattern in names:
        found = [name for name in there if fnmatchcase(name, pattern)]
        if not found:
            raise ConfigError(f"no artefact {pattern!r} is in {store.place.shown}; `r2med artifacts ls` lists all")
        gone |= dict.fromkeys(found)
    if not dry_run:
        for name in gone:
            store.remove(name)
    return list(gone)
