"""What a benchmark file says of a task's hard negatives."""

from collections.abc import Sequence
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, model_validator

from r2med_ray.errors import ConfigError
from r2med_ray.settings.file_paths import PathField
from r2med_ray.settings.frozen import Frozen
from r2med_ray.settings.registry import nearest

CONDITION = "+hn-"
"""What comes between the name of a task and the name of a condition with hard negatives, as in `Biology+hn-all`."""

Condition: TypeAlias = Literal["own", "all", "all-reindexed", "pairs"]
"""A task with hard negatives; see `corpus.conditions`."""


class HardNegativesConfig(Frozen):
    """Hard negatives for one task of the benchmark. The task itself is the condition `base`."""

    task: str
    """The task's name."""

    packs: tuple[PathField, ...] = ()
    """Folders with passages and labels; the folder `hard_negatives` of the task's own folder if left out."""

    conditions: tuple[Condition, ...] = Field(default=("own", "all", "pairs"), min_length=1)
    """The conditions beside `base`; `corpus.conditions` says what each is."""

    cutoffs: tuple[Annotated[int, Field(ge=1)], ...] = Field(default=(1, 10), min_length=1)
    """The values of k in `hn_success@k`, `hn_precision@k` and `hn_recall@k`."""

    maps: tuple[str, ...] = ()
    """Ids of queries. For each of them, and each system that is one encoder, the report has a map of the vectors of
    the query, its positives, its hard negatives, and what was ranked in the condition `all`."""

    compat: Literal["none", "comp646"] = "none"
    """`comp646` also gives the figures that the COMPSCI-646 group's code computes, for comparison."""

    @model_validator(mode="after")
    def _maps_are_of_all(self) -> "HardNegativesConfig":
        if self.maps and "all" not in self.conditions:
            raise ValueError("`maps` are of the condition `all`, which is not among `conditions`")
        return self


def with_condition(name: str, condition: str) -> str:
    """Return the name of a condition of a task or suite."""
    return f"{name}{CONDITION}{condition}"


def without_condition(name: str) -> str:
    """Return the name of the task that a condition was made from; the name of any other task or suite unchanged."""
    return name.partition(CONDITION)[0]


def is_condition(name: str) -> bool:
    """Return whether a task is a condition of another one."""
    return CONDITION in name


def require_tasks(entries: Sequence[HardNegativesConfig], tasks: Sequence[str]) -> None:
    """Check the hard negatives of a benchmark against the names of its tasks.

    Raises:
        ConfigError: a task is called like a condition, or hard negatives are for a task that isn't there or has some.
    """
    for name in tasks:
        if is_condition(name):
            raise ConfigError(
                f"tasks: {name!r}: {CONDITION!r} marks a condition with hard negatives; rename the task"
            )
    for place, entry in enumerate(entries):
        if entry.task not in tasks:
            raise ConfigError(
                f"hard_negatives: task {entry.task!r} is not among `tasks`.{nearest(entry.task, tasks)} "
                f"Known: {', '.join(tasks)}"
            )
        if entry.task in {earlier.task for earlier in entries[:place]}:
            raise ConfigError(f"hard_negatives: {entry.task!r} comes twice; give all of its `packs` in one entry")
