"""What a part of a system may need, as plain values: a part yields them and is sent the answers; it starts nothing.

    found = yield Find(task=task, stage=stage, queries=queries, k=10)        -> Run
    texts = yield Ask(model=model, prompts=prompts)                          -> list[Completion | None]
    graded = yield Score(scorer=scorer, candidates=candidates)               -> Reranking

A part is a generator (`Steps`): it yields one demand, or several at once as a tuple, and ends in its result. Whoever
drives it (`workbench.driver`) answers what the store holds and has the rest done, for all parts together. A demand
that can't be answered is an error raised where it was yielded.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, TypeVar

from r2med_ray.protocols import Candidates, ChatPrompt, FirstStage, LanguageModel, Scorer
from r2med_ray.storage.artifacts import ArtifactKey
from r2med_ray.types import DocId, Query, Reranking, Rewriting, Task

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Find:
    """A search. The answer is a `Run`: the best k documents of every query."""

    task: Task
    stage: FirstStage
    queries: tuple[Query, ...]
    k: int
    keep: bool = True
    """Whether the run is stored, to be read the next time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Texts of documents. The answer is a mapping of id to `Document`; an id that the corpus lacks is an error."""

    task: Task
    doc_ids: frozenset[DocId]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """A language model's texts. The answer is a list with one `Completion` per prompt, in their order.

    A prompt that the model has no room for, in its shortest version, is answered with None.
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
    """What a part kept before. The answer is a list with one `Artifact` per key, or None where there is none."""

    keys: tuple[ArtifactKey, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """A result that a part made out of answers and wants to find again. The answer is None."""

    key: ArtifactKey
    files: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Expect:
    """What a part is going to need after the demand that follows. The answer is None.

    It replaces what the part expected before. The driver prepares corpora meanwhile, asks whether models are at hand
    before anything is paid for, and puts off what others are still on their way to.
    """

    searches: tuple[tuple[Task, FirstStage], ...] = ()
    models: tuple[LanguageModel, ...] = ()
    scorers: tuple[Scorer, ...] = ()


Demand: TypeAlias = Find | Read | Ask | Score | Fetch | Recall | Keep | Expect

Steps: TypeAlias = Generator[Demand | tuple[Demand, ...], Any, T]
"""A part at work: yields demands, is sent their answers (a list of them for a tuple), and returns a T."""


class QueryRewriter(Protocol):
    """Changes the queries of one task."""

    def rewrite(self, queries: Sequence[Query]) -> Steps[Rewriting]:
        """Fill in expansions: same ids, texts and order."""
        ...


class Reranker(Protocol):
    """Scores what a first stage found."""

    def score_all(self, work: Sequence[Candidates]) -> Steps[Reranking]:
        """Score the candidates of every query. All queries at once, so that a server can batch across them."""
        ...
