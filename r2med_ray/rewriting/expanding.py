"""Puts a language model's answers into the queries, and decides about the ones that can't be used."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from r2med_ray.errors import DataError, named
from r2med_ray.rewriting.answers import Answer
from r2med_ray.settings.config import RewriterConfig
from r2med_ray.types import Compat, Expansion, Query, QueryId, Rewriting


def expand(
    queries: Sequence[Query],
    answers: Mapping[QueryId, Sequence[Answer]],
    config: RewriterConfig,
    *,
    method: str,
    reasoning: bool,
    compat: Compat,
    noted: Mapping[str, Sequence[QueryId]] | None = None,
    task: str = "",
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
        noted: what else there is to say of some queries, by reason.
        task: whose queries they are, for errors.

    Raises:
        DataError: more queries than allowed have no usable answer; names them, and why.
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
        rewritten.append((replace(query, expansions=(*query.expansions, *expansions)), bool(expansions)))
    rewriting = Rewriting(
        queries=tuple(query for query, _ in rewritten),
        flagged={reason: tuple(ids) for reason, ids in (flagged | dict(noted or {})).items() if ids},
        unchanged=tuple(query.query_id for query, is_changed in rewritten if not is_changed),
    )
    _require_few(rewriting, config, task)
    return rewriting


def _require_few(rewriting: Rewriting, config: RewriterConfig, task: str) -> None:
    unusable, total = rewriting.unchanged, len(rewriting.queries)
    allowed = 0.0 if config.on_unusable == "error" else config.max_unusable
    if not unusable or len(unusable) / total <= allowed:
        return
    reasons = Counter({reason: len({*ids} & {*unusable}) for reason, ids in rewriting.flagged.items()})
    counted = ", ".join(f"{reason}: {number}" for reason, number in reasons.most_common() if number)
    other_texts = "another `seed`, a larger `max_tokens` of the model" if config.llm else "other `generations`"
    more = "`on_unusable: original`" if config.on_unusable == "error" else "a larger `max_unusable`"
    raise DataError(
        f"{f'{task}: ' if task else ''}rewriter {config.method}/{config.writer}: {len(unusable)} of {total} queries "
        f"have no usable text ({counted}), {allowed:.0%} may: {named(unusable)}. Texts are kept, "
        f"so the same settings give the same ones: set {other_texts}, or {more}"
    )
