"""What a benchmark file says of a task's hard negatives."""

from typing import Literal, TypeAlias

from pydantic import Field

from r2med_ray.settings.resources import Frozen

Condition: TypeAlias = Literal["own", "all", "all-reindexed", "pairs"]
"""A task with hard negatives; see `corpus.conditions`."""


class HardNegativesConfig(Frozen):
    """Hard negatives for one task of the benchmark. The task itself is the condition `base`."""

    task: str
    packs: tuple[str, ...] = ()
    """Folders with passages and labels; the folder `hard_negatives` of the task's own folder if left out."""

    conditions: tuple[Condition, ...] = Field(default=("own", "all", "pairs"), min_length=1)
    cutoffs: tuple[int, ...] = (1, 5, 10)
    """The values of k in `hn_success@k`, `hn_precision@k` and `hn_recall@k`."""

    compat: Literal["none", "comp646"] = "none"
    """`comp646` also gives the figures that the COMPSCI-646 group's code computes, for comparison."""
