"""Small real implementations of the protocols, whose results a person can work out, and what tests drive them with.

Ray workers can import them.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from r2med_ray.chat import ChatPrompt, Completion
from r2med_ray.demands import Demand, Keep, Recall, Steps
from r2med_ray.errors import R2MedError
from r2med_ray.protocols import Candidates, Encoder
from r2med_ray.ranking import best_of_scores
from r2med_ray.reranking.pair_requests import PairRequest, gathered, packed
from r2med_ray.reranking.pair_reranking import Scored
from r2med_ray.storage.artifact import Artifact
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Document, FloatMatrix, Ranking, Reranking

T = TypeVar("T")


class Clock:
    """A clock that a test moves, in place of the module `time`."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


def wait_until(holds: Callable[[], bool], deadline_s: float = 60.0) -> None:
    """Wait until a condition holds. It is an error if the condition doesn't hold at the deadline."""
    give_up = time.monotonic() + deadline_s
    while not holds():
        assert time.monotonic() < give_up, f"not so within {deadline_s:g} s"
        time.sleep(0.02)


class WordCountEncoder:
    """An encoder that counts words: component i is how often word i of the vocabulary is in the text."""

    def __init__(self, *vocabulary: str) -> None:
        self.vocabulary = vocabulary

    @property
    def dim(self) -> int:
        return len(self.vocabulary)

    def encode_plain(self, texts: Sequence[str]) -> FloatMatrix:
        counts = [[text.split().count(word) for word in self.vocabulary] for text in texts]
        return np.asarray(counts, dtype=np.float32).reshape(len(texts), self.dim)

    def encode_queries(self, texts: Sequence[str]) -> FloatMatrix:
        return self.encode_plain(texts)

    def encode_documents(self, documents: Sequence[Document]) -> FloatMatrix:
        return self.encode_plain([document.content for document in documents])


class RecordingEncoder:
    """An encoder that passes calls on to another encoder, and remembers `(method, texts)` of each call."""

    def __init__(self, encoder: Encoder) -> None:
        self.calls: list[tuple[str, tuple[str, ...]]] = []
        self._encoder = encoder

    @property
    def dim(self) -> int:
        return self._encoder.dim

    def encode_queries(self, texts: Sequence[str]) -> FloatMatrix:
        self.calls.append(("queries", tuple(texts)))
        return self._encoder.encode_queries(texts)

    def encode_documents(self, documents: Sequence[Document]) -> FloatMatrix:
        self.calls.append(("documents", tuple(document.content for document in documents)))
        return self._encoder.encode_documents(documents)

    def encode_plain(self, texts: Sequence[str]) -> FloatMatrix:
        self.calls.append(("plain", tuple(texts)))
        return self._encoder.encode_plain(texts)


class WordCountIndex:
    """An index of one shard in memory. The score is the inner product of word counts; a score of 0 is no hit."""

    def __init__(self, encoder: Encoder, documents: Sequence[Document]) -> None:
        self._doc_ids = [document.doc_id for document in documents]
        self._docs_ND = encoder.encode_documents(documents)

    def search(self, queries: FloatMatrix, k: int) -> list[Ranking]:
        scores_QN = queries @ self._docs_ND.T
        scores_QN[scores_QN <= 0] = -np.inf
        return [best_of_scores(scores_N, self._doc_ids, k) for scores_N in scores_QN]


class SharedWords:
    """A reranker that counts the different words that are in both query and document."""

    def score(self, requests: Sequence[PairRequest]) -> Iterator[Scored]:
        for request in requests:
            yield Scored([float(len({*query.split()} & {*text.split()})) for query, text in request.pairs], None)

    def score_all(self, work: Sequence[Candidates]) -> Reranking:
        return scored_by(self, work)


def scored_by(scorer: Any, work: Sequence[Candidates], token_budget: int = 1000) -> Reranking:
    """Return the scores of a scorer that has `score`, asked in requests as a job asks it."""
    requests = packed(work, token_budget)
    return gathered(work, zip(requests, scorer.score(requests), strict=True))


class ScriptedGenerator:
    """A language model that answers from a script.

    Args:
        answers: the last message of a prompt → the answer, as a text or as a completion.

    Attributes:
        calls: the prompts of each call.
    """

    def __init__(self, answers: Mapping[str, str | Completion]) -> None:
        self.calls: list[tuple[ChatPrompt, ...]] = []
        self._answers = answers

    def generate(
        self,
        prompts: Sequence[ChatPrompt],
        *,
        keep: Callable[[int, Completion], None] | None = None,
        order: Iterable[int] | None = None,
    ) -> list[Completion]:
        self.calls.append(tuple(prompts))
        answers = [self._answers[prompt.messages[-1]["content"]] for prompt in prompts]
        completions = [
            Completion(text=answer, reasoning="", finish_reason="stop") if isinstance(answer, str) else answer
            for answer in answers
        ]
        for position in reversed(range(len(prompts))):
            if keep:
                keep(position, completions[position])
        return completions


def answer(steps: Steps[T], answers: Mapping[type, Callable[[Any], Any]]) -> tuple[T, list[Demand]]:
    """Drive a part to its end without a workbench.

    Args:
        steps: the part.
        answers: type of a demand → function that answers such a demand. The part gets the function's errors, if they
            are of this package, at the `yield` of the demand.

    Returns:
        The part's result, and all its demands in order. The demands of a tuple are listed one by one.
    """
    demanded: list[Demand] = []
    try:
        wanted = next(steps)
        while True:
            each = wanted if isinstance(wanted, tuple) else (wanted,)
            demanded += each
            try:
                answered = [answers[type(demand)](demand) for demand in each]
            except R2MedError as error:
                wanted = steps.throw(error)
            else:
                wanted = steps.send(answered if isinstance(wanted, tuple) else answered[0])
    except StopIteration as end:
        return end.value, demanded


def kept_in(store: ArtifactStore) -> dict[type, Callable[[Any], Any]]:
    """Return functions for `answer` that answer `Recall` and `Keep` from a store."""

    def recall(demand: Recall) -> list[Artifact | None]:
        return [store.find(key) for key in demand.keys]

    def keep(demand: Keep) -> None:
        with store.create(demand.key) as writer:
            for name, content in demand.files.items():
                writer.write(name, content)

    return {Recall: recall, Keep: keep}
