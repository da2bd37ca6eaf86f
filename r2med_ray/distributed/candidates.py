"""Lists that exist already as a first stage: read where they lie, with nothing to prepare and nothing to start."""

from collections.abc import Sequence
from pathlib import Path

from r2med_ray.distributed.stage_parts import Asked, Done, Workplace
from r2med_ray.evaluation.trec import read_run
from r2med_ray.retrieval.candidates import CandidatesRetriever, Lists, read_lists
from r2med_ray.stages.candidates import CandidatesStage
from r2med_ray.types import Task


class CandidatesParts:
    """Candidates on a cluster, which they don't need."""

    def __init__(self, workplace: Workplace) -> None:
        self._at = workplace

    def prepare(self, asked: Sequence[Asked[CandidatesStage]]) -> list[Done]:
        """Do nothing."""
        return []

    def open(self, task: Task, stage: CandidatesStage) -> CandidatesRetriever:
        """Read a task's lists."""
        return CandidatesRetriever(
            stage.label, _lists(stage.path(task)), keep=stage.keep, drop_identical_ids=stage.drop_identical_ids
        )


def _lists(path: Path) -> Lists:
    """Read Parquet lists, or a TREC run in the order of its scores."""
    if path.suffix == ".parquet":
        return read_lists(path)
    return {query_id: [hit.doc_id for hit in ranking] for query_id, ranking in read_run(path).rankings.items()}
