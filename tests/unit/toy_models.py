"""Classes that a user might name in a models file: right ones and wrong ones."""

from collections.abc import Sequence
from hashlib import sha256
from typing import ClassVar

import numpy as np

from r2med_ray.cuts import Cuts, SideCuts
from r2med_ray.models.catalog.encoders import EncoderRow
from r2med_ray.models.catalog.rerankers import RerankerRow
from r2med_ray.types import Document, FloatMatrix


class LetterCounts:
    """An encoder. Component i is how often the i-th letter of "abc" is in the text with its prompt."""

    dim = 3
    built: ClassVar[list[tuple[str, int]]] = []
    """The device and token budget of each object."""

    def __init__(self, row: EncoderRow, *, device: str, token_budget: int) -> None:
        self.built.append((device, token_budget))
        self.row = row

    def encode_plain(self, texts: Sequence[str]) -> FloatMatrix:
        return np.array([[text.count(letter) for letter in "abc"] for text in texts], np.float32)

    def encode_queries(self, texts: Sequence[str]) -> FloatMatrix:
        return self.encode_plain([self.row.query_prompt + text for text in texts])

    def encode_documents(self, documents: Sequence[Document]) -> FloatMatrix:
        return self.encode_plain([self.row.document_prompt + document.content for document in documents])


class BatchMates(LetterCounts):
    """An encoder whose vectors depend a little on the other texts of a call and on their order, as on a GPU."""

    def encode_documents(self, documents: Sequence[Document]) -> FloatMatrix:
        vectors = super().encode_documents(documents)
        return vectors + 1e-3 * vectors.mean(axis=0) + 1e-4 * np.arange(len(vectors), dtype=np.float32)[:, None]


class SameLetters:
    """A pair scorer. The score is the number of different letters that both texts have."""

    built: ClassVar[list[tuple[str, str, int]]] = []
    """The row, device and token budget of each object."""

    def __init__(self, row: RerankerRow, *, device: str, token_budget: int) -> None:
        self.built.append((row.name, device, token_budget))

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        return [float(len({*query} & {*document})) for query, document in pairs]


class FirstLetters(LetterCounts):
    """An encoder that reads three letters of a text, and says what it cut."""

    counted: object = None
    """What it says."""

    def encode_plain(self, texts: Sequence[str]) -> FloatMatrix:
        return super().encode_plain([text[:3] for text in texts])

    def take_cuts(self) -> object:
        return self.counted


class FirstLettersScorer(SameLetters):
    """A pair scorer that says what it cut."""

    def take_cuts(self) -> SideCuts:
        return {"query": Cuts(texts=1), "document": Cuts(texts=1, cut=1, tokens=9, lost=6, lengths=(3,))}


class OneVectorForAll(LetterCounts):
    def encode_queries(self, texts: Sequence[str]) -> FloatMatrix:
        return np.ones((1, 3), np.float32)


class OneScoreForAll(SameLetters):
    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        return [1.0]


class RaisingEncoder(LetterCounts):
    def encode_documents(self, documents: Sequence[Document]) -> FloatMatrix:
        raise ValueError("boom")


class RaisingScorer(SameLetters):
    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        raise ValueError("boom")


class MisnamedMethod:
    def __init__(self, row: EncoderRow, *, device: str, token_budget: int) -> None: ...

    dim = 3
    encode_query = encode_documents = encode_plain = LetterCounts.encode_plain


class NoSize:
    def __init__(self, row: EncoderRow, *, device: str, token_budget: int) -> None:
        self.dimension = 3

    encode_queries = encode_documents = encode_plain = LetterCounts.encode_plain


class NoSettings(SameLetters):
    def __init__(self, row: RerankerRow) -> None: ...


class DrawnVectors(LetterCounts):
    """An encoder. The eight components of a vector are drawn from -1 to 1 by a hash of the text."""

    dim = 8

    def encode_plain(self, texts: Sequence[str]) -> FloatMatrix:
        drawn = np.frombuffer(b"".join(sha256(text.encode()).digest() for text in texts), ">u4")
        return (drawn.reshape(-1, 8) / 2**31 - 1).astype(np.float32)


class DrawnScores(SameLetters):
    """A pair scorer. The score is drawn from -1 to 1 by a hash of the pair, so no two pairs tie."""

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        digests = [sha256("\0".join(pair).encode()).digest() for pair in pairs]
        return [float(np.float32(int.from_bytes(digest[:4]) / 2**31 - 1)) for digest in digests]


FUNCTION = len
