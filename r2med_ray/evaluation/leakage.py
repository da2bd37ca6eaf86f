"""Whether generated texts hold what only the judged passages say: runs of 13 words, as in checks of training data.

A text leaks if 13 words in a row of it also stand in a row in a passage that is judged relevant to its query. For
comparison, the same is asked of passages of the task that were drawn at random, as many for each query.

Words are compared after NFKC and case folding; a word is a run of letters and digits, and all else only parts words.
So line breaks, punctuation, hyphens and markup make no difference. A run that stands in the query itself says
nothing about the writer and doesn't count. A text may also hold a run because its writer was shown the passage, as
methods with `candidates` or `agent` do; a leak says that a text has the words, not where they are from.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from r2med_ray.types import Query, QueryId

WORDS = 13
"""Words of a run, as in the checks of GPT-3 (Brown et al. 2020, arXiv 2005.14165)."""

BLOCK = 7
"""Every run of 13 words holds one of the blocks of 7 words that a text is cut into, and blocks are found quickly."""

_WORD = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Leakage:
    """Which generated texts of one system on one task hold runs of passages."""

    asked: tuple[QueryId, ...]
    """The queries with a generated text and a passage that is judged relevant and in the corpus."""

    leaked: tuple[QueryId, ...]
    """Those with a run of a passage that is judged relevant to them."""

    by_chance: tuple[QueryId, ...]
    """Those with a run of a passage that was drawn at random for them."""

    num_passages: int
    """Passages judged relevant that were compared, over all queries."""

    num_random: int
    """Passages drawn at random that were compared; fewer if too many of the drawn ones are judged or come twice."""

    seed: int

    @property
    def share(self) -> float | None:
        """Share of the queries whose text leaks, 0 to 1; None without such queries."""
        return len(self.leaked) / len(self.asked) if self.asked else None

    @property
    def share_by_chance(self) -> float | None:
        """The same share for the random passages."""
        return len(self.by_chance) / len(self.asked) if self.asked else None


def normalised(text: str) -> str:
    """Return a text as it is compared: its words with one space before, between and behind them."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return f" {' '.join(_WORD.findall(folded))} "


def shares_run(text: str, passage: str, query: str = "") -> bool:
    """Return whether a text and a passage share a run of words that the query lacks; all three as `normalised`."""
    words = text.split()
    blocks = (_phrase(words[start : start + BLOCK]) for start in range(0, len(words) - BLOCK + 1, BLOCK))
    if not any(block in passage for block in blocks):
        return False
    runs = (_phrase(words[start : start + WORDS]) for start in range(len(words) - WORDS + 1))
    return any(run in passage and run not in query for run in runs)


def find_leaks(
    queries: Sequence[Query],
    judged: Mapping[QueryId, Sequence[str]],
    drawn: Mapping[QueryId, Sequence[str]],
    *,
    seed: int,
) -> Leakage:
    """Compare the generated texts of queries with passages.

    Args:
        queries: the queries with their expansions. One without an expansion or a judged passage is left out.
        judged: query_id → the passages that are judged relevant, `normalised`.
        drawn: query_id → passages that were drawn at random, `normalised`.
        seed: what they were drawn with.
    """
    asked = [query for query in queries if query.expansions and judged.get(query.query_id)]

    def holding(passages: Mapping[QueryId, Sequence[str]]) -> tuple[QueryId, ...]:
        return tuple(query.query_id for query in asked if _holds(query, passages.get(query.query_id, ())))

    return Leakage(
        asked=tuple(query.query_id for query in asked),
        leaked=holding(judged),
        by_chance=holding(drawn),
        num_passages=sum(len(judged[query.query_id]) for query in asked),
        num_random=sum(len(drawn.get(query.query_id, ())) for query in asked),
        seed=seed,
    )


def _holds(query: Query, passages: Sequence[str]) -> bool:
    own, texts = normalised(query.text), [normalised(part.text) for part in query.expansions]
    return any(shares_run(text, passage, own) for text in texts for passage in passages)


def _phrase(words: Sequence[str]) -> str:
    return f" {' '.join(words)} "
