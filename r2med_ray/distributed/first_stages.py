"""The kinds of first stages on a cluster, in the order in which they are prepared."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from r2med_ray.distributed.api_vectors import ApiParts
from r2med_ray.distributed.candidates import CandidatesParts
from r2med_ray.distributed.checkpoint_vectors import LATE_INTERACTION, SPARSE, CheckpointParts
from r2med_ray.distributed.lexical import LexicalParts
from r2med_ray.distributed.stage_parts import Asked, Done, RunningRetriever, StageParts, Workplace
from r2med_ray.distributed.vectors import DenseParts
from r2med_ray.stages.candidates import CandidatesStage
from r2med_ray.stages.checkpoints import LateInteractionStage, SparseStage
from r2med_ray.stages.first_stage import FirstStage
from r2med_ray.stages.lexical import LexicalStage
from r2med_ray.stages.vectors import ApiStage, DenseStage
from r2med_ray.types import Task

BuildParts: TypeAlias = Callable[[Workplace], StageParts[Any]]

PARTS: Mapping[type[FirstStage], BuildParts] = {
    LexicalStage: LexicalParts,
    DenseStage: DenseParts,
    ApiStage: ApiParts,
    CandidatesStage: CandidatesParts,
    SparseStage: partial(CheckpointParts, SPARSE),
    LateInteractionStage: partial(CheckpointParts, LATE_INTERACTION),
}
"""Kind of first stage → what it does on a cluster."""


class FirstStages:
    """All kinds of first stages at one workplace."""

    def __init__(self, workplace: Workplace) -> None:
        self._parts = {kind: build(workplace) for kind, build in PARTS.items()}

    def prepare(self, asked: Sequence[Asked[FirstStage]]) -> list[Done]:
        """Store what the searches need; what several of them need is made once, with one model."""
        done: list[Done] = []
        for kind, parts in self._parts.items():
            groups: dict[str, list[Asked[FirstStage]]] = {}
            for item in asked:
                if type(item.stage) is kind:
                    groups.setdefault(item.stage.prepared_as, []).append(item)
            for group in groups.values():
                done += parts.prepare(group)
        return done

    def open(self, task: Task, stage: FirstStage) -> RunningRetriever:
        """Start a retriever over what `prepare` stored."""
        return self._parts[type(stage)].open(task, stage)
