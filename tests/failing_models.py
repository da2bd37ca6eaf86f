"""Encoders that fail on texts that say so, for all kinds of first stages. Ray's workers can import them.

boom                      raises a RuntimeError whenever it is read
nan                       gets a vector that is not finite
(no words)                has no tokens
once FOLDER               raises a RuntimeError the first time that any process reads it
end                       ends the process that reads it, as a crash of native code does
end-once FOLDER           ends the first process that reads it
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from r2med_ray.cuts import CutCounter, SideCuts
from r2med_ray.errors import DataError
from r2med_ray.first_stage import Computing, Maker, ShardedFirstStage
from r2med_ray.first_stages.checkpoint_making import CheckpointMaker
from r2med_ray.first_stages.checkpoints import LateInteractionFirstStage, SparseFirstStage
from r2med_ray.first_stages.vectors import DenseFirstStage
from r2med_ray.models.catalog.checkpoints import LateInteractionRow, SparseRow
from r2med_ray.models.catalog.encoders import EncoderRow
from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.settings.compat import Rules
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Document, FloatMatrix, OnBadDocument

LETTERS = "abcdefgh"

MODEL = load_catalog().encoders["all-MiniLM-L6-v2"].model
"""A checkpoint for keys; nothing loads it."""


def letters(texts: Sequence[str]) -> FloatMatrix:
    """Return how often each letter is in each text, float32 of shape (texts, 8); or fail as the texts say."""
    for text in texts:
        if "boom" in text:
            raise RuntimeError("boom")
        if not text.split():
            raise DataError(f"the text has no tokens: {text!r}")
        if text.startswith("once "):
            fail_once(Path(text.split()[1]))
        if text == "end" or (text.startswith("end-once ") and is_first_in(Path(text.split()[1]))):
            os._exit(1)
    counts = np.array([[text.count(letter) for letter in LETTERS] for text in texts], np.float32)
    counts = counts.reshape(len(texts), len(LETTERS))
    counts[[row for row, text in enumerate(texts) if "nan" in text.split()]] = np.nan
    return counts


def fail_once(folder: Path) -> None:
    """Leave the number of this process in a folder, and raise an error if the folder was empty."""
    if is_first_in(folder):
        raise RuntimeError("only once")


def is_first_in(folder: Path) -> bool:
    """Leave the number of this process in a folder, and return whether the folder was empty."""
    is_first = not list(folder.iterdir())
    (folder / str(os.getpid())).touch()
    return is_first


class LettersEncoder:
    """A dense encoder."""

    dim = len(LETTERS)

    def __init__(self, row: EncoderRow, *, device: str, token_budget: int) -> None: ...

    def encode_plain(self, texts: Sequence[str]) -> FloatMatrix:
        return letters(texts)

    encode_queries = encode_plain

    def encode_documents(self, documents: Sequence[Document]) -> FloatMatrix:
        return letters([document.content for document in documents])


class CountingEncoder(LettersEncoder):
    """Counts the words of documents, and cuts none off."""

    def __init__(self, row: EncoderRow, *, device: str, token_budget: int) -> None:
        self._counter = CutCounter()

    def encode_documents(self, documents: Sequence[Document]) -> FloatMatrix:
        vectors = super().encode_documents(documents)
        words = [len(document.content.split()) for document in documents]
        self._counter.note("document", words, [0] * len(words), 8)
        return vectors

    def take_cuts(self) -> SideCuts:
        return self._counter.take()


class SparseLetters:
    def encode_queries(self, texts: Sequence[str]) -> csr_array:
        return csr_array(letters(texts))

    def encode_documents(self, documents: Sequence[Document]) -> csr_array:
        return self.encode_queries([document.content for document in documents])

    def take_cuts(self) -> SideCuts:
        return {}


class LetterVectors:
    """One vector per text, of unit length."""

    def encode_queries(self, texts: Sequence[str]) -> list[Any]:
        counts = letters(texts)
        counts /= np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1e-9)
        return [vector[np.newaxis].astype(np.float16) for vector in counts]

    def encode_documents(self, documents: Sequence[Document]) -> list[Any]:
        return self.encode_queries([document.content for document in documents])

    def take_cuts(self) -> SideCuts:
        return {}


class SparseLettersFirstStage(SparseFirstStage):
    __slots__ = ()

    def load(self, store: ArtifactStore, computing: Computing) -> Maker:
        return CheckpointMaker(self.form, SparseLetters())  # type: ignore[arg-type]


class LateLettersFirstStage(LateInteractionFirstStage):
    __slots__ = ()

    def load(self, store: ArtifactStore, computing: Computing) -> Maker:
        return CheckpointMaker(self.form, LetterVectors())  # type: ignore[arg-type]


KINDS = ("dense", "sparse", "late interaction")


def failing_stage(kind: str, on_bad_document: OnBadDocument = "error") -> ShardedFirstStage:
    """Return a first stage of a kind, whose model is one of this module."""
    common: dict[str, Any] = {"rules": Rules(), "on_bad_document": on_bad_document}
    if kind == "sparse":
        return SparseLettersFirstStage(
            row=SparseRow(name="letters", model=MODEL, max_length=8, dtype="float32"), **common
        )
    if kind == "late interaction":
        row = LateInteractionRow(name="letters", model=MODEL, max_length=8, dtype="float32")
        return LateLettersFirstStage(row=row, **common)
    dense = EncoderRow.model_validate(
        {"name": "letters", "class": f"{__name__}.{LettersEncoder.__name__}", "max_length": 8, "dtype": "float32"}
    )
    return DenseFirstStage(row=dense, **common)
