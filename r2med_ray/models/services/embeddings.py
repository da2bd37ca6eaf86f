"""The client of an embedding service, which turns texts into vectors and keeps every answer.

Shape letters: Q queries, B texts of a call, D embedding size, N texts of one request.
"""

import asyncio
import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from pydantic import BaseModel

from r2med_ray.activity import advanced
from r2med_ray.cuts import CutCounter, Side, SideCuts
from r2med_ray.errors import DataError
from r2med_ray.models.catalog.services import USAGE, ApiEncoderRow
from r2med_ray.models.services.calls import ApiCalls
from r2med_ray.models.services.retries import GarbageError
from r2med_ray.models.services.tokenizers import open_tokenizer
from r2med_ray.readings import Reading, TextRead, tell
from r2med_ray.storage.artifact import Artifact
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import ArtifactKey, fingerprint
from r2med_ray.storage.places import at_once
from r2med_ray.types import Document, FloatMatrix
from r2med_ray.vectors import unit_length

if TYPE_CHECKING:
    from openai import AsyncOpenAI

ANSWER_FILE = "vectors.npy"


class _Input(NamedTuple):
    """A text in the form that is sent."""

    name: str
    """The text's name in errors, e.g. "document 'd1'"."""

    text: str
    tokens: int
    lost: int
    """Tokens that were cut off."""


class _Batch(NamedTuple):
    """The texts of one request, and the key of its answer."""

    inputs: tuple[_Input, ...]
    key: ArtifactKey

    @property
    def unit(self) -> str:
        others = len(self.inputs) - 1
        return self.inputs[0].name + (f" and {others} others" if others else "")


class _Embedding(BaseModel):
    index: int
    embedding: list[float]


class _Usage(BaseModel):
    total_tokens: int


class _Answer(BaseModel):
    """An answer to `/embeddings`."""

    data: list[_Embedding]
    usage: _Usage | None = None


