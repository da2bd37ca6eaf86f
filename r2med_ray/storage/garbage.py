"""Finds and removes what killed writers left, artefacts with changed bytes, and what was made from those."""

from collections.abc import Callable, Iterable, Iterator

from r2med_ray.storage.artifact import Artifact
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import Json

NamesOf = Callable[[Artifact], Iterable[str]]
"""Returns the names by which keys of other artefacts call an artefact, beside the digest of its own key."""


def collect_garbage(
    store: ArtifactStore,
    *,
    older_than_s: float,
    now: float,
    damaged: bool = False,
    names_of: NamesOf = lambda artifact: (),
    dry_run: bool = False,
) -> list[str]:
    """Remove the attempts that killed writers left. If asked, also remove artefacts with changed bytes.

    Args:
        store: the store to clean.
        older_than_s: an attempt that was changed less than this many seconds ago stays: a job may still write it.
        now: the time in seconds since the epoch.
        damaged: also remove the artefacts that `find_damaged` names.
        names_of: see `find_damaged`.
        dry_run: remove nothing.

    Returns:
        The attempts and artefacts that were removed, or would be in a run without `dry_run`.
    """
    attempts = store.unfinished(older_than_s, now)
    broken = sorted({name for name, _ in find_damaged(store, names_of)}) if damaged else []
    if not dry_run:
        for path in attempts:
            store.remove_attempt(path)
        for name in broken:
            store.remove(name)
    return [*attempts, *broken]


def find_damaged(store: ArtifactStore, names_of: NamesOf = lambda artifact: ()) -> Iterator[tuple[str, str]]:
    """Yield (artefact, what is wrong with it) for what has changed bytes, then for what was made from that.

    An artefact was made from another if its key has a name of the other, or of what was made from the other. The key
    of a shard's vectors has a digest of the texts, which whoever reads them checks, and no name: the vectors stay.
    What has an unreadable manifest is only known by the digest of its own key.

    Args:
        store: the store.
        names_of: for artefacts with more names than the digest of their own key.
    """
    causes: dict[str, str] = {}
    for name, problem in store.problems():
        causes[name] = name
        yield name, problem
    if not causes:
        return
    there = {name: found for name, found in store.readable() if isinstance(found, Artifact)}
    inputs_of = {name: frozenset(_texts(artifact.inputs)) for name, artifact in there.items()}
    unread = list(causes)
    while unread:
        source = unread.pop()
        names = {source.rpartition("/")[2], *(names_of(there[source]) if source in there else ())}
        for name, inputs in inputs_of.items():
            if name not in causes and not names.isdisjoint(inputs):
                causes[name] = causes[source]
                unread.append(name)
                yield name, f"made from {causes[source]}, which is damaged"


def _texts(value: Json) -> Iterator[str]:
    """Yield every text in a value of JSON."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _texts(part)
