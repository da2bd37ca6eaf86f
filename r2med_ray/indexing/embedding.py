"""Makes and checks the vectors of one shard's documents, and puts them into a table with rows and ids.

Shape letters: N documents, D embedding size.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from r2med_ray.errors import DataError
from r2med_ray.protocols import Encoder
from r2med_ray.storage.arrow import numbers, whole
from r2med_ray.types import DocId, Document, FloatMatrix

Storage: TypeAlias = Literal["float32", "float16"]

NAMED_IN_ERRORS = 5
"""How many ids an error lists."""


class Vectors(NamedTuple):
    """The vectors of a shard. `vectors[i]` belongs to `rows[i]` and `doc_ids[i]`."""

    rows: npt.NDArray[np.int64]
    doc_ids: list[DocId]
    vectors: FloatMatrix
    """float32, shape (N, D), contiguous."""


def embed_documents(
    encoder: Encoder,
    documents: Sequence[Document],
    rows: Sequence[int] | npt.NDArray[np.int64],
    storage: Storage = "float32",
) -> pa.Table:
    """Embed documents and return them as columns row, doc_id, vector.

    Args:
        encoder: is called once with all documents, and batches them itself.
        documents: N documents.
        rows: the N row numbers of the documents in the corpus.
        storage: dtype of the stored components; float16 halves the size and holds values up to 65,504.

    Raises:
        DataError: the encoder's matrix has another shape than (N, D), or a vector isn't finite or doesn't fit into
            `storage`; names the ids.
    """
    doc_ids = [document.doc_id for document in documents]
    vectors_ND = np.asarray(encoder.encode_documents(documents), np.float32)
    if vectors_ND.shape != (len(documents), encoder.dim):
        raise DataError(
            f"the encoder returned vectors of shape {vectors_ND.shape} for {len(documents)} documents "
            f"of {encoder.dim} dimensions"
        )
    _require_finite(vectors_ND, doc_ids, "not finite")
    with np.errstate(over="ignore"):
        stored_ND = np.ascontiguousarray(vectors_ND, storage)
    _require_finite(stored_ND, doc_ids, f"beyond the range of {storage}, store it as float32")
    return vectors_table(rows, doc_ids, stored_ND)


def vectors_table(
    rows: Sequence[int] | npt.NDArray[np.int64], ids: Sequence[str], vectors_ND: npt.NDArray[np.floating]
) -> pa.Table:
    """Return N rows, N ids and a contiguous (N, D) matrix as columns row, doc_id, vector."""
    return pa.table(
        {
            "row": pa.array(np.asarray(rows, np.int64)),
            "doc_id": pa.array(ids, pa.string()),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors_ND.ravel()), vectors_ND.shape[1]),
        }
    )


def read_vectors(table: pa.Table) -> Vectors:
    """Return the vectors of a table of `embed_documents`, with float32 components."""
    column = whole(table["vector"])
    vectors_ND = numbers(column.flatten()).reshape(-1, column.type.list_size)
    return Vectors(
        rows=numbers(table["row"]),
        doc_ids=table["doc_id"].to_pylist(),
        vectors=np.ascontiguousarray(vectors_ND, np.float32),
    )


def _require_finite(vectors_ND: npt.NDArray[np.floating], doc_ids: Sequence[DocId], problem: str) -> None:
    bad = np.flatnonzero(~np.isfinite(vectors_ND).all(axis=1))
    if len(bad):
        named = ", ".join(repr(doc_ids[position]) for position in bad[:NAMED_IN_ERRORS])
        raise DataError(f"{len(bad)} of {len(doc_ids)} documents have a vector that is {problem}, e.g. {named}")
