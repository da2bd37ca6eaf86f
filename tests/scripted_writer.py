"""A service that writes and judges hard negatives by a script, out of the passages of the demo's pack.

    with Service(completions(Script())) as service: ...                        # everything passes
    Script({"support": lambda prompt: "Grade: 3"})                             # but the judge finds a positive

The script knows a prompt by a phrase of its file, and its query by its text.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import yaml

from r2med_ray.types import Document, FloatMatrix

PHRASES = {
    "hard query": "New question:",
    "another entity": "Passage about another entity:",
    "wrong question": "Passage that answers a different question:",
    "contradicting": "Contradicting passage:",
    "mimic": "Passage about the mimic:",
    "paraphrase": "In other words:",
    "support": "How much does the passage help",
    "rank": "Order the two passages",
    "answer": "with what the passage says",
    "agree": "Do their answers agree",
}
"""Name of a prompt → what only it says."""

KINDS = ("another entity", "wrong question", "contradicting", "mimic")
DEMO = Path(__file__).parents[1] / "r2med_ray" / "corpus" / "demo" / "Demo-Evidence"

Say = Callable[[str], str]
"""Prompt → answer."""


def lines_of(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def name_of(prompt: str) -> str:
    """Return which prompt a text is."""
    [name] = [name for name, phrase in PHRASES.items() if phrase in prompt]
    return name


class Script:
    """Answers prompts as a good writer and good judges do, unless it is told otherwise.

    Args:
        instead: name of a prompt → what is answered in place of that.
    """

    def __init__(self, instead: Mapping[str, Say] | None = None) -> None:
        self._instead = instead or {}
        self._queries = {row["text"]: row["id"] for row in lines_of(DEMO / "query.jsonl")}
        texts = {row["doc_id"]: row["text"] for row in lines_of(DEMO / "hard_negatives" / "passages.jsonl")}
        self._written: dict[tuple[str, str], str] = {}
        for row in lines_of(DEMO / "hard_negatives" / "labels.jsonl"):
            self._written.setdefault((row["query_id"], row["kind"]), texts[row["doc_id"]])
        self._negatives = set(texts.values())

    def __call__(self, prompt: str) -> str:
        name = name_of(prompt)
        return self._instead.get(name, self._good)(prompt)

    def _good(self, prompt: str) -> str:
        name = name_of(prompt)
        if name in KINDS:
            [query_id] = [self._queries[text] for text in self._queries if f"Question:\n{text}\n" in prompt]
            return self._written[query_id, name]
        if name == "rank":
            first = re.findall(r"^\[1\] (.*)$", prompt, re.MULTILINE)[0]
            return "[2] > [1]" if first in self._negatives else "[1] > [2]"
        if name == "paraphrase":
            [passage] = re.findall(r"Passage:\n(.*)\n\nIn other words:", prompt, re.DOTALL)
            return paraphrase(passage)
        return {"hard query": "Which gland has failed?", "support": "Grade: 1", "answer": "no answer", "agree": "no"}[
            name
        ]


class WordBag:
    """An encoder without an order of words: two texts with the same words have the same vector."""

    dim = 512

    def __init__(self, row: object, *, device: str, token_budget: int) -> None:
        pass

    def encode_plain(self, texts: Sequence[str]) -> FloatMatrix:
        vectors = np.zeros((len(texts), self.dim), np.float32)
        for row, text in enumerate(texts):
            for word in text.lower().split():
                vectors[row, int(hashlib.sha256(word.encode()).hexdigest()[:8], 16) % self.dim] += 1
        return vectors

    encode_queries = encode_plain

    def encode_documents(self, documents: Sequence[Document]) -> FloatMatrix:
        return self.encode_plain([document.content for document in documents])


def paraphrase(passage: str) -> str:
    """Return the words of a passage with every fourth and fifth exchanged, so that no run of five words is left."""
    words = passage.split()
    for at in range(3, len(words) - 1, 4):
        words[at], words[at + 1] = words[at + 1], words[at]
    return " ".join(words)


def write_generation(folder: Path, url: str, **changes: object) -> Path:
    """Write the settings of a small generation, whose model is a service."""
    folder.mkdir(parents=True, exist_ok=True)
    row = {"name": "script", "kind": "openai", "model": "script", "base_url": url, "revision": "0" * 40}
    words = {"name": "words", "class": f"{__name__}.{WordBag.__name__}", "max_length": 512, "dtype": "float32"}
    reranker = {"name": "letters", "class": "tests.unit.toy_models.SameLetters"}
    rows = {"language_models": [row], "encoders": [words], "rerankers": [reranker]}
    (folder / "models.yaml").write_text(yaml.safe_dump(rows))
    values: dict[str, object] = {
        "name": "scripted",
        "models": "models.yaml",
        "tasks": ["Demo-Evidence"],
        "writer": "script",
        "judges": ["script"],
        "queries": 2,
        "per_query": 4,
        "attempts": 1,
        "calibration": 2,
        "margin": None,
        "filters": {"length": [0.4, 1.6], "embedder": "words"},
        "resources": {"documents_per_shard": 40},
        **changes,
    }
    path = folder / "generation.yaml"
    path.write_text(yaml.safe_dump(values))
    return path
