"""Encoders and pair scorers that are classes of the user's, with checks of their answers.

Shape letters: Q queries, B texts of a call, D embedding size.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from r2med_ray.cuts import Side, SideCuts, are_known_sides
from r2med_ray.errors import DataError, OwnCodeError
from r2med_ray.models.catalog.encoders import EncoderRow, Prompts
from r2med_ray.models.catalog.rerankers import RerankerRow
from r2med_ray.models.networks.own_classes import build, import_class
from r2med_ray.protocols import CountsCuts, Encoder, PairScorer
from r2med_ray.readings import Reading, TextRead, tell
from r2med_ray.settings.own_code import own_code
from r2med_ray.types import Document, FloatMatrix
from r2med_ray.vectors import unit_length


class OwnEncoders:
    """A user's encoder for the prompts of any task.

    The class is given the row with the task's prompts: `{instruction}` is filled in already. If the next task has
    other prompts, a new object of the class is built, and the object before is given up.

    Args:
        row: names the class.
        device: `cpu`, `cuda`, ...
        token_budget: most padded tokens of a forward pass.

    Raises:
        ConfigError: the class can't be imported or called, or lacks a method of `protocols.Encoder`.
    """

    def __init__(self, row: EncoderRow, *, device: str, token_budget: int) -> None:
        self._row = row
        self._class = import_class(row, Encoder)
        self._settings = {"device": device, "token_budget": token_budget}
        self._built: tuple[Prompts, Encoder] | None = None

    def with_prompts(self, prompts: Prompts) -> Encoder:
        """Return the encoder that has these prompts.

        Raises:
            ConfigError: the encoder lacks a property of `protocols.Encoder`.
        """
        if self._built is None or self._built[0] != prompts:
            self._built = None  # two encoders may not fit into memory
            filled = {"query_prompt": prompts.query, "document_prompt": prompts.document}
            row = self._row.model_copy(update=filled | {"instructions": {}, "document_instructions": {}})
            self._built = prompts, OwnEncoder(row, build(self._class, row, Encoder, **self._settings))
        return self._built[1]


class OwnEncoder:
    """A user's encoder with checked vectors. The vectors get unit length if the row says `similarity: cosine`.

    Args:
        row: names the class.
        encoder: an object of that class.
    """

    def __init__(self, row: EncoderRow, encoder: Encoder) -> None:
        self._row = row
        self._encoder = encoder

    @property
    def dim(self) -> int:
        return int(self._encoder.dim)

    def encode_queries(self, texts: Sequence[str]) -> FloatMatrix:
        """Return float32 of shape (Q, D): row i is the vector of texts[i].

        Raises:
            DataError: the class returned another shape.
            OwnCodeError: the class raised an error.
        """
        return self._called("encode_queries", texts)

    def encode_documents(self, documents: Sequence[Document]) -> FloatMatrix:
        """Return float32 of shape (B, D): row i is the vector of documents[i].

        Raises:
            DataError: the class returned another shape.
            OwnCodeError: the class raised an error.
        """
        return self._called("encode_documents", documents)

    def encode_plain(self, texts: Sequence[str]) -> FloatMatrix:
        """Return float32 of shape (B, D): row i is the vector of texts[i].

        Raises:
            DataError: the class returned another shape.
            OwnCodeError: the class raised an error.
        """
        return self._called("encode_plain", texts)

    def take_cuts(self) -> SideCuts | None:
        """Return what the class says that it cut since the last call; None if it has no `take_cuts`."""
        return _taken(self._row, self._encoder)

    def _called(self, method: str, items: Sequence[Any]) -> FloatMatrix:
        count = len(items)
        if not count:
            return np.empty((0, self.dim), np.float32)
        self._tell(method, items)
        with own_code(f"{self._row.name}: `{method}` of class {self._row.class_}"):
            vectors_BD: FloatMatrix = np.ascontiguousarray(getattr(self._encoder, method)(items), np.float32)
        if vectors_BD.shape != (count, self.dim):
            raise DataError(
                f"{self._row.name}: `{method}` of class {self._row.class_} returned shape {vectors_BD.shape} for "
                f"{count} texts; it must be ({count}, {self.dim}), where {self.dim} is its `dim`"
            )
        return unit_length(vectors_BD) if self._row.similarity == "cosine" else vectors_BD

    def _tell(self, method: str, items: Sequence[Any]) -> None:
        prompts: Mapping[str, tuple[Side, str]] = {
            "encode_queries": ("query", self._row.query_prompt),
            "encode_documents": ("document", self._row.document_prompt),
            "encode_plain": ("query", ""),
        }
        side, prompt = prompts[method]
        texts = (item.content if isinstance(item, Document) else item for item in items)
        tell(_given(TextRead(side=side, prompt=prompt, text=text, read=None, lost=None)) for text in texts)


class OwnScorer:
    """A user's pair scorer. The number of its scores is checked.

    Args:
        row: names the class.
        device: `cpu`, `cuda`, ...
        token_budget: most padded tokens of a forward pass.

    Raises:
        ConfigError: the class can't be imported or called, or lacks a method of `protocols.PairScorer`.
    """

    def __init__(self, row: RerankerRow, *, device: str, token_budget: int) -> None:
        self._row = row
        own = import_class(row, PairScorer)
        self._scorer: PairScorer = build(own, row, PairScorer, device=device, token_budget=token_budget)

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return one score per (query, document), in the order of the pairs. No pairs give [].

        Raises:
            DataError: the class returned another number of scores.
            OwnCodeError: the class raised an error.
        """
        self._tell(pairs)
        with own_code(f"{self._row.name}: `score_pairs` of class {self._row.class_}"):
            scores = [float(score) for score in self._scorer.score_pairs(pairs)] if pairs else []
        if len(scores) != len(pairs):
            raise DataError(
                f"{self._row.name}: `score_pairs` of class {self._row.class_} returned {len(scores)} scores for "
                f"{len(pairs)} pairs"
            )
        return scores

    def take_cuts(self) -> SideCuts | None:
        """Return what the class says that it cut since the last call; None if it has no `take_cuts`."""
        return _taken(self._row, self._scorer)

    def _tell(self, pairs: Sequence[tuple[str, str]]) -> None:
        def given(query: str, document: str) -> Reading:
            return _given(
                TextRead(side="query", prompt=self._row.query_prompt, text=query, read=None, lost=None),
                TextRead(side="document", prompt=self._row.document_prompt, text=document, read=None, lost=None),
            )

        tell((given(query, document) for query, document in pairs))


def _given(*texts: TextRead) -> Reading:
    """Return what is known of a user's class: the texts that it is given, and the prompts of its row."""
    return Reading(parts=texts, tokens=None, remarks=("the class is given text and prompt, and reads them itself",))


def _taken(row: EncoderRow | RerankerRow, model: object) -> SideCuts | None:
    if not isinstance(model, CountsCuts):
        return None
    where = f"{row.name}: `take_cuts` of class {row.class_}"
    with own_code(where):
        cuts = model.take_cuts()
    if cuts is not None and not are_known_sides(cuts):
        raise OwnCodeError(f"{where} returned {cuts!r:.80}; it must be None, or `query` and `document` → Cuts")
    return cuts
