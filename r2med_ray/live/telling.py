"""Turns what a system comes to into events, as soon as it is there."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, TypeAlias

from r2med_ray.live.open_corpora import OpenTexts
from r2med_ray.models.services.answer_parts import AnswerParts
from r2med_ray.pipeline import Ranked, Watcher
from r2med_ray.retrieval.searches import searches_of
from r2med_ray.sentences import Shares, best_sentences
from r2med_ray.serving.search_answers import Event, Passage, RankedList, Rewritten, Sentence, Text, Writing, event
from r2med_ray.systems import ResolvedSystem
from r2med_ray.types import DocId, Document, Ranking, Rewriting, Run

Explain: TypeAlias = Callable[[Sequence[Document]], Sequence[Shares]]
"""Returns the shares of sentences in the scores of documents."""


class Telling(Watcher):
    """Hears a system at work on one question, and tells events.

    Args:
        system: is at work.
        texts: the documents of the corpus.
        grades: doc_id → how relevant it is to the question; empty if that isn't known.
        k: the most passages of each list.
        tell: takes the events.
    """

    def __init__(
        self,
        system: ResolvedSystem,
        texts: OpenTexts,
        grades: Mapping[DocId, int],
        k: int,
        tell: Callable[[Event], None],
    ) -> None:
        self._system = system
        self._texts = texts
        self._grades = grades
        self._k = k
        self._tell = tell
        self._lists: dict[str, Ranking] = {}
        """The lists that the next list is made from: name → ranking."""

        self._searches: int | None = None
        """How many searches each first stage makes; None before the question is rewritten."""

        self._step_began = time.monotonic()
        self._told: dict[str, tuple[AnswerParts, int, int]] = {}
        """Unit of a prompt → the parts of its answer, and how many of text and reasoning were told."""

        self._turn = threading.Lock()

    def wrote(self, unit: str, parts: AnswerParts) -> None:
        """Tell what a language model has written since the last time."""
        with self._turn:
            before, texts, reasoning = self._told.get(unit, (None, 0, 0))
            again = before is not parts
            if again:
                texts = reasoning = 0
            text, thought = "".join(parts.text[texts:]), "".join(parts.reasoning[reasoning:])
            self._told[unit] = parts, len(parts.text), len(parts.reasoning)
        if text or thought or again:
            step: Literal["rewriting", "reranking"] = "rewriting" if self._searches is None else "reranking"
            self._tell(event("writing", Writing(step=step, unit=unit, again=again, reasoning=thought, text=text)))

    def rewritten(self, rewriting: Rewriting) -> None:
        """Tell the texts that the question is searched for with."""
        self._searches = len(searches_of(rewriting.queries, self._system.combine))
        seconds = self._lap()
        if self._system.config.rewriter is None:
            return
        [query] = rewriting.queries
        texts = [Text(text=each.text, method=each.method, use=each.use) for each in query.expansions]
        notes = [*rewriting.flagged, *(["the question is searched for as it is"] if rewriting.unchanged else [])]
        self._tell(event("rewritten", Rewritten(texts=texts, notes=notes, seconds=seconds)))

    def searched(self, run: Run, explain: Explain | None = None) -> None:
        """Tell what a first stage found, if it makes no other search.

        Args:
            run: what it found.
            explain: returns the shares of sentences in the scores of documents; None if the first stage can't.
        """
        if self._searches == 1:
            self._retrieved(run, explain)

    def found(self, runs: Sequence[Run]) -> None:
        """Tell what first stages found that made several searches."""
        if self._searches != 1:
            for run in runs:
                self._retrieved(run)

    def fused(self, run: Run) -> None:
        """Tell the fused list, or the one that an agent made itself."""
        fusion, rewriter = self._system.config.fusion, self._system.config.rewriter
        made_by = fusion or rewriter
        assert made_by is not None
        name, [ranking] = made_by.method, run.rankings.values()
        self._tell(event("fused", self._list(name, ranking, self._lists)))
        self._lists = {name: ranking}

    def ranked(self, ranked: Ranked) -> None:
        """Tell the final list, if rerankers made it, one after the other."""
        if self._system.rerankers:
            [(query_id, ranking)] = ranked.run.rankings.items()
            shares = ranked.sentences.shares.get(query_id, {}) if ranked.sentences else {}
            name = " → ".join(reranker.config.model for reranker in self._system.rerankers)
            explain: Explain = lambda documents: [shares.get(document.doc_id, ()) for document in documents]  # noqa: E731
            self._tell(event("reranked", self._list(name, ranking, self._lists, explain)))

    def _retrieved(self, run: Run, explain: Explain | None = None) -> None:
        [ranking] = run.rankings.values()
        label = self._system.first_stages[len(self._lists)].label
        name = label if label not in self._lists else f"{label} {len(self._lists) + 1}"
        self._tell(event("retrieved", self._list(name, ranking, {}, explain)))
        self._lists[name] = ranking

    def _list(
        self, name: str, ranking: Ranking, made_from: Mapping[str, Ranking], explain: Explain | None = None
    ) -> RankedList:
        seconds, head = self._lap(), ranking[: self._k]
        places = {
            other: {hit.doc_id: place for place, hit in enumerate(earlier, start=1)}
            for other, earlier in made_from.items()
        }
        documents = self._texts.read([hit.doc_id for hit in head])
        shares = explain([documents[hit.doc_id] for hit in head]) if explain else [()] * len(head)
        self._step_began = time.monotonic()  # telling is no part of the next step
        passages = [
            Passage(
                rank=place,
                doc_id=hit.doc_id,
                score=float(hit.score),
                title=documents[hit.doc_id].title,
                text=documents[hit.doc_id].text,
                grade=self._grades.get(hit.doc_id),
                before={other: of_other.get(hit.doc_id) for other, of_other in places.items()},
                sentences=[
                    Sentence(**best._asdict()) for best in best_sentences(documents[hit.doc_id].content, of_hit)
                ],
            )
            for place, (hit, of_hit) in enumerate(zip(head, shares, strict=True), start=1)
        ]
        return RankedList(name=name, seconds=seconds, passages=passages)

    def _lap(self) -> float:
        """Return the seconds since the last step ended."""
        now = time.monotonic()
        seconds, self._step_began = now - self._step_began, now
        return seconds
