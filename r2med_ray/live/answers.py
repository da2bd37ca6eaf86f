"""Answers the demands of one question: from open indexes and running models, and from the store what it has."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from r2med_ray.chat import Completion
from r2med_ray.corpus.catalog import fetch_published
from r2med_ray.demands import Ask, Demand, Fetch, Find, Keep, Read, Recall, Score
from r2med_ray.errors import OwnCodeError, StoppedError
from r2med_ray.live.open_corpora import OpenIndexes, OpenTexts
from r2med_ray.models.services.answer_parts import AnswerParts
from r2med_ray.models.services.chat import ChatModel
from r2med_ray.protocols import Scorer
from r2med_ray.reranking.pair_requests import PairRequest, gathered, packed
from r2med_ray.reranking.pair_reranking import Scored
from r2med_ray.sentences import Shares
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Document, Reranking, Run
from r2med_ray.workbench.answers import Answer, KnownAnswer
from r2med_ray.workbench.catalog_rows import language_model_row, reranker_row
from r2med_ray.workbench.longest_first import Lengths
from r2med_ray.workbench.texts import Texts, have_written

TEXTS_IN_MEMORY = 1_000
"""Texts of language models that are kept until the page ends."""


def scorer_key(scorer: Scorer) -> str:
    """Return what tells apart rerankers that score pairs: `compat` makes two rows of one name."""
    return reranker_row(scorer).model_dump_json()


class PairScores(Protocol):
    """Scores pairs, for several questions at once."""

    def score(self, requests: Sequence[PairRequest]) -> Iterator[Scored]:
        """Yield the scores of each request, in the order of the requests."""
        ...


class LastTexts:
    """The last texts that language models wrote for questions, in memory.

    A question that is asked again, or of another system with the same rewriter, is not written for again.
    """

    def __init__(self) -> None:
        self._texts: OrderedDict[str, Completion] = OrderedDict()
        self._turn = threading.Lock()

    def find(self, digests: Iterable[str]) -> dict[str, Completion]:
        """Return those texts that are there, by the digest of their key."""
        with self._turn:
            return {digest: self._texts[digest] for digest in digests if digest in self._texts}

    def keep(self, digest: str, text: Completion) -> None:
        """Keep a text, and let go of the oldest one if there are too many."""
        with self._turn:
            self._texts[digest] = text
            if len(self._texts) > TEXTS_IN_MEMORY:
                self._texts.popitem(last=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """What stays open between questions."""

    store: ArtifactStore
    indexes: OpenIndexes
    texts: Mapping[str, OpenTexts]
    """Task → the documents of its corpus."""

    scorers: Mapping[str, PairScores]
    """`scorer_key` → what scores pairs."""

    addresses: Mapping[str, str]
    """Name of a language model that is served here → the address of its engine."""

    pair_budget: int
    """Tokens of one forward pass of a scorer."""

    last_texts: LastTexts = field(default_factory=LastTexts)


class Listener(Protocol):
    """Hears what happens on the way to an answer."""

    def searched(self, run: Run, explain: Callable[[Sequence[Document]], Sequence[Shares]] | None) -> None:
        """Hear what a search found, and how its scores are explained; None if they can't be."""
        ...

    def wrote(self, unit: str, parts: AnswerParts) -> None:
        """Hear what a language model has written so far; called from any thread."""
        ...


class LiveAnswers:
    """Answers the demands of one question, one after the other, and stores nothing.

    Args:
        running: does the work.
        listener: hears of it.
        stop: once it is set, the work ends.
    """

    def __init__(self, running: Running, listener: Listener, stop: threading.Event) -> None:
        self._running = running
        self._listener = listener
        self._stop = stop
        self._texts = Texts(running.store, may_write=False)

    def look_up(self, part: str, demand: Demand) -> Answer:
        """Return the answer to a demand.

        Raises:
            StoppedError: nobody waits for it any more.
            R2MedError: the work failed.
        """
        if self._stop.is_set():
            raise StoppedError(f"{part}: stopped, because nobody waits for the answer")
        return KnownAnswer(self._answer(demand))

    def _answer(self, demand: Demand) -> Any:
        running = self._running
        match demand:
            case Find():
                run = Run(tag=demand.first_stage.label, rankings=running.indexes.find(demand).rankings)
                if demand.among is None:  # a reranker's search is no first stage's
                    self._listener.searched(run, running.indexes.explaining(demand))
                return run
            case Read():
                return running.texts[demand.task.name].read(sorted(demand.doc_ids))
            case Ask():
                return self._written(demand)
            case Score():
                return self._scored(demand)
            case Fetch():
                return fetch_published(demand.task, demand.file)
            case Recall():
                return running.store.find_all(demand.keys)
            case Keep():
                return None
        raise OwnCodeError(f"{demand!r:.80} is no demand; a part yields what `r2med_ray.demands.Demand` lists")

    def _written(self, ask: Ask) -> list[Completion | None]:
        """Return texts: those that store or memory has as a benchmark reads them, and the others freshly written."""
        keys, last = self._texts.keys(ask.model, ask.prompts), self._running.last_texts
        found: dict[str, Completion | None] = {**last.find(key.digest for key in keys), **self._texts.find(keys)}
        row = language_model_row(ask.model)
        address = self._running.addresses[row.name] if row.is_served else None
        model = ChatModel(
            row if address is None else row.for_replicas(),
            base_url=address,
            stop=self._stop,
            heard=self._listener.wrote,
        )
        missing = {
            key.digest: (key, prompt)
            for key, prompt in zip(keys, ask.prompts, strict=True)
            if key.digest not in found
        }
        have_written(row, model, missing, found, lambda key, _, text: last.keep(key.digest, text), Lengths())
        return [found[key.digest] for key in keys]

    def _scored(self, score: Score) -> Reranking:
        requests = packed(score.candidates, self._running.pair_budget)
        scored = self._running.scorers[scorer_key(score.scorer)].score(requests)
        return gathered(score.candidates, zip(requests, scored, strict=True))
