"""The tasks that are known by name: eight of R2MED, eight of NanoR2MED, and the demo tasks of this package."""

import re
from collections.abc import Callable, Sequence
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict

from r2med_ray.corpus.ir_collections import address
from r2med_ray.corpus.layouts import LAYOUTS, find_ranked_lists
from r2med_ray.corpus.sources import HubFiles, TaskSource, hub_commit, hub_file, hub_folder
from r2med_ray.errors import ConfigError, NotAtHand
from r2med_ray.settings.config import TaskConfig
from r2med_ray.settings.faults import Faults
from r2med_ray.settings.hard_negatives import without_condition
from r2med_ray.settings.registry import Registry, nearest
from r2med_ray.types import Task

_COMMIT = re.compile("[0-9a-f]{40}")

PACKAGE = Path(str(resources.files("r2med_ray.corpus")))


class TaskCounts(BaseModel):
    """The counts that loading must find: queries, lines of the corpus, distinct document ids, judgements."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    queries: int
    rows: int
    documents: int
    qrels: int


class TaskRow(BaseModel):
    """One task, which comes from the Hub (`hub`, `revision`) or from a folder of this package."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    suite: Literal["R2MED", "NanoR2MED", "Demo"]
    family: Literal["qa", "evidence", "case"]
    """What a relevant document is: a reference of an answer, evidence for an exam, or a similar case."""

    layout: str = "r2med"
    hub: str | None = None
    revision: str = ""
    """A commit; empty if no commit is known. An entry then has to name a commit (`NAME@COMMIT`)."""

    commit_is_named: bool = False
    """Whether an entry of a benchmark names the commit. The files are then the Hub's, because a folder has no
    commit."""

    split: str | None = None
    """The task's split, if one repository holds several tasks."""

    folder: str = ""
    counts: TaskCounts
    aliases: tuple[str, ...] = ()
    """The names that R2MED's prompt tables use."""

    def locate(self, *, download: bool = True) -> TaskSource:
        """Find the task's folder. If it is not on this machine and `download` is set, it is fetched from the Hub.

        Raises:
            DataError: the files can't be found or fetched; says which files to put where.
        """
        if self.hub is not None:
            files = HubFiles.of_split(self.hub, self.split) if self.split else None
            find = hub_commit if self.commit_is_named else hub_folder
            folder, revision = find(self.name, self.hub, self.revision, files=files, download=download)
        else:
            folder, revision = PACKAGE / self.folder, None
        return TaskSource(
            name=self.name,
            suite=self.suite,
            folder=folder,
            layout=self.layout,
            split=self.split or "test",
            revision=revision,
            expected=self.counts.model_dump(),
        )

    @property
    def repository(self) -> str | None:
        """The Hub's repository of this task alone, with texts for its queries; None for one of several tasks."""
        return None if self.split is not None else self.hub

    def lists_at_hand(self) -> list[str]:
        """Return the names of the ranked lists that lie beside the task's files on this machine."""
        try:
            source = self.locate(download=False)
        except NotAtHand:
            return []
        return list(find_ranked_lists(source.folder, source.layout, source.split))


_ROWS = [
    TaskRow.model_validate(row) for row in yaml.safe_load((PACKAGE / "catalog.yaml").read_text(encoding="utf-8"))
]
_ALIASES = {alias: row.name for row in _ROWS for alias in row.aliases}
TASKS = Registry("task", [(row.name, row) for row in _ROWS], _ALIASES)


def select_tasks(entries: Sequence[str | TaskConfig]) -> list[TaskRow | TaskConfig]:
    """Return the tasks that the entries name, in the order of the entries. No file is looked at.

    An entry is a task's name or old name, a glob (`Demo-*`), a glob within a suite (`R2MED/*`), or a folder. A commit
    may follow a name or a glob, as in `NanoR2MED/*@<40 hex digits>`. This commit replaces the catalogue's, and the
    files are the Hub's at this commit, whatever `$R2MED_DATA` holds.

    Raises:
        ConfigError: entries match nothing or name a commit of a task that has none, or their layout is unknown; lists
            them. Or a task comes twice.
    """
    faults = Faults()
    found = [faults.tried(partial(_selected, entry)) or [] for entry in entries]
    faults.require_none()
    tasks = [task for of_entry in found for task in of_entry]
    names = [task.name for task in tasks]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError(f"tasks: {name!r} comes twice")
    return tasks


