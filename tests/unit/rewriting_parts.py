"""Parts that the tests of rewriters share: a task, a row of a language model, and answers to demands."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from r2med_ray.chat import ChatPrompt, Completion
from r2med_ray.corpora import Corpus
from r2med_ray.demands import Ask, Find, Read
from r2med_ray.first_stage import FirstStage
from r2med_ray.types import Document, Query, Run, ScoredDoc, Task

TOOL = cast(FirstStage, "the tool")
"""A stand-in for a first stage. Rewriters pass it on and never use it."""


@dataclass(frozen=True, kw_only=True)
class Model:
    """A row of a language model."""

    name: str = "m"
    answer_format: str = "plain"

    def generation_inputs(self) -> Mapping[str, Any]:
        return {"model": "agent"}


def task(folder: Path | str = "", name: str = "Biology") -> Task:
    corpus = Corpus(key="", digest="", shards=())
    return Task(name=name, suite="T", revision="1", corpus=corpus, queries=(), qrels={}, folder=str(folder))


def said(text: str, *, finish_reason: str = "stop", reasoning: str = "") -> Completion:
    return Completion(text=text, reasoning=reasoning, finish_reason=finish_reason)


def told(prompt: ChatPrompt) -> str:
    """Return the text of a prompt's last message."""
    return prompt.messages[-1]["content"]


def writing(write: Callable[[ChatPrompt], str | Completion | None]) -> dict[type, Callable[[Any], Any]]:
    """Return a function that answers `Ask`; `write` writes the answer to each prompt."""

    def completion(prompt: ChatPrompt) -> Completion | None:
        text = write(prompt)
        return said(text) if isinstance(text, str) else text

    def ask(demand: Ask) -> list[Completion | None]:
        return [completion(prompt) for prompt in demand.prompts]

    return {Ask: ask}


def with_room(words: int) -> Callable[[ChatPrompt], Completion | None]:
    """Return a model that repeats the first version of a prompt with at most `words` words, or returns None."""

    def write(prompt: ChatPrompt) -> Completion | None:
        for number, messages in enumerate((prompt.messages, *prompt.shorter)):
            text = messages[-1]["content"]
            if len(text.split()) <= words:
                return Completion(text=text.upper(), reasoning="", finish_reason="stop", shortened=number)
        return None

    return write


def finding(look_up: Callable[[Query], Sequence[str]]) -> dict[type, Callable[[Any], Any]]:
    """Return functions that answer `Find` with the texts that `look_up` finds, and `Read` with these texts."""
    texts: dict[str, str] = {}

    def find(demand: Find) -> Run:
        rankings = {}
        for query in demand.queries:
            found = {f"{query.query_id}: document {number}": text for number, text in enumerate(look_up(query))}
            texts.update(found)
            ranked = [ScoredDoc(doc_id, -float(rank)) for rank, doc_id in enumerate(found)]
            rankings[query.query_id] = tuple(ranked[: demand.k])
        return Run(tag="found", rankings=rankings)

    def read(demand: Read) -> dict[str, Document]:
        return {doc_id: Document(doc_id=doc_id, text=texts[doc_id]) for doc_id in demand.doc_ids}

    return {Find: find, Read: read}
