"""Prompts that ask a language model to rerank: settings, prompt files, and filling in the candidates."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Literal, TypeAlias

from r2med_ray.chat import ChatPrompt
from r2med_ray.cuts import CutCounter, SideCuts
from r2med_ray.protocols import Candidates
from r2med_ray.reranking.orderings import Ordering
from r2med_ray.reranking.shown_ids import without_ids
from r2med_ray.settings.templates import Template, load_template

Strategy: TypeAlias = Literal["listwise", "groupwise"]
"""Under `listwise` the model orders windows, under `groupwise` it grades groups; see `llm_reranking`."""

PLACES = ("query", "passages", "count")
"""The places that a reranker's prompt file must have."""

PROMPTS = Path(str(resources.files("r2med_ray.reranking"))) / "prompts"


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmReranking:
    """Settings by which a language model is asked to rerank. Every field is part of the key of the stored scores."""

    strategy: Strategy = "listwise"
    window: int = 20
    """Number of candidates in one prompt."""

    step: int = 10
    """Number of places that a listwise window moves. Candidates in the overlap of two windows can rise further."""

    passes: int = 1
    """Number of passes. The first pass shows the first stage's order; every other pass shows a shuffled order."""

    show_scores: bool = False
    """Whether each passage is shown with the first stage's score."""

    passage_words: int = 300
    """Number of words of each passage that are shown."""

    seed: int = 42


def load_llm_prompt(strategy: Strategy, *, think: bool = False, prompt: str | None = None) -> Template:
    """Read the prompt file of a reranker.

    Args:
        strategy: the strategy of the shipped prompt file.
        think: whether the shipped prompt file asks for reasoning first.
        prompt: a prompt file of the user's own, in place of a shipped one.

    Raises:
        ConfigError: the file can't be read, has no version, or its places are not exactly `PLACES`.
    """
    shipped = PROMPTS / f"{strategy}{'-think' if think else ''}.txt"
    return load_template(Path(prompt) if prompt else shipped, PLACES)


def window_prompt(
    template: Template, settings: LlmReranking, ordering: Ordering, shown: Sequence[int], *, turn: int
) -> ChatPrompt:
    """Return the question about some candidates of a query. The candidates are numbered from 1 in the shown order.

    Numbers in brackets within the texts would look like these ids, and are shown in round brackets.

    Args:
        template: a prompt with `PLACES`.
        settings: what is shown of each candidate, and the seed. The number of the pass is added to the seed.
        ordering: the query's candidates in one pass.
        shown: positions of the candidates to show.
        turn: number of the window in the pass, from 0. Errors name it.
    """
    query = ordering.candidates.query
    passages = [_passage(settings, number, ordering, position) for number, position in enumerate(shown, start=1)]
    text = template.fill(query=without_ids(query.text), passages="\n".join(passages), count=str(len(shown)))
    return ChatPrompt(
        unit=f"query {query.query_id!r}, pass {ordering.number + 1}, window {turn + 1}",
        messages=({"role": "user", "content": text},),
        seed=settings.seed + ordering.number,
    )


def passage_cuts(settings: LlmReranking, work: Sequence[Candidates]) -> SideCuts:
    """Return what is cut off the texts of all pairs, in words: off passages alone, as queries are shown whole."""
    counter = CutCounter("words")
    passages = (len(document.content.split()) for _, documents, _ in work for document in documents)
    counter.note_first("document", passages, settings.passage_words)
    queries = (len(query.text.split()) for query, _, _ in work)
    counter.note_first("query", queries, times=[len(documents) for _, documents, _ in work])
    return counter.take()


def _passage(settings: LlmReranking, number: int, ordering: Ordering, position: int) -> str:
    words = without_ids(ordering.candidates.documents[position].content).split()[: settings.passage_words]
    score = f"(score {ordering.candidates.scores[position]:.4g}) " if settings.show_scores else ""
    return f"[{number}] {score}{' '.join(words)}"
