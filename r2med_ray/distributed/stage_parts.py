"""What a kind of first stage is asked to do on a cluster, and what it does it with."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeAlias, TypeVar

from r2med_ray.capacity import Pools
from r2med_ray.distributed.progress import StageReport
from r2med_ray.protocols import Retriever
from r2med_ray.settings.resources import ResourcesConfig
from r2med_ray.stages.first_stage import FirstStage
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Query, Task

Held = TypeVar("Held", bound=FirstStage, covariant=True)
Taken = TypeVar("Taken", bound=FirstStage, contravariant=True)

Done: TypeAlias = tuple[str, str, StageReport]
"""(stage, unit, what was done)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked(Generic[Held]):
    """A first stage and the queries that it has not answered yet."""

    task: Task
    stage: Held
    queries: tuple[Query, ...]
    """Empty where only the corpus is to be prepared: the queries are still being written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    """Where artefacts are kept, and what a stage may reserve."""

    store: ArtifactStore
    pools: Pools
    resources: ResourcesConfig
    stop: threading.Event = field(default_factory=threading.Event)
    """Set by whoever wants no further shard to be begun."""


class RunningRetriever(Retriever, Protocol):
    """A retriever that holds something until it is closed."""

    def close(self) -> None:
        """Free what it holds."""
        ...


class StageParts(Protocol[Taken]):
    """One kind of first stage on a cluster."""

    def prepare(self, asked: Sequence[Asked[Taken]]) -> list[Done]:
        """ENCODE: store what the searches need.

        Args:
            asked: of stages that agree in `prepared_as`, so that one model serves them all.

        Returns:
            What was done, in the order of the work.
        """
        ...

    def open(self, task: Task, stage: Taken) -> RunningRetriever:
        """INDEX: start a retriever over what `prepare` stored."""
        ...


def tasks_of(asked: Sequence[Asked[FirstStage]]) -> list[Task]:
    """Return each task once, in the order of its first question."""
    return list({item.task.name: item.task for item in asked}.values())
