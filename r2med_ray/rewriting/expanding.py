"""Puts a language model's answers into the queries, and decides what happens to unusable answers."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from r2med_ray.errors import DataError, named
from r2med_ray.rewriting.answers import NO_ROOM, Answer
from r2med_ray.settings.compat import Rules
from r2med_ray.settings.rewriter import RewriterConfig
from r2med_ray.types import CHARACTERS_PER_REPEAT, Expansion, Query, QueryId, Rewriting, Use


def expand(
    queries: Sequence[Query],
    answers: Mapping[QueryId, Sequence[Answer]],
    config: RewriterConfig,
    *,
    method: str,
    use: Use,
    reasoning: bool,
    rules: Rules,
    noted: Mapping[str, Sequence[QueryId]] | None = None,
    task: str = "",
    per_repeat: int = CHARACTERS_PER_REPEAT,
) -> Rewriting:
    """Give every query its usable answers as expansions. A query without a usable answer stays as it was.

    The published protocol (`Rules.unusable_texts`) uses every text, however the text ended. Flags are counted under
    either protocol. A prompt that was too long for the model has no text.

    Args:
        queries: the queries of a task.
        answers: query id → its answers, one per sample.
        config: how many queries may be left without an expansion.
        method: the `method` of the expansions.
        use: how the texts are used in a search.
        reasoning: whether the writer thinks before it answers.
        rules: which side of each difference is used.
        noted: further flags: reason → ids of the queries.
        task: name of the task or the system, for errors.
        per_repeat: see `Expansion.per_repeat`.

    Raises:
        DataError: more queries than allowed have no usable answer; names them and the reasons.
    """
    rewritten = []
    for query in queries:
        expansions = [
            Expansion(text=answer.text, method=method, reasoning=reasoning, use=use, per_repeat=per_repeat)
            for answer in answers[query.query_id]
            if answer.text or (rules.unusable_texts and answer.flag != NO_ROOM)
        ]
        rewritten.append((replace(query, expansions=(*query.expansions, *expansions)), bool(expansions)))
    rewriting = Rewriting(
        queries=tuple(query for query, _ in rewritten),
        flagged=_flagged(queries, answers, noted or {}),
        unchanged=tuple(query.query_id for query, is_changed in rewritten if not is_changed),
        reasoning=_reasoning(answers),
    )
    require_few(rewriting, config, task)
    return rewriting


def _flagged(
    queries: Sequence[Query],
    answers: Mapping[QueryId, Sequence[Answer]],
    noted: Mapping[str, Sequence[QueryId]],
) -> dict[str, tuple[QueryId, ...]]:
    flagged: defaultdict[str, list[QueryId]] = defaultdict(list)
    for query in queries:
        for flag in dict.fromkeys(answer.flag for answer in answers[query.query_id] if answer.flag != "none"):
            flagged[flag].append(query.query_id)
    return {reason: tuple(query_ids) for reason, query_ids in {**flagged, **noted}.items() if query_ids}


def _reasoning(answers: Mapping[QueryId, Sequence[Answer]]) -> dict[QueryId, tuple[str, ...]]:
    found = {
        query_id: tuple(answer.reasoning_text for answer in of_query if answer.reasoning_text)
        for query_id, of_query in answers.items()
    }
    return {query_id: thoughts for query_id, thoughts in found.items() if thoughts}


def require_few(rewriting: Rewriting, config: RewriterConfig, task: str) -> None:
    """Check that few enough queries are left without a usable text.

    Args:
        rewriting: what a rewriter did; `unchanged` are the queries without a usable text.
        config: how many there may be.
        task: name of the task or the system, for errors.

    Raises:
        DataError: there are more; names them and the reasons.
    """
    unusable, total = rewriting.unchanged, len(rewriting.queries)
    allowed = 0.0 if config.on_unusable == "error" else config.max_unusable
    if not unusable or len(unusable) / total <= allowed:
        return
    reasons = Counter({reason: len({*ids} & {*unusable}) for reason, ids in rewriting.flagged.items()})
    counted = ", ".join(f"{reason}: {number}" for reason, number in reasons.most_common() if number)
    room = "a language model with more room, " if reasons[NO_ROOM] else ""
    other_texts = "another `seed`, a larger `max_tokens` of the model" if config.llm else "other `generations`"
    more = "`on_unusable: original`" if config.on_unusable == "error" else "a larger `max_unusable`"
    name = f"{config.method}/{config.writer}" if config.writer else config.method
    raise DataError(
        f"{f'{task}: ' if task else ''}rewriter {name}: {len(unusable)} of {total} queries "
        f"have no usable text ({counted}); at most {allowed:.0%} are allowed: {named(unusable)}. Texts are stored, "
        f"so the same settings give the same texts again. Set {room}{other_texts}, or {more}"
    )
