"""Rerankers that are language models, and write a text about each pair of a query and a candidate.

    pointwise     the answer ends in a number. The numbers of several answers are averaged (Retro*, DIVER)
    probability   the model reasons, and the token after the reasoning tells: the score is p(yes) / (p(yes) + p(no))
                  (Rank1, arXiv 2502.18418; LimRank)

A probability takes two requests. The first lets the model reason about a raw prompt until a stop text. The second
closes the reasoning, also one that was cut at the limit, and asks for the likeliest next tokens. So one rule reads
all answers, whatever a server says of the log-probabilities of its stop texts. If one of the two tokens is not
among the likeliest, it counts with the probability of the least likely of these, which is the most that it can have.

An answer without a number, and a token without both words, is unreadable. A candidate without a readable answer gets
the lowest value of its query's candidates, so it never rises for that.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from r2med_ray.chat import ChatPrompt, Completion, ending_of
from r2med_ray.demands import Ask, Steps
from r2med_ray.protocols import Candidates
from r2med_ray.reranking.asking import AskingReranker
from r2med_ray.reranking.llm_prompts import pair_prompt
from r2med_ray.reranking.numbers import read_number
from r2med_ray.reranking.orderings import RepairCounts, by_value, repairs_of
from r2med_ray.reranking.readability import CONTEXT_LIMIT
from r2med_ray.reranking.shown_ids import NO_NUMBER, OUT_OF_SCALE, REASONING_CUT
from r2med_ray.types import QueryId, Reranking

TOP_TOKENS = 20
"""How many likely tokens are asked for: as many as services give."""


class Pair(NamedTuple):
    """One question: about one candidate, in one sample."""

    candidates: Candidates
    position: int
    sample: int

    @property
    def query_id(self) -> QueryId:
        return self.candidates.query.query_id


class _PairReranker(AskingReranker):
    """Gives each pair the mean of the values of its samples."""

    @property
    def _best(self) -> float:
        """The best value that a sample can have."""
        return 1.0

    def _order(self, work: Sequence[Candidates]) -> Steps[Reranking]:
        pairs = [
            Pair(candidates, position, sample)
            for candidates in work
            if len(candidates.documents) > 1
            for position in range(len(candidates.documents))
            for sample in range(self._settings.samples)
        ]
        counts = {candidates.query.query_id: RepairCounts() for candidates in work}
        values = (yield from self._values(pairs, counts)) if pairs else []
        readable: dict[tuple[QueryId, int], list[float]] = {}
        for pair, value in zip(pairs, values, strict=True):
            if value is not None:
                readable.setdefault((pair.query_id, pair.position), []).append(value)
        means = {each: math.fsum(of_pair) / (len(of_pair) * self._best) for each, of_pair in readable.items()}
        of_queries = {candidates.query.query_id: _of_query(candidates, means) for candidates in work}
        return replace(by_value(of_queries, repairs_of(counts)), cuts=self._limit.cuts(work))

    @abstractmethod
    def _values(self, pairs: Sequence[Pair], counts: Mapping[QueryId, RepairCounts]) -> Steps[list[float | None]]:
        """Return the value of each pair, from 0 to the best; None where no answer can be read, which is counted."""

    def _prompts(self, pairs: Sequence[Pair]) -> tuple[ChatPrompt, ...]:
        return tuple(
            pair_prompt(self._prompt, self._settings, self._limit, pair.candidates, pair.position, sample=pair.sample)
            for pair in pairs
        )


class NumberReranker(_PairReranker):
    """Has a language model grade each pair by a number."""

    @property
    def _best(self) -> float:
        return self._settings.best_grade

    def _values(self, pairs: Sequence[Pair], counts: Mapping[QueryId, RepairCounts]) -> Steps[list[float | None]]:
        completions: list[Completion | None] = yield Ask(model=self._model, prompts=self._prompts(pairs))
        return [
            self._value(counts[pair.query_id], completion)
            for pair, completion in zip(pairs, completions, strict=True)
        ]

    def _value(self, counts: RepairCounts, completion: Completion | None) -> float | None:
        answer, flaw = self._answer(completion)
        number = read_number(self._told(answer, counts), best=self._best)
        if number is None:
            counts.unreadable[flaw or NO_NUMBER] += 1
            return None
        value, was_within = number
        if not was_within:
            counts.rules[OUT_OF_SCALE] += 1
        return value


class ProbabilityReranker(_PairReranker):
    """Has a language model reason about each pair, and takes the probability of the word that follows."""

    def _values(self, pairs: Sequence[Pair], counts: Mapping[QueryId, RepairCounts]) -> Steps[list[float | None]]:
        prompts = self._prompts(pairs)
        reasonings: list[Completion | None] = yield Ask(model=self._model, prompts=prompts)
        closed = {
            number: self._closed(prompts[number], reasoning, counts[pairs[number].query_id])
            for number, reasoning in enumerate(reasonings)
            if reasoning is not None
        }
        tokens: list[Completion | None] = []
        if closed:
            tokens = yield Ask(model=self._model, prompts=tuple(closed.values()))
        found = dict(zip(closed, tokens, strict=True))
        return [self._value(counts[pair.query_id], found.get(number)) for number, pair in enumerate(pairs)]

    def _closed(self, prompt: ChatPrompt, reasoning: Completion, counts: RepairCounts) -> ChatPrompt:
        """Return the question for the token after a reasoning."""
        settings = self._settings
        text, mark, _ = reasoning.text.partition(settings.closing)
        is_cut = not mark and ending_of(reasoning.finish_reason) != "whole"
        if is_cut:
            counts.rules[REASONING_CUT] += 1
        line = "\n" if is_cut else ""
        whole = f"{prompt.messages[0]['content']}{text}{line}{settings.closing}"
        message = {**prompt.messages[0], "content": whole}
        return replace(prompt, messages=(message,), stop=(), top_tokens=TOP_TOKENS)

    def _value(self, counts: RepairCounts, completion: Completion | None) -> float | None:
        if completion is None:
            counts.unreadable[CONTEXT_LIMIT] += 1
            return None
        found = dict(completion.top_tokens)
        yes, no = (found.get(word) for word in (self._settings.yes, self._settings.no))
        if yes is None and no is None:
            counts.unreadable[NO_NUMBER] += 1
            return None
        least = min(found.values())
        return _share(least if yes is None else yes, least if no is None else no)


def _share(yes: float, no: float) -> float:
    """Return p(yes) / (p(yes) + p(no)) for two natural log-probabilities."""
    return 1 / (1 + math.exp(min(no - yes, 700.0)))


def _of_query(candidates: Candidates, means: Mapping[tuple[QueryId, int], float]) -> list[float]:
    query_id, count = candidates.query.query_id, len(candidates.documents)
    lowest = min((means[query_id, place] for place in range(count) if (query_id, place) in means), default=0.0)
    return [means.get((query_id, place), lowest) for place in range(count)]
