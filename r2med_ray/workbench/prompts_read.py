"""What a plan says of the prompts that rerankers read: how many there are, and how long.

Both are known before anything is found, up to the lengths of texts: `estimates` has what is assumed of these.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from r2med_ray.models.catalog.listwise_encoders import ListwiseEncoderRow
from r2med_ray.models.catalog.llm_rerankers import LlmRerankerRow
from r2med_ray.models.catalog.resolved_rerankers import ResolvedReranker
from r2med_ray.models.catalog.row import Row
from r2med_ray.reranking.orderings import window_starts
from r2med_ray.reranking.setwise import SORTS
from r2med_ray.workbench.estimates import DOCUMENT_TOKENS, QUERY_TOKENS, Work, estimate, line
from r2med_ray.workbench.runner import Runner

TOKENS_PER_WORD = 4 / 3
TOKENS_PER_CHARACTER = 1 / 4


class Reading(NamedTuple):
    """A reranker, and what it has to order."""

    reranker: ResolvedReranker
    queries: int
    candidates: int
    """The most candidates of a query."""


def prompts_read(runner: Runner, readings: Iterable[Reading]) -> Iterator[str]:
    """Yield what each reranker reads that is given prompts, over all systems and tasks; at most so much."""
    sums: dict[tuple[str, int], tuple[ResolvedReranker, int]] = {}
    for reranker, queries, candidates in readings:
        row = reranker.row
        if isinstance(row, LlmRerankerRow | ListwiseEncoderRow):
            key = row.name, prompt_tokens(row, candidates)
            before = sums.get(key, (reranker, 0))[1]
            sums[key] = reranker, before + queries * prompts_per_query(row, candidates)
    pool = runner.workers("encode")
    for (name, tokens), (reranker, count) in sums.items():
        second = reranker.second_search
        if second is None:
            yield f"rerank {name}: at most {count:,} prompts × {tokens:,} tokens (assumed) to read"
            continue
        billions = second.row.billions if isinstance(second.row, Row) else None
        work = Work(
            stage="rerank",
            model=name,
            items=count,
            unit="prompts",
            tokens=tokens,
            tokens_are="assumed",
            billions=billions,
        )
        yield line(work, pool, estimate(work, pool, runner.gpu, ()), most_workers=1)


def prompts_per_query(row: LlmRerankerRow | ListwiseEncoderRow, candidates: int) -> int:
    """Return the most prompts that are written about the candidates of one query.

    Each number is independent of the answers, but for a heap: its worst case is that every candidate sinks.
    """
    if isinstance(row, ListwiseEncoderRow):
        return min(candidates, 1)
    if candidates < 2:
        return 0
    match row.strategy:
        case "listwise":
            return row.passes * len(window_starts(candidates, row.window, row.step))
        case "groupwise":
            return row.passes * -(-candidates // row.window)
        case "setwise":
            return row.passes * _questions(row, candidates)
        case "pointwise":
            return candidates * row.samples
        case "probability":  # the reasoning, and the token after it
            return 2 * candidates * row.samples


def prompt_tokens(row: LlmRerankerRow | ListwiseEncoderRow, candidates: int) -> int:
    """Return the tokens of a prompt: of the query, and of the passages that it shows."""
    if isinstance(row, ListwiseEncoderRow):
        shown, limit = row.shown, row.passage_words * TOKENS_PER_WORD
        return min(row.max_length, _tokens(min(shown, candidates), limit))
    shown = 1 if row.asks_about_pairs else row.window
    if row.passage_characters:
        limit = row.passage_characters * TOKENS_PER_CHARACTER
    else:
        limit = row.passage_tokens or row.passage_words * TOKENS_PER_WORD
    return _tokens(min(shown, candidates), limit)


def _tokens(shown: int, limit: float) -> int:
    return QUERY_TOKENS + round(shown * min(limit, DOCUMENT_TOKENS))


def _questions(row: LlmRerankerRow, candidates: int) -> int:
    """Return how many questions a sort asks if the second candidate of each is the best: no heap asks more."""
    sort = SORTS[row.sort](range(candidates), row.window, row.top)
    count = 0
    try:
        next(sort)
        while True:
            count += 1
            sort.send(1)
    except StopIteration:
        return count
