"""Puts a language model's answers into the queries, and decides about the ones that can't be used."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from r2med_ray.config import RewriterConfig
from r2med_ray.errors import DataError
from r2med_ray.rewriting.answers import Answer
from r2med_ray.types import Compat, Expansion, Query, QueryId, Rewriting

FELL_BACK = "original query used"


def expand(
    queries: Sequence[Query],
    answers: Mapping[QueryId, Sequence[Answer]],
    config: RewriterConfig,
    *,
    method: str,
    reasoning: bool,
    compat: Compat,
) -> Rewriting:
    """Give every query its usable answers as expansions; a query without any stays as it was.

    Under `r2med` every answer is used, however it ended, as in the published figures. Flags are counted either way.

    Args:
        queries: the queries of a task.
        answers: of every query, one per sample.
        config: how many queries may be left without an expansion.
        method: what the expansions are used like.
        reasoning: whether the writer thinks before it answers.
        compat: see above.

    Raises:
        DataError: more queries than allowed have no usable answer; names them.
    """
    flagged: defaultdict[str, list[QueryId]] = defaultdict(list)
    rewritten = []
    for query in queries:
        of_query = answers[query.query_id]
        for flag in dict.fromkeys(answer.flag for answer in of_query if answer.flag != "none"):
            flagged[flag].append(query.query_id)
        expansions = tuple(
            Expansion(text=answer.text, method=method, reasoning=reasoning)
            for answer in of_query
            if answer.text or compat == "r2med"
        )
        if not expansions:
            flagged[FELL_BACK].append(query.query_id)
        rewritten.append(replace(query, expansions=(*query.expansions, *expansions)))
    _require_few(flagged[FELL_BACK], len(queries), config)
    return Rewriting(queries=tuple(rewritten), flagged={reason: tuple(ids) for reason, ids in flagged.items() if ids})


def _require_few(unusable: Sequence[QueryId], total: int, config: RewriterConfig) -> None:
    allowed = 0.0 if config.on_unusable == "error" else config.max_unusable
    if unusable and len(unusable) / total > allowed:
        raise DataError(
            f"rewriter {config.method}/{config.writer}: {len(unusable)} of {total} texts are unusable, {allowed:.0%} "
            f"may be: {', '.join(unusable)}. Generate them again, or raise `max_unusable` of the rewriter"
        )