class ApiEncoder:
    """Embeds texts with the service of a row.

    A text that comes twice in a call is sent once. The answer to every request becomes an artefact when it arrives.
    The same request is answered from the store the next time, without the service and without its key. How texts are
    packed into requests depends on the list of texts alone.

    Args:
        row: a row of the catalogue.
        store: where answers are kept.
        asks: whether the service is asked. If not, every vector is zeros: for whoever only wants to know what would
            be sent.

    Raises:
        NotAtHand: the row's tokenizer isn't there.
    """

    def __init__(self, row: ApiEncoderRow, store: ArtifactStore, *, asks: bool = True) -> None:
        self._row = row
        self._store = store
        self._asks = asks
        self._tokenizer = open_tokenizer(row.tokenizer, row.revision)
        self._usage: Counter[str] = Counter()
        self._cuts = CutCounter()

    @property
    def dim(self) -> int:
        return self._row.dimension

    def encode_queries(self, texts: Sequence[str]) -> FloatMatrix:
        """Return float32 of shape (Q, D): row i is the vector of texts[i], requested with the body of a query."""
        return self._encode(texts, _positions(texts), self._row.query_body, "query")

    def encode_documents(self, documents: Sequence[Document]) -> FloatMatrix:
        """Return float32 of shape (B, D): row i is the vector of documents[i], requested with a document's body.

        Raises:
            DataError: a text is empty or longer than the service takes, or a vector hasn't the size that the row
                says.
            StageError: the service refused a request, or didn't answer in time. Earlier answers are kept.
            NotAtHand: the service's key isn't there.
        """
        names = [f"document {document.doc_id!r}" for document in documents]
        return self._encode([each.content for each in documents], names, self._row.document_body, "document")

    def encode_plain(self, texts: Sequence[str]) -> FloatMatrix:
        """Return float32 of shape (B, D): row i is the vector of texts[i], requested without a side's body."""
        return self._encode(texts, _positions(texts), {}, "query")

    def take_usage(self) -> dict[str, int]:
        """Return the counts of `USAGE` since the last call."""
        usage = {name: self._usage[name] for name in USAGE}
        self._usage.clear()
        return usage

    def take_cuts(self) -> SideCuts:
        """Return what was cut since the last call, before it was sent."""
        return self._cuts.take()

    def _encode(self, texts: Sequence[str], names: Sequence[str], body: Mapping[str, Any], side: Side) -> FloatMatrix:
        if not texts:
            return np.empty((0, self.dim), np.float32)
        inputs = [self._input(name, text) for name, text in zip(names, texts, strict=True)]
        most = self._row.max_length
        kept = [most if entry.lost else entry.tokens for entry in inputs]
        self._cuts.note(side, kept, [entry.lost for entry in inputs], most)
        body = {**self._row.body, **body}
        tell((self._reading(side, entry, text, body) for entry, text in zip(inputs, texts, strict=True)))
        if not self._asks:
            return np.zeros((len(texts), self.dim), np.float32)
        distinct: dict[str, _Input] = {}
        for entry in inputs:
            distinct.setdefault(entry.text, entry)
        row_of = {text: row for row, text in enumerate(distinct)}
        batches = [self._batch(packed, body) for packed in self._packed(distinct.values())]
        vectors_BD = np.concatenate(self._answers(batches, body))[[row_of[entry.text] for entry in inputs]]
        return unit_length(vectors_BD) if self._row.similarity == "cosine" else vectors_BD

    def _input(self, name: str, text: str) -> _Input:
        begins = self._tokenizer.cut(text, self._row.max_length)
        lost = 0 if begins == text else self._tokenizer.count(text) - self._row.max_length
        sent = self._row.formatted(begins)
        tokens, most = self._tokenizer.count(sent), self._row.max_input_tokens
        if not sent:
            raise DataError(f"{name}: its text is empty, which {self._row.name} does not embed")
        if tokens > most:
            raise DataError(
                f"{name}: its text is {tokens} tokens long as it is sent ({self._row.input_format}), cut at "
                f"{self._row.max_length}; {self._row.name} takes {most}. Give a smaller `max_length`"
            )
        return _Input(name, sent, tokens, lost)

    def _reading(self, side: Side, entry: _Input, text: str, body: Mapping[str, Any]) -> Reading:
        """Return what the service is sent. Behind the mark of a cut is the rest of the text, which isn't sent."""
        rest = text[len(self._tokenizer.cut(text, self._row.max_length)) :]
        sent = TextRead(side=side, text=entry.text + rest, read=(0, len(entry.text)), lost=entry.lost)
        with_body = f"sent with {json.dumps(dict(body), ensure_ascii=False)}" if body else "sent without further keys"
        tokens = tuple(self._tokenizer.tokens(entry.text))
        return Reading(parts=(sent,), tokens=tokens, limit=self._row.max_length, remarks=(with_body,))

    def _packed(self, inputs: Iterable[_Input]) -> Iterator[tuple[_Input, ...]]:
        packed: list[_Input] = []
        for entry in inputs:
            tokens = sum(other.tokens for other in packed) + entry.tokens
            if packed and (len(packed) == self._row.batch_texts or tokens > self._row.batch_tokens):
                yield tuple(packed)
                packed = []
            packed.append(entry)
        yield tuple(packed)

    def _batch(self, inputs: tuple[_Input, ...], body: Mapping[str, Any]) -> _Batch:
        asked = {
            "service": self._row.base_url,
            "model": self._row.model,
            "dimension": self.dim,
            "body": dict(body),
            "texts": fingerprint([entry.text for entry in inputs]),
        }
        return _Batch(inputs, ArtifactKey("api-vectors", asked))

    def _answers(self, batches: Sequence[_Batch], body: Mapping[str, Any]) -> list[FloatMatrix]:
        """Return the vectors of every batch. The service is asked for the batches that the store doesn't have."""
        stored = self._store.find_all(batch.key for batch in batches)
        missing = [batch for batch, artifact in zip(batches, stored, strict=True) if artifact is None]
        self._usage["stored"] += sum(len(batch.inputs) for batch in batches) - sum(len(b.inputs) for b in missing)
        if missing:
            asyncio.run(self._ask(missing, body))
        return at_once(lambda batch: _read(self._store.get(batch.key)), batches)

    async def _ask(self, batches: Sequence[_Batch], body: Mapping[str, Any]) -> None:
        row = self._row
        stage = f"encode with {row.name}"
        async with ApiCalls(stage, row.base_url, row.key_variable, row.calls, model=row.model) as calls:

            async def ask(batch: _Batch) -> None:
                sent = {**body, "model": self._row.model, "input": [entry.text for entry in batch.inputs]}

                async def request(client: "AsyncOpenAI") -> tuple[FloatMatrix, int]:
                    answer = await client.post("/embeddings", cast_to=object, body=sent)
                    return self._checked(batch, _Answer.model_validate(answer))

                vectors_ND, tokens = await calls.call(request, unit=batch.unit)
                await asyncio.to_thread(self._keep, batch.key, vectors_ND, tokens)
                advanced(len(batch.inputs), tokens)
                self._usage.update(sent=len(batch.inputs), tokens=tokens)

            try:
                await calls.each(batches, ask)
            finally:
                self._usage.update(requests=calls.requests, repeated=calls.retries.total())

    def _checked(self, batch: _Batch, answer: _Answer) -> tuple[FloatMatrix, int]:
        """Return vectors in the order of the batch, float32 of shape (N, D), and the number of tokens to pay for."""
        vectors = {entry.index: entry.embedding for entry in answer.data}
        wanted = len(batch.inputs)
        if len(answer.data) != wanted or vectors.keys() != set(range(wanted)):
            indices = sorted(entry.index for entry in answer.data)
            raise GarbageError(f"{len(answer.data)} vectors for {wanted} texts, with the indices {indices}")
        for index, vector in vectors.items():
            if len(vector) != self.dim:
                raise DataError(
                    f"{batch.inputs[index].name}: {self._row.name} answered with a vector of {len(vector)} "
                    f"dimensions; its row says {self.dim}"
                )
        vectors_ND = np.array([vectors[index] for index in range(wanted)], np.float32)
        if not np.isfinite(vectors_ND).all():
            raise GarbageError("a vector is not finite")
        counted = answer.usage.total_tokens if answer.usage else sum(entry.tokens for entry in batch.inputs)
        return vectors_ND, counted

    def _keep(self, key: ArtifactKey, vectors_ND: FloatMatrix, tokens: int) -> None:
        content = io.BytesIO()
        np.save(content, vectors_ND, allow_pickle=False)
        with self._store.create(key) as writer:
            writer.attributes.update(texts=len(vectors_ND), tokens=tokens)
            writer.write(ANSWER_FILE, content.getvalue())


def _read(artifact: Artifact) -> FloatMatrix:
    vectors_ND: FloatMatrix = np.load(io.BytesIO(artifact.read(ANSWER_FILE)), allow_pickle=False)
    return vectors_ND


def _positions(texts: Sequence[str]) -> list[str]:
    return [f"the text at position {position}" for position in range(len(texts))]
