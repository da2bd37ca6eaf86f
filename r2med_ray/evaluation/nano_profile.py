"""The figures of NanoR2MED's tables, under the names that the tables use.

The names and definitions come from the candidate metadata of github.com/hakari-bench/hakari-bench at 217c8723. The
recall of a task is pooled over the positives of all its queries. A group's recalls are averages of the pooled recalls
of its tasks. The recall pooled over the whole group has a name of its own.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from r2med_ray.evaluation.aggregate import mean_of, positives_found
from r2med_ray.evaluation.evaluate import Evaluation

SUITE = "NanoR2MED"
"""The name of the suite, and of the group of all its tasks."""

MEASURES = ("nDCG@10", "Success@10", "R@100")
"""The measures that a profile is read from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NanoProfile:
    """The figures of one candidate list or one system on one task. Shares are on the scale 0 to 1."""

    queries: int
    positives: int
    ndcg_at_10: float
    hit_at_10: float
    """The share of queries with a positive among the first ten documents: Success@10, in HAKARI-Bench acc@10."""

    found_at_100: int
    """The number of positives, over all queries, that are among the first hundred documents of their query."""

    @property
    def micro_recall_at_100(self) -> float:
        """Positives found divided by positives, over all queries together."""
        return self.found_at_100 / self.positives

    @classmethod
    def of(cls, evaluation: Evaluation) -> "NanoProfile":
        """Return the profile that an evaluation gives.

        Raises:
            ConfigError: one of `MEASURES` was not measured.
        """
        found, positives = positives_found(evaluation, 100)
        return cls(
            queries=evaluation.num_queries,
            positives=positives,
            ndcg_at_10=mean_of(evaluation, "nDCG@10"),
            hit_at_10=mean_of(evaluation, "Success@10"),
            found_at_100=found,
        )


class _Figure(NamedTuple):
    name: str
    measure: str
    """The measure's name in `published.csv`."""

    of: Callable[[NanoProfile], float]


_FIGURES = (
    _Figure("ndcg_at_10", "nDCG@10", lambda profile: profile.ndcg_at_10),
    _Figure("hit_at_10", "Success@10", lambda profile: profile.hit_at_10),
    _Figure("recall_at_100", "pooled_micro_recall@100", lambda profile: profile.micro_recall_at_100),
)


def group_figures(profiles: Mapping[str, NanoProfile]) -> dict[str, float]:
    """Return the averages of a group of tasks: by query, by task, and the recall pooled over all positives."""
    members = list(profiles.values())
    num_queries = sum(profile.queries for profile in members)
    figures: dict[str, float] = {}
    for figure in _FIGURES:
        by_query = math.fsum(profile.queries * figure.of(profile) for profile in members)
        figures[f"query_weighted_{figure.name}"] = by_query / num_queries
        figures[f"task_macro_{figure.name}"] = math.fsum(map(figure.of, members)) / len(members)
    found, positives = (sum(getattr(profile, key) for profile in members) for key in ("found_at_100", "positives"))
    return {**figures, "pooled_micro_recall_at_100": found / positives}


def as_published(profiles: Mapping[str, NanoProfile]) -> dict[tuple[str, str], float]:
    """Return (task, measure) → figure, for each task and for the group. Names are those of `published.csv`."""
    figures = {
        (task, figure.measure): figure.of(profile) for task, profile in profiles.items() for figure in _FIGURES
    }
    group = group_figures(profiles)
    for figure in _FIGURES:
        for weighting in ("query_weighted", "task_macro"):
            figures[SUITE, f"{weighting} {figure.measure}"] = group[f"{weighting}_{figure.name}"]
    return {**figures, (SUITE, "pooled_micro_recall@100"): group["pooled_micro_recall_at_100"]}
