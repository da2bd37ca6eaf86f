"""The tasks that are known by name: R2MED's eight at pinned revisions, and the demo tasks inside the package."""

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict

from r2med_ray.config import TaskConfig
from r2med_ray.corpus.layouts import LAYOUTS
from r2med_ray.corpus.sources import TaskSource, hub_folder
from r2med_ray.errors import ConfigError
from r2med_ray.registry import Registry, nearest

PACKAGE = Path(str(resources.files("r2med_ray.corpus")))


class TaskCounts(BaseModel):
    """What loading must find: lines of the corpus, distinct ids, queries, judgements."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    queries: int
    rows: int
    documents: int
    qrels: int


class TaskRow(BaseModel):
    """One task. It comes from the Hub (`hub`, `revision`) or from a folder of this package."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    suite: Literal["R2MED", "Demo"]
    family: Literal["qa", "evidence", "case"]
    """What a relevant document is: a reference of an answer, evidence for an exam, or a similar case."""

    layout: str = "r2med"
    hub: str | None = None
    revision: str = ""
    folder: str = ""
    counts: TaskCounts
    aliases: tuple[str, ...] = ()
    """The names that R2MED's prompt tables use."""

    def locate(self, *, download: bool = True) -> TaskSource:
        """Find the task's folder; fetches it from the Hub where it is not on this machine yet, unless told not to.

        Raises:
            DataError: says which files to put where.
        """
        if self.hub is not None:
            folder, revision = hub_folder(self.name, self.hub, self.revision, download=download)
        else:
            folder, revision = PACKAGE / self.folder, None
        return TaskSource(
            name=self.name,
            suite=self.suite,
            folder=folder,
            layout=self.layout,
            revision=revision,
            expected=self.counts.model_dump(),
        )


_ROWS = [
    TaskRow.model_validate(row) for row in yaml.safe_load((PACKAGE / "catalog.yaml").read_text(encoding="utf-8"))
]
_ALIASES = {alias: row.name for row in _ROWS for alias in row.aliases}
TASKS = Registry("task", [(row.name, row) for row in _ROWS], _ALIASES)


def select_tasks(entries: Sequence[str | TaskConfig]) -> list[TaskRow | TaskConfig]:
    """Return what the entries name, in their order, without looking at any file.

    An entry is a task's name or old name, a glob (`Demo-*`), a glob within a suite (`R2MED/*`), or a folder.

    Raises:
        ConfigError: an entry matches nothing, its layout is unknown, or a task comes twice.
    """
    selected: dict[str, TaskRow | TaskConfig] = {}
    for entry in entries:
        for task in [entry] if isinstance(entry, TaskConfig) else _matching(entry):
            if task.name in selected:
                raise ConfigError(f"tasks: {task.name!r} comes twice")
            LAYOUTS[task.layout]  # refuses an unknown name
            selected[task.name] = task
    return list(selected.values())


def resolve_tasks(entries: Sequence[str | TaskConfig], *, download: bool = True) -> list[TaskSource]:
    """Return the tasks that the entries name (see `select_tasks`), each with a folder on this machine.

    Raises:
        ConfigError: an entry is wrong; raised before the first folder is looked for.
        DataError: a task's files can't be found or fetched.
    """
    return [
        TaskSource(name=task.name, suite=task.name, folder=_folder(task), layout=task.layout, split=task.split)
        if isinstance(task, TaskConfig)
        else task.locate(download=download)
        for task in select_tasks(entries)
    ]


def _matching(entry: str) -> list[TaskRow]:
    suite, slash, pattern = entry.partition("/")
    if not slash:
        return [TASKS[name] for name in TASKS.matching(entry)]
    members = [(row.name, row) for row in _ROWS if row.suite == suite]
    if not members:
        suites = sorted({row.suite for row in _ROWS})
        raise ConfigError(f"unknown suite {suite!r}.{nearest(suite, suites)} Known: {', '.join(suites)}")
    within = Registry(f"task of {suite}", members, _ALIASES)
    return [within[name] for name in within.matching(pattern)]


def _folder(task: TaskConfig) -> Path:
    folder = Path(task.path).expanduser().absolute()
    if not folder.is_dir():
        raise ConfigError(f"task {task.name!r}: {folder} is no folder")
    return folder
