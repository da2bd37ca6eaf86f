"""Plain values that travel along the flow.

All values are frozen. This module needs the standard library, numpy, `approximations`, `corpora`, `cuts` and
`sentences` only. Ids are text everywhere. Scores are compared as float32 (see `ranking`).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from r2med_ray.approximations import Approximation
from r2med_ray.corpora import Corpus
from r2med_ray.cuts import SideCuts
from r2med_ray.sentences import Shares

DocId: TypeAlias = str
QueryId: TypeAlias = str

CHARACTERS_PER_REPEAT = 5
"""MuGI's ratio of generated text to repeated query (Zhang et al. 2024, arXiv 2401.06311)."""

CANDIDATES = "candidates:"
"""What the label of ranked lists begins with that are given, not searched for."""

FloatMatrix: TypeAlias = npt.NDArray[np.float32]
FloatVector: TypeAlias = npt.NDArray[np.float32]

Qrels: TypeAlias = Mapping[QueryId, Mapping[DocId, int]]
"""query_id → doc_id → grade. Grade 0 or below means judged and not relevant."""


class HardNegative(NamedTuple):
    """What is known of a passage that looks right for a query and isn't."""

    kind: str = ""
    """What makes it look right, e.g. `mimic`; empty if nobody said."""

    positives: tuple[DocId, ...] = ()
    """The positives of the query that it was made from."""

    @property
    def is_control(self) -> bool:
        """Whether it is no hard negative, but a passage to compare hard negatives with."""
        return self.kind.startswith(CONTROL)


CONTROL = "control"
"""What the kind of a control begins with."""

HardNegatives: TypeAlias = Mapping[QueryId, Mapping[DocId, HardNegative]]
"""query_id → doc_id → what is known of this hard negative of the query. Labels of this kind never are qrels."""


class Contrast(NamedTuple):
    """Two queries and two documents: each document is a positive of one query and a hard negative of the other."""

    query_ids: tuple[QueryId, QueryId]
    doc_ids: tuple[DocId, DocId]
    """The positive of each query, in the order of `query_ids`."""

    kind: str = ""
    """What the two differ in, e.g. `negation`; empty if nobody said."""


def without_controls(negatives: HardNegatives) -> HardNegatives:
    """Return the labels of hard negatives alone; queries with controls alone are left out."""
    hard = {
        query_id: {doc_id: known for doc_id, known in own.items() if not known.is_control}
        for query_id, own in negatives.items()
    }
    return {query_id: own for query_id, own in hard.items() if own}


Compat: TypeAlias = Literal["none", "r2med"]
"""`r2med` reproduces the published protocol of R2MED, oddities included; `none` is the right way."""

Combine: TypeAlias = Literal["mean", "rrf", "sum", "minmax", "zscore"]
"""How several texts of a query are used: `mean` in one search, or in one search each; see `retrieval.searches`."""

OnBadDocument: TypeAlias = Literal["error", "skip"]
"""What happens to a document that can't be encoded, although others can."""

Use: TypeAlias = Literal["joined", "averaged", "alone", "replaces", "subtracted"]
"""How a generated text is used.

- `joined`: put behind the text of the query, both as one text.
- `averaged`: embedded on its own, and its vector averaged with the query's. BM25 puts it behind the query's text.
- `alone`: searched on its own beside the query, and the rankings fused.
- `replaces`: searched in place of the query.
- `subtracted`: searched on its own, and its scores taken away from the query's.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One retrievable text. `title` is empty if the collection has no titles, as in R2MED."""

    doc_id: DocId
    text: str
    title: str = ""

    @property
    def content(self) -> str:
        """The text that is indexed: title, space, text; or the text alone if there is no title."""
        return f"{self.title} {self.text}" if self.title else self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Expansion:
    """A text that a rewriter wrote for one query."""

    text: str
    method: str
    """The published method that wrote the text, or the published method most like the one that did: `hyde`,
    `query2doc`, `lamer`, ..."""

    reasoning: bool = False
    """Whether the writer thinks before it answers. The published protocol uses the texts of such writers like hyde's,
    whatever the method."""

    use: Use = None  # type: ignore[assignment]  # filled in below, so that it is never None
    """How the text is used. If left out, it is the use that the method implies, see `implied_use`."""

    per_repeat: int = CHARACTERS_PER_REPEAT
    """How many times the length of the query this text has to be as long as for BM25 to read the query once more."""

    def __post_init__(self) -> None:
        if self.use is None:
            object.__setattr__(self, "use", implied_use(self.method))


def positives_of(grades: Mapping[DocId, int]) -> set[DocId]:
    """Return the documents that are judged relevant to a query."""
    return {doc_id for doc_id, grade in grades.items() if grade > 0}


