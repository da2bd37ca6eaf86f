"""Reasoning-driven medical retrieval benchmarks as one Ray job.

load → shard → encode → index → rewrite → search → fuse → rerank → evaluate → report

    corpus       LOAD, SHARD             models       what holds weights, and the catalogue of it
    indexing     ENCODE, INDEX           rewriting    REWRITE
    retrieval    SEARCH, FUSE            reranking    RERANK
    evaluation   EVALUATE                reporting    REPORT

`pipeline` is the flow as steps that yield demands; `workbench` has one driver that answers those of all systems and
tasks, on a cluster through `distributed` and `serving`, or in one process; `benchmark` is the job over it.

The public door is `open_workbench`, see `workbench.bench`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from r2med_ray.workbench.bench import Workbench, open_workbench

__all__ = ["Workbench", "open_workbench"]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    """Import the public door when it is asked for: the package alone loads nothing."""
    if name in __all__:
        from r2med_ray.workbench import bench

        return getattr(bench, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