def resolve_tasks(entries: Sequence[str | TaskConfig], *, download: bool = True) -> list[TaskSource]:
    """Return the tasks that the entries name (see `select_tasks`), each with a folder on this machine.

    Raises:
        ConfigError: an entry is wrong; raised before the first folder is looked for.
        DataError: a task's files can't be found or fetched.
    """
    return [
        TaskSource(name=task.name, suite=task.name, folder=require_folder(task), layout=task.layout, split=task.split)
        if isinstance(task, TaskConfig)
        else task.locate(download=download)
        for task in select_tasks(entries)
    ]


def fetcher(task: Task) -> Callable[[str], Path] | None:
    """Return a function that gets a further file of a task's repository, e.g. generated texts.

    Return None for a task that has no repository to itself: a task of the user's own (whatever its name), a demo
    task, or a Nano set.
    """
    known = (without_condition(task.name), without_condition(task.suite))
    row = next((row for row in _ROWS if (row.name, row.suite) == known), None)
    if row is None or row.repository is None:
        return None
    revision = task.revision if _COMMIT.fullmatch(task.revision) else row.revision
    return partial(hub_file, row.repository, revision, folder=Path(task.folder))


def fetch_published(task: Task, file: str) -> Path:
    """Return a published file of a task, from this machine or from the Hub.

    Raises:
        NotAtHand: nobody publishes files for it, or the Hub doesn't give this one.
    """
    fetch = fetcher(task)
    if fetch is None:
        raise NotAtHand(file, f"task {task.name!r} has no repository that {file} could be fetched from")
    return fetch(file)


def _selected(entry: str | TaskConfig) -> Sequence[TaskRow | TaskConfig]:
    if isinstance(entry, str):
        return _matching(entry)
    LAYOUTS[entry.layout]  # refuses an unknown name
    return [entry]


def _matching(entry: str) -> list[TaskRow]:
    names, at, revision = entry.partition("@")
    if not at:
        return _named(names)
    if not _COMMIT.fullmatch(revision):
        raise ConfigError(f"tasks: {entry!r}: {revision!r} is no commit; expected its 40 hex digits")
    rows = _named(names)
    for row in rows:
        if row.hub is None:
            raise ConfigError(
                f"tasks: {entry!r}: {row.name} comes with this package and has no commit; leave out {at}{revision}"
            )
    return [row.model_copy(update={"revision": revision, "commit_is_named": True}) for row in rows]


def _named(entry: str) -> list[TaskRow]:
    suite, slash, pattern = entry.partition("/")
    if not slash:
        return [TASKS[name] for name in TASKS.matching(entry)]
    members = {row.name: row for row in _ROWS if row.suite == suite}
    if not members:
        suites = sorted({row.suite for row in _ROWS})
        raise ConfigError(f"unknown suite {suite!r}.{nearest(suite, suites)} Known: {', '.join(suites)}")
    aliases = {alias: name for alias, name in _ALIASES.items() if name in members}
    within = Registry(f"task of {suite}", members.items(), aliases)
    return [within[name] for name in within.matching(pattern)]


def require_folder(task: TaskConfig) -> Path:
    """Return the folder of a task of the user's own.

    Raises:
        ConfigError: there is no such folder, or no such dataset of `ir_datasets`.
    """
    if task.layout == "ir_datasets":
        return address(task.path)
    folder = Path(task.path).expanduser().absolute()
    if not folder.is_dir():
        raise ConfigError(f"task {task.name!r}: {folder} is no folder")
    return folder