def implied_use(method: str) -> Use:
    """Return how a published method uses its text: `query2doc` joins it to the query, all others average vectors."""
    return "joined" if method == "query2doc" else "averaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """One question. Rewriting fills `expansions`; `text` stays the user's."""

    query_id: QueryId
    text: str
    expansions: tuple[Expansion, ...] = ()
    excluded: frozenset[DocId] = frozenset()
    """Documents that must not be in the query's ranking, e.g. those that the question was taken from (BRIGHT's
    `excluded_ids`)."""

    answer: str = field(default="", compare=False)
    """The answer that the collection gives. No search uses it; empty if it gives none."""

    body_system: str = field(default="", compare=False)
    """The body system that the collection says the question is about, for tables; empty if it says none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewriting:
    """What a rewriter did with the queries of a task."""

    queries: tuple[Query, ...]
    flagged: Mapping[str, tuple[QueryId, ...]] = field(default_factory=dict)
    """Reason (`empty`, `cut at limit`, `no closing tag`, ...) → ids of the queries that have it."""

    unchanged: tuple[QueryId, ...] = ()
    """Ids of the queries that got no usable text and are used as they are."""

    cuts: SideCuts | None = field(default=None, compare=False)
    """What was cut off the queries and passages that a language model was shown; None if no passages or not known."""

    ranked: Mapping[QueryId, tuple[tuple[DocId, ...], ...]] = field(default_factory=dict)
    """query_id → lists of documents, best first, that are its ranking when they are fused. It is not searched for."""

    reasoning: Mapping[QueryId, tuple[str, ...]] = field(default_factory=dict, compare=False)
    """query_id → the reasoning before each answer about it, as far as there is any. No search uses it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Repairs:
    """What had to be repaired in a language model's answers about the candidates of each query."""

    rules: Mapping[QueryId, Mapping[str, int]] = field(default_factory=dict)
    """query_id → rule (`id missing`, `id repeated`, ...) → how often the rule was applied, over all answers."""

    unreadable: Mapping[QueryId, Mapping[str, int]] = field(default_factory=dict)
    """query_id → reason (`cut at limit`, `no list`, ...) → number of answers that nothing could be read from."""

    @property
    def query_ids(self) -> frozenset[QueryId]:
        """Ids of the queries that have a repaired or an unreadable answer."""
        return frozenset([*self.rules, *self.unreadable])

    @property
    def unreadable_answers(self) -> Counter[str]:
        """Reason → number of answers that nothing could be read from, over all queries."""
        return sum((Counter(reasons) for reasons in self.unreadable.values()), Counter[str]())


@dataclass(frozen=True, slots=True, kw_only=True)
class Reranking:
    """A reranker's scores for the candidates of several queries."""

    scores: Mapping[QueryId, Sequence[float]]
    """query_id → one score per candidate, in their order; higher is more relevant."""

    repairs: Repairs = field(default_factory=Repairs)
    values: Mapping[QueryId, Sequence[float]] | None = None
    """query_id → what a language model's answers give each candidate, from 0 to 1, where they give a number; `scores`
    are then made of the ranks. None if there is none."""

    cuts: SideCuts | None = field(default=None, compare=False)
    """What was cut off the queries and documents of all pairs; None if that isn't known."""

    example: list[Any] | None = field(default=None, compare=False)
    """What a scorer of pairs read of one pair, see `readings.Listener.example`; None if that isn't known."""

    sentences: Mapping[QueryId, Sequence[Shares]] | None = field(default=None, compare=False)
    """query_id → the share of each sentence of each candidate in its score, if they come of late interaction."""


class ScoredDoc(NamedTuple):
    """A retrieved document and the number it is ranked by, higher is better."""

    doc_id: DocId
    score: float


Ranking: TypeAlias = tuple[ScoredDoc, ...]
"""Documents in the order of `ranking.best`, none twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The ranked answers of one system for one task."""

    tag: str
    rankings: Mapping[QueryId, Ranking]
    approximation: Approximation | None = field(default=None, compare=False)
    """What an approximate search missed, in a run of `Workbench.find`; None for other runs and for exact search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Corpus, queries and qrels of one collection."""

    name: str
    suite: str
    """The suite whose average the task counts in, e.g. `R2MED`; the task's own name if it is in no suite."""

    revision: str
    corpus: Corpus
    queries: tuple[Query, ...]
    qrels: Qrels
    folder: str
    """The folder that the task's files were read from. Generated texts of earlier runs are in it too."""

    all_queries: tuple[Query, ...] = ()
    """All queries of the collection, if `queries` are only some of them; otherwise empty."""

    ranked_lists: Mapping[str, str] = field(default_factory=dict)
    """Ranked lists that came with the collection: name → file."""

    warnings: tuple[str, ...] = ()
    """Sentences on what the loader accepted but reports, e.g. "2 doc ids of the qrels are not in the corpus"."""

    counts: Mapping[str, int] = field(default_factory=dict)
    """What was counted while loading: documents, queries, qrels, duplicates, ..."""

    identical_ids: frozenset[QueryId] = frozenset()
    """The queries whose id is a document's too. `ignore_identical_ids` leaves that document out of their ranking."""

    unknown_excluded: frozenset[DocId] = frozenset()
    """Documents that queries exclude and the corpus lacks."""

    hard_negatives: HardNegatives = field(default_factory=dict)
    """The labels of a pack; empty if none was given for the task."""

    contrasts: tuple[Contrast, ...] = ()
    """The contrasts of a pack; each of them is two of its labels, too."""

    same_texts: tuple[tuple[DocId, ...], ...] = ()
    """Groups of documents that have the same title and text under several ids, if one of them is judged."""
