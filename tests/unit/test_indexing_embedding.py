"""The vectors of a shard are checked when they are made, and unchanged when they are read."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from r2med_ray.errors import DataError
from r2med_ray.indexing.dense import DenseIndex
from r2med_ray.indexing.embedding import embed_documents, read_vectors
from r2med_ray.types import Document, FloatMatrix
from tests.fakes import WordCountEncoder

DOCUMENTS = [Document(doc_id="d/1", text="fever cough fever"), Document(doc_id="d/2", text="rash")]


class FixedEncoder(WordCountEncoder):
    """An encoder that gives every document the vector that the test wants."""

    def __init__(self, *vectors: Sequence[float], dim: int = 2) -> None:
        super().__init__(*(str(number) for number in range(dim)))
        self.vectors = np.array(vectors, np.float32)

    def encode_documents(self, documents: Sequence[Document]) -> FloatMatrix:
        return self.vectors


def through_parquet(table: pa.Table) -> pa.Table:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return pq.read_table(pa.BufferReader(sink.getvalue()))


@pytest.mark.parametrize(("storage", "arrow_type"), [("float32", pa.float32()), ("float16", pa.float16())])
def test_vectors_are_stored_beside_their_rows_and_ids(storage: str, arrow_type: pa.DataType) -> None:
    table = embed_documents(WordCountEncoder("fever", "cough", "rash"), DOCUMENTS, [7, 9], storage)
    read = read_vectors(through_parquet(table))

    assert table.schema == pa.schema(
        [("row", pa.int64()), ("doc_id", pa.string()), ("vector", pa.list_(arrow_type, 3))]
    )
    assert read.rows.tolist() == [7, 9]
    assert read.doc_ids == ["d/1", "d/2"]
    assert read.vectors.tolist() == [[2, 1, 0], [0, 0, 1]]
    assert read.vectors.dtype == np.float32
    assert read.vectors.flags.c_contiguous


def test_en05_a_shard_without_documents_has_no_vectors() -> None:
    read = read_vectors(through_parquet(embed_documents(WordCountEncoder("fever", "rash"), [], [])))

    assert read.vectors.shape == (0, 2)
    assert read.doc_ids == []


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_en01_a_vector_that_is_not_finite_is_refused_by_name(value: float) -> None:
    with pytest.raises(DataError, match=r"1 of 2 documents have a vector that is not finite, e\.g\. 'd/2'"):
        embed_documents(FixedEncoder([1, 0], [0, value]), DOCUMENTS, [0, 1])


def test_vs07_a_component_too_large_for_float16_is_refused_by_name() -> None:
    encoder = FixedEncoder([70_000, 0], [0, 1])

    with pytest.raises(DataError, match=r"beyond the range of float16, store it as float32, e\.g\. 'd/1'"):
        embed_documents(encoder, DOCUMENTS, [0, 1], "float16")
    assert read_vectors(embed_documents(encoder, DOCUMENTS, [0, 1])).vectors[0, 0] == 70_000


def test_vs07_long_vectors_stored_as_float16_have_finite_products() -> None:
    # A norm of 300 in 1,024 dimensions means components of 300 / 32 = 9.375. The product is 90,000, which is above
    # float16's 65,504.
    encoder = FixedEncoder([9.375] * 1024, [0.0] * 1024, dim=1024)
    vectors = read_vectors(embed_documents(encoder, DOCUMENTS, [0, 1], "float16"))

    [ranking] = DenseIndex.build(vectors.doc_ids, vectors.vectors).search(vectors.vectors[:1], 1)

    assert ranking[0] == ("d/1", 90_000)


def test_a_matrix_of_another_shape_is_refused() -> None:
    with pytest.raises(DataError, match=r"shape \(1, 2\) for 2 documents of 2 dimensions"):
        embed_documents(FixedEncoder([1, 0]), DOCUMENTS, [0, 1])
