"""Sparse vectors and token vectors: made by a checkpoint, stored as tables, and read back for an index."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from r2med_ray.cuts import SideCuts
from r2med_ray.first_stage import Maker
from r2med_ray.indexing import late_interaction, sparse
from r2med_ray.indexing.codes import OutputDtype
from r2med_ray.indexing.keys import QUERY_VECTORS_FILE, VECTORS_FILE
from r2med_ray.indexing.token_codes import LARGEST_CODE, CompressedTokenIndex
from r2med_ray.models.networks.late_interaction import LateInteractionEncoder
from r2med_ray.models.networks.sparse_encoders import SparseEncoder
from r2med_ray.protocols import Index
from r2med_ray.retrieval.query_parts import encode_parts
from r2med_ray.sentences import Shares, shares
from r2med_ray.settings.compat import Rules
from r2med_ray.storage.artifact import Artifact
from r2med_ray.types import Document, Query


class VectorFormat(NamedTuple):
    """How vectors of one kind are split, stored and searched."""

    split: Callable[[Any], Sequence[Any]]
    """Cuts what the encoder returned into what it made of each text."""

    document_table: Callable[[Any, Sequence[str], Any], pa.Table]
    """Makes a table of the rows of the corpus, the document ids, and what the encoder returned for the documents."""

    query_table: Callable[[Sequence[str], Sequence[Sequence[Any]]], pa.Table]
    """Makes a table of the query ids, and of the vectors of each query's parts."""

    read_queries: Callable[[pa.Table], Any]
    """Reads from the table of queries what an index is asked."""

    open_index: Callable[[Artifact, OutputDtype], Index[Any]]
    """Opens the index of a shard: of its stored vectors, or of codes of them."""

    output_dtypes: tuple[OutputDtype, ...] = ()
    """What codes there are of such vectors."""


DOCUMENTS_AT_ONCE = 128
"""Documents whose tokens are read at once: 5 MB of passages of 150 tokens and 128 dimensions."""


def _open_sparse(stored: Artifact, output_dtype: OutputDtype) -> sparse.SparseIndex:
    return sparse.SparseIndex.of_table(stored.table(VECTORS_FILE))


def _open_tokens(
    stored: Artifact, output_dtype: OutputDtype
) -> late_interaction.LateInteractionIndex | CompressedTokenIndex:
    def read() -> Iterator[late_interaction.TokenVectors]:
        return map(late_interaction.read_tokens, stored.in_parts(VECTORS_FILE, DOCUMENTS_AT_ONCE))

    if output_dtype == "float32":
        return late_interaction.LateInteractionIndex(list(read()))
    return CompressedTokenIndex(read, output_dtype)


SPARSE_VECTORS = VectorFormat(
    split=sparse.split_rows,
    document_table=sparse.sparse_table,
    query_table=sparse.query_table,
    read_queries=sparse.read_queries,
    open_index=_open_sparse,
)
TOKEN_VECTORS = VectorFormat(
    split=list,
    document_table=late_interaction.token_table,
    query_table=late_interaction.query_table,
    read_queries=late_interaction.read_queries,
    open_index=_open_tokens,
    output_dtypes=tuple(LARGEST_CODE),
)


class CheckpointMaker(Maker):
    """Encodes documents and queries with a checkpoint, which brings its own prompts for every task.

    Args:
        form: how the vectors are stored.
        encoder: makes them.
    """

    def __init__(self, form: VectorFormat, encoder: SparseEncoder | LateInteractionEncoder) -> None:
        self._form = form
        self._encoder = encoder

    def make_shard(
        self, task: str, documents: Sequence[Document], rows: Sequence[int] | npt.NDArray[np.int64]
    ) -> Mapping[str, pa.Table]:
        """Return the vectors of a shard's documents, one row per document."""
        ids = [document.doc_id for document in documents]
        return {VECTORS_FILE: self._form.document_table(rows, ids, self._encoder.encode_documents(documents))}

    def make_queries(self, task: str, queries: Sequence[Query], rules: Rules) -> Mapping[str, pa.Table]:
        """Return the vectors of queries, one row per query: those of its parts together."""
        parts = encode_parts(
            queries,
            lambda texts: self._form.split(self._encoder.encode_queries(texts)),
            lambda documents: self._form.split(self._encoder.encode_documents(documents)),
        )
        return {QUERY_VECTORS_FILE: self._form.query_table([query.query_id for query in queries], parts)}

    def take_cuts(self) -> SideCuts:
        """Return what was cut since the last call."""
        return self._encoder.take_cuts()


class TokenMaker(CheckpointMaker):
    """Gives each token a vector, and says which sentences of a document make its score.

    Args:
        encoder: makes the vectors.
    """

    def __init__(self, encoder: LateInteractionEncoder) -> None:
        super().__init__(TOKEN_VECTORS, encoder)
        self._tokens = encoder

    def sentence_shares(self, query: Query, documents: Sequence[Document]) -> list[Shares]:
        """Return the share of each sentence in the score of each document for a query."""
        [asked] = late_interaction.read_queries(self.make_queries("", [query], Rules())[QUERY_VECTORS_FILE])
        query_SD = asked.vectors.astype(np.float32)
        return [
            shares(query_SD @ vectors_TD.astype(np.float32).T, sentences_T, asked.weights)
            for vectors_TD, sentences_T in self._tokens.encode_sentences(documents)
        ]
