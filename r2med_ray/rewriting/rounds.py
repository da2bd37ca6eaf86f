"""Texts that are written one after the other for each query: in rounds of feedback, or a target and then its mimic.

    query → search → text → search with the text → next text → ...       diver-qexpand, thinkqe: joined to the query
    query → text → text that is shown the first                          contrast: one added, one taken away

In rounds of feedback, a passage that the model was shown for a query is left out of the later rounds of this query. A
query for which nothing new is found keeps the texts that it has, and is flagged.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from r2med_ray.cuts import sum_of_sides
from r2med_ray.demands import Steps
from r2med_ray.rewriting.expanding import require_few
from r2med_ray.rewriting.live import LiveRewriter, Seen
from r2med_ray.settings.rewriter import RewriterConfig
from r2med_ray.types import Query, QueryId, Rewriting

WITHOUT_LIMIT: Mapping[str, Any] = {"on_unusable": "original", "max_unusable": 1.0}
"""Settings of a single turn: only queries without a usable text of any turn are limited."""


class Rounds:
    """Gives every query the texts of several turns. A turn without a usable text leaves the query as it was.

    Args:
        config: says how many queries may be left without any text.
        steps: what writes the texts of each turn, `WITHOUT_LIMIT`.
        task: name of the task, for errors.
    """

    def __init__(self, config: RewriterConfig, steps: Sequence[LiveRewriter], *, task: str) -> None:
        self.config = config
        self._steps = steps
        self._task = task

    def rewrite(self, queries: Sequence[Query]) -> Steps[Rewriting]:
        """Return the queries with one expansion per turn and usable sample, in the order of the turns.

        Raises:
            DataError: too many queries have no usable text.
        """
        seen: Seen = {}
        turns: list[Rewriting] = []
        for step in self._steps:
            asked = turns[-1].queries if turns else queries
            turns.append((yield from step.rewrite(asked, seen)))
        flagged: defaultdict[str, dict[QueryId, None]] = defaultdict(dict)
        reasoning: dict[QueryId, tuple[str, ...]] = {}
        for turn in turns:
            for reason, query_ids in turn.flagged.items():
                flagged[reason].update(dict.fromkeys(query_ids))
            for query_id, thoughts in turn.reasoning.items():
                reasoning[query_id] = (*reasoning.get(query_id, ()), *thoughts)
        rewriting = Rewriting(
            queries=turns[-1].queries,
            flagged={reason: tuple(query_ids) for reason, query_ids in flagged.items()},
            unchanged=tuple(
                query_id for query_id in turns[0].unchanged if all(query_id in turn.unchanged for turn in turns)
            ),
            cuts=sum_of_sides(turn.cuts for turn in turns),
            reasoning=reasoning,
        )
        require_few(rewriting, self.config, self._task)
        return rewriting
