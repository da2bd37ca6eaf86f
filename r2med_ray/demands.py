"""Demands of the parts of a system, as plain values: a part yields a demand and is sent the answer.

    found = yield Find(task=task, first_stage=first_stage, queries=queries, k=10)        -> Run
    texts = yield Ask(model=model, prompts=prompts)                          -> list[Completion | None]
    graded = yield Score(scorer=scorer, candidates=candidates)               -> Reranking

A part is a generator (`Steps`). A part yields one demand, or several at once as a tuple, and returns its result. It
starts nothing itself. The driver (`workbench.driver`) runs all parts together: it answers a demand from the store if
it can, and has the other work done. An error is raised at the `yield` if what the store has is damaged, or if a model
or a file that the demand needs is not at hand. A failure of the work itself ends all parts.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, TypeVar

from r2med_ray.chat import ChatPrompt, LanguageModel
from r2med_ray.errors import ConfigError
from r2med_ray.first_stage import FirstStage
from r2med_ray.protocols import Candidates, Scorer
from r2med_ray.storage.keys import ArtifactKey
from r2med_ray.types import DocId, Query, QueryId, Reranking, Rewriting, Task

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Find:
    """A search. The answer is a `Run`: the best k documents of every query."""

    task: Task
    first_stage: FirstStage
    queries: tuple[Query, ...]
    k: int
    keep: bool = True
    """Whether the run is stored, to be read the next time."""

    among: Mapping[QueryId, tuple[DocId, ...]] | None = None
    """query_id → the only documents that are ranked for the query; None if all are looked through. The indexes of the
    first stage must score single documents, see `protocols.ScoresCandidates`."""

    is_check: bool = field(default=False, compare=False)
    """Whether it is made to check an approximate search. It reads texts that are counted there, so what is cut off
    them is not counted again."""

    def __post_init__(self) -> None:
        """Check k.

        Raises:
            ConfigError: k is no whole number from 1.
        """
        if isinstance(self.k, bool) or not isinstance(self.k, int) or self.k < 1:
            raise ConfigError(f"k, the documents per query, should be a whole number from 1, got {self.k!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Texts of documents. The answer is a mapping from id to `Document`. An id that the corpus lacks is an error."""

    task: Task
    doc_ids: frozenset[DocId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A language model's texts. The answer is a list with one `Completion` per prompt, in their order.

    The answer to a prompt is None if even its shortest version is too long for the model.
    """

    model: LanguageModel
    prompts: tuple[ChatPrompt, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Scores of pairs. The answer is a `Reranking`: one score per candidate of every query."""

    scorer: Scorer
    candidates: tuple[Candidates, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetch:
    """A published file of a task's repository. The answer is its `Path` on this machine."""

    task: Task
    file: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """What a part kept before. The answer is a list: for each key its `Artifact`, or None if there is none."""

    keys: tuple[ArtifactKey, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """A result that a part made from answers and wants to find again later. The answer is None."""

    key: ArtifactKey
    files: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expect:
    """What a part will need after its next demand. The answer is None.

    A new `Expect` replaces the part's earlier one. The driver uses it for three things: it prepares corpora early, it
    checks that models are at hand before anything is paid for, and it puts off a batch that more parts will join.
    """

    searches: tuple[tuple[Task, FirstStage], ...] = ()
    models: tuple[LanguageModel, ...] = ()
    scorers: tuple[Scorer, ...] = ()


Demand: TypeAlias = Find | Read | Ask | Score | Fetch | Recall | Keep | Expect

Steps: TypeAlias = Generator[Demand | tuple[Demand, ...], Any, T]
"""A part at work: it yields demands, is sent their answers (for a tuple, a list of answers), and returns a T."""


class QueryRewriter(Protocol):
    """Changes the queries of one task."""

    def rewrite(self, queries: Sequence[Query]) -> Steps[Rewriting]:
        """Return the queries with expansions filled in. Ids, texts and order stay the same."""
        ...


class Reranker(Protocol):
    """Scores what a first stage found."""

    def score_all(self, work: Sequence[Candidates]) -> Steps[Reranking]:
        """Score the candidates of every query. All queries come in one call, so that a server can batch them."""
        ...
