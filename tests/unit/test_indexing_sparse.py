"""Sparse vectors: how they are stored and scored. A score depends on the query and the document only."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array, random_array

from r2med_ray.errors import DataError
from r2med_ray.indexing.sparse import SparseIndex, query_table, read_queries, read_sparse, sparse_table, split_rows
from r2med_ray.ranking import merge

DOCUMENTS = csr_array(np.array([[1.0, 0.0, 2.0, 0.0], [0.0, 0.5, 0.0, 0.0], [0.5, 0.0, 0.0, 4.0]], np.float32))
IDS = ["d1", "d2", "d3"]


def sparse(rows: int, columns: int, seed: int) -> csr_array:
    return csr_array(
        random_array((rows, columns), density=0.3, rng=np.random.default_rng(seed), dtype=np.float32), copy=True
    )


def test_an_index_holds_eight_bytes_per_entry() -> None:
    weights = csr_array(np.tri(200, dtype=np.float32))
    table = pa.concat_tables([sparse_table(range(200), [f"d{row}" for row in range(200)], weights)])
    held = SparseIndex.of_table(table[50:150])._weights_NV

    # The rows 50 to 149 have 51 to 150 entries.
    assert held.nnz == sum(range(51, 151))
    assert held.data.nbytes + held.indices.nbytes == 8 * held.nnz


def test_a_score_is_the_inner_product_and_a_document_without_a_shared_entry_is_no_hit() -> None:
    query = csr_array(np.array([[2.0, 0.0, 1.0, 0.0]], np.float32))

    [ranking] = SparseIndex(IDS, DOCUMENTS).search(query, 10)

    # d1: 2 × 1 + 1 × 2 = 4; d3: 2 × 0.5 = 1; d2 shares nothing.
    assert ranking == (("d1", 4.0), ("d3", 1.0))


def test_entries_that_the_shard_has_never_seen_add_nothing() -> None:
    query = csr_array(np.array([[0.0, 2.0, 0.0, 0.0, 9.0]], np.float32))

    assert SparseIndex(IDS, DOCUMENTS[:, :2]).search(query, 10) == [(("d2", 1.0),)]
    assert SparseIndex(IDS, DOCUMENTS).search(csr_array((2, 9), dtype=np.float32), 10) == [(), ()]


def test_equal_scores_stand_in_trec_evals_order_at_the_cut() -> None:
    index = SparseIndex(["a", "c", "b"], csr_array(np.ones((3, 1), np.float32)))

    assert [hit.doc_id for hit in index.search(csr_array(np.ones((1, 1), np.float32)), 2)[0]] == ["c", "b"]


def test_stored_vectors_come_back_as_they_were(tmp_path: Path) -> None:
    table = sparse_table([7, 8, 9], IDS, DOCUMENTS)
    pq.write_table(table, tmp_path / "vectors.parquet")
    stored = pq.read_table(tmp_path / "vectors.parquet")

    assert stored.schema.field("indices").type == pa.list_(pa.int32())
    assert stored.schema.field("values").type == pa.list_(pa.float32())
    assert stored["row"].to_pylist() == [7, 8, 9]
    doc_ids, weights = read_sparse(stored)
    assert doc_ids == IDS
    assert (weights != DOCUMENTS).nnz == 0


def test_a_shard_of_no_documents_can_be_stored_and_searched() -> None:
    index = SparseIndex.of_table(sparse_table([], [], csr_array((0, 4), dtype=np.float32)))

    assert index.search(DOCUMENTS, 3) == [(), (), ()]


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_nf01_a_weight_that_is_not_finite_is_refused_with_its_document(wrong: float) -> None:
    vectors = DOCUMENTS.copy()
    vectors.data[-1] = wrong

    with pytest.raises(DataError, match=r"1 of 3 sparse vectors .*not finite, e\.g\. 'd3'"):
        sparse_table(range(3), IDS, vectors)


def test_one_vector_too_few_is_refused() -> None:
    with pytest.raises(DataError, match="2 sparse vectors for 3 texts"):
        sparse_table(range(3), IDS, DOCUMENTS[:2])


def test_a_generated_text_weighs_as_much_as_the_query() -> None:
    query, text = (csr_array(np.array([values], np.float32)) for values in ([3.0, 4.0, 0.0], [0.0, 0.0, 20.0]))

    weights = read_queries(query_table(["q1", "q2"], [[query, text], [query]]))

    # The query has length 5 and the text 20, so the text is scaled by 5 / 20: (3, 4, 0) and (0, 0, 5), halved.
    assert weights.toarray().tolist() == [[1.5, 2.0, 2.5], [3.0, 4.0, 0.0]]


def test_rows_are_split_in_order() -> None:
    assert [row.toarray().tolist() for row in split_rows(DOCUMENTS[:, :2])] == [[[1, 0]], [[0, 0.5]], [[0.5, 0]]]


@settings(max_examples=30)
@given(seed=st.integers(0, 10_000), cut=st.integers(1, 39), k=st.integers(1, 12))
def test_bm05_no_shard_and_no_batch_changes_a_bit_of_a_score(seed: int, cut: int, k: int) -> None:
    documents, queries = sparse(40, 50, seed), sparse(6, 50, seed + 1)
    ids = [f"d{number}" for number in range(40)]
    whole = SparseIndex(ids, documents).search(queries, k)
    parts = [SparseIndex(ids[:cut], documents[:cut]), SparseIndex(ids[cut:], documents[cut:])]
    found = [part.search(queries, k) for part in parts]

    assert [merge(rankings, k) for rankings in zip(*found, strict=True)] == whole
    assert [SparseIndex(ids, documents).search(queries[[row]], k)[0] for row in range(6)] == whole


def test_scores_are_the_exact_sums_rounded_once() -> None:
    documents, queries = sparse(40, 500, 1), sparse(6, 500, 2)
    exact = queries.astype(np.float64).toarray() @ documents.astype(np.float64).toarray().T
    found = SparseIndex([str(number) for number in range(40)], documents).search(queries, 40)

    for scores_N, ranking in zip(exact.astype(np.float32).tolist(), found, strict=True):
        assert {hit.doc_id: hit.score for hit in ranking} == {
            str(number): score for number, score in enumerate(scores_N) if score
        }
