"""Measures a run of a task, and looks through the task's corpus for documents with the same text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from r2med_ray.corpus.text_survey import survey_texts
from r2med_ray.evaluation.evaluate import Evaluation
from r2med_ray.evaluation.measures import Measure
from r2med_ray.evaluation.text_ties import TieRange, tie_ranges
from r2med_ray.pipeline import measure
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Run, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationWithTies(Evaluation):
    """How well one run answers the queries of one task, and how far that depends on documents with the same text."""

    num_same_texts: int
    """Documents with the same text as a judged document with another id."""

    text_ties: Mapping[str, TieRange]
    """Measure → the range of its mean over the orders of equal texts with equal scores, see `text_ties.tie_ranges`. A
    measure that depends on no such order has no entry."""

    def share_tied(self, measure: str) -> float:
        """Return the share of the queries in the mean, 0 to 1, whose value depends on such an order."""
        return self.text_ties[measure].num_queries / self.num_queries if measure in self.text_ties else 0.0


def measure_with_ties(store: ArtifactStore, run: Run, task: Task, measures: Sequence[Measure]) -> EvaluationWithTies:
    """Measure a run, see `pipeline.measure`. Only equal texts in the ranking are exchanged.

    A run doesn't say which scores the documents had that it lacks. What is known of the texts of a corpus is stored.

    Raises:
        ArtifactError: the store doesn't have the corpus.
        StageError: see `pipeline.measure`.
    """
    evaluation, survey = measure(run, task, measures), survey_texts(store, task.corpus)
    judged = {doc_id for grades in task.qrels.values() for doc_id in grades}
    return EvaluationWithTies(
        **{each.name: getattr(evaluation, each.name) for each in fields(evaluation)},
        num_same_texts=len(survey.same_as_judged(judged)),
        text_ties=tie_ranges(run, task.qrels, survey.of_judged(judged), measures, evaluation, depth=None),
    )
