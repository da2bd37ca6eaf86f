"""Exact search doesn't depend on shards or batches; approximate search finds its share."""

import subprocess
import sys
from collections.abc import Callable

import faiss
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from r2med_ray.errors import ConfigError, DataError
from r2med_ray.indexing.dense import DenseIndex
from r2med_ray.indexing.exact import SPARE
from r2med_ray.ranking import best_of_scores, merge
from r2med_ray.retrieval.search import search_shards as search_in_turn
from r2med_ray.types import Ranking, ScoredDoc

Matrix = npt.NDArray[np.floating]


def ids(count: int) -> list[str]:
    return [f"d{number}" for number in range(count)]


def random_matrix(count: int, dim: int, seed: int) -> Matrix:
    return np.random.default_rng(seed).standard_normal((count, dim)).astype(np.float32)


def brute_force(documents_ND: Matrix, queries_QD: Matrix, k: int) -> list[Ranking]:
    scores_QN = queries_QD.astype(np.float64) @ documents_ND.astype(np.float64).T
    return [best_of_scores(scores_N.astype(np.float32), ids(len(documents_ND)), k) for scores_N in scores_QN]


def search_shards(documents_ND: Matrix, queries_QD: Matrix, k: int, num_shards: int) -> list[Ranking]:
    """Search shards of every n-th document and one empty shard.

    One after another, each told of the scores before it, they must find the same as each alone.
    """
    names = ids(len(documents_ND))
    shards = [
        DenseIndex.build(names[index::num_shards], documents_ND[index::num_shards]) for index in range(num_shards)
    ]
    shards.append(DenseIndex.build([], documents_ND[:0]))
    answers = [shard.search(queries_QD, k) for shard in shards]
    merged = [merge(rankings, k) for rankings in zip(*answers, strict=True)]
    assert search_in_turn(shards, queries_QD, k) == merged
    return merged


@pytest.fixture(scope="module", name="documents_ND")
def documents_with_copies() -> Matrix:
    """1,000 documents of 64 dimensions. The last 50 are copies of the first 50."""
    documents_ND = random_matrix(1000, 64, seed=1)
    documents_ND[950:] = documents_ND[:50]
    return documents_ND


@pytest.fixture(scope="module", name="queries_QD")
def queries() -> Matrix:
    return random_matrix(20, 64, seed=2)


def test_scores_by_hand() -> None:
    documents_ND = np.array([[3, 4], [0, 1], [-1, 0]])
    [ranking] = DenseIndex.build(["a", "b", "c"], documents_ND).search(np.array([[1, 2]]), 2)

    # 1·3 + 2·4 = 11; 2·1 = 2; −1.
    assert ranking == (ScoredDoc("a", 11), ScoredDoc("b", 2))


@pytest.mark.parametrize("num_shards", [1, 2, 3, 5, 7])
def test_vs05_shards_give_what_one_index_gives(documents_ND: Matrix, queries_QD: Matrix, num_shards: int) -> None:
    expected = brute_force(documents_ND, queries_QD, 100)

    assert search_shards(documents_ND, queries_QD, 100, num_shards) == expected


@pytest.mark.parametrize("batch", [1, 7, 20])
def test_vs05_batches_of_queries_change_nothing(documents_ND: Matrix, queries_QD: Matrix, batch: int) -> None:
    index = DenseIndex.build(ids(1000), documents_ND)
    batches = [queries_QD[start : start + batch] for start in range(0, len(queries_QD), batch)]

    assert [ranking for part in batches for ranking in index.search(part, 10)] == index.search(queries_QD, 10)


@settings(max_examples=30)
@given(
    seed=st.integers(0, 2**32 - 1),
    num_documents=st.integers(0, 120),
    dim=st.sampled_from([1, 3, 8, 17]),
    noise=st.sampled_from([0.0, 1e-8, 1e-7, 1e-6, 1e-3, 1.0]),
    num_shards=st.sampled_from([1, 2, 3, 5, 7]),
    k=st.integers(1, 40),
)
def test_near_ties_are_decided_alike_by_any_shards(
    seed: int, num_documents: int, dim: int, noise: float, num_shards: int, k: int
) -> None:
    random = np.random.default_rng(seed)
    centre_D = random.standard_normal(dim)
    documents_ND = (centre_D + noise * random.standard_normal((num_documents, dim))).astype(np.float32)
    queries_QD = np.float32([centre_D, *random.standard_normal((2, dim))])

    found = search_shards(documents_ND, queries_QD, k, num_shards)

    assert found == DenseIndex.build(ids(num_documents), documents_ND).search(queries_QD, k)
    assert found == [merge([found_one], k) for found_one in found]
    assert [len(ranking) for ranking in found] == [min(k, num_documents)] * 3


@pytest.mark.parametrize("k", [1, 100, 1500])
@pytest.mark.parametrize("order", ["best last", "best first", "equal texts"])
def test_vs05_shards_of_many_blocks_give_what_float64_gives_in_any_order(order: str, k: int) -> None:
    # 7 shards of 1,286 documents are two blocks each; one shard of 9,000 is five. With the best documents last, every
    # block raises the floor of the first query above all documents before it.
    documents_ND, queries_QD = random_matrix(9000, 16, seed=7), random_matrix(5, 16, seed=8)
    if order == "equal texts":
        documents_ND = np.tile(documents_ND[:300], (30, 1))
    else:
        by_score = np.argsort(documents_ND @ queries_QD[0])
        documents_ND = documents_ND[by_score if order == "best last" else by_score[::-1]]
    expected = brute_force(documents_ND, queries_QD, k)

    assert search_shards(documents_ND, queries_QD, k, 1) == expected
    assert search_shards(documents_ND, queries_QD, k, 7) == expected


def test_a_product_beyond_the_range_of_float32_hides_no_document() -> None:
    # 1e30·1e30 is infinite in float32, and so is its negative: their sum is no number. In float64 it is 0.
    # 1·1e30 + 1·1e30 = 2e30, and 1·1e30 − 2·1e30 = −1e30.
    documents_ND = np.array([[1e30, -1e30], [1, 1], [1, -2]])

    [ranking] = DenseIndex.build(["a", "b", "c"], documents_ND).search(np.array([[1e30, 1e30]]), 2)

    assert ranking == (("b", np.float32(2e30)), ("a", 0))


def test_every_tie_at_the_cut_is_looked_at() -> None:
    # There are far more copies than k, and than a GPU is asked for. Of equal scores, the highest ids by code point
    # win.
    copies = 10 * SPARE
    documents_ND = np.tile(random_matrix(1, 32, seed=3), (copies, 1))

    [ranking] = DenseIndex.build(ids(copies), documents_ND).search(documents_ND[:1], 5)

    assert [hit.doc_id for hit in ranking] == sorted(ids(copies), reverse=True)[:5]


@pytest.mark.parametrize("k", [5, 2049])
def test_vs01_a_ranking_is_no_longer_than_the_shard(k: int) -> None:
    rankings = DenseIndex.build(["a", "b"], np.eye(2)).search(np.eye(2), k)

    assert rankings == [(("a", 1), ("b", 0)), (("b", 1), ("a", 0))]


@pytest.mark.parametrize("factory", ["Flat", "IVF64,Flat"])
def test_vs01_an_empty_shard_answers_with_nothing(factory: str) -> None:
    assert DenseIndex.build([], np.zeros((0, 4)), factory).search(np.ones((25, 4)), 3) == [()] * 25


@pytest.mark.parametrize("factory", ["Flat", "HNSW32"])
def test_vs01_nothing_is_asked_for(factory: str) -> None:
    index = DenseIndex.build(["a"], np.ones((1, 4)), factory)

    assert index.search(np.zeros((0, 4)), 3) == []
    assert index.search(np.ones((2, 4)), 0) == [(), ()]


def test_vs01_an_approximate_search_may_find_less() -> None:
    # There are two clusters far apart and one probe, so the other cluster is not searched, and FAISS returns −1.
    documents_ND = np.repeat(np.array([[1.0, 0.0], [0.0, 1.0]]), 50, axis=0) + 1e-3 * random_matrix(100, 2, seed=4)
    [ranking] = DenseIndex.build(ids(100), documents_ND, "IVF2,Flat;nprobe=1").search(np.array([[1.0, 0.0]]), 80)

    assert {hit.doc_id for hit in ranking} == set(ids(50))


@pytest.mark.parametrize(("documents", "queries"), [(np.nan, 1.0), (np.inf, 1.0), (1.0, np.nan), (1.0, 1e39)])
def test_vs01_a_number_that_is_not_finite_is_refused(documents: float, queries: float) -> None:
    with pytest.raises(DataError, match=r"1 of 1 (document|query) vectors are not finite, the first is number 0"):
        DenseIndex.build(["a"], np.array([[documents, 0.0]])).search(np.array([[queries, 0.0]]), 1)


def _read_only(matrix: Matrix) -> Matrix:
    copy = matrix.copy()
    copy.setflags(write=False)
    return copy


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda matrix: matrix.astype(np.float64), id="float64"),
        pytest.param(lambda matrix: matrix.astype(np.float16), id="float16"),
        pytest.param(lambda matrix: np.repeat(matrix, 2, axis=1)[:, ::2], id="every-second-column"),
        pytest.param(np.asfortranarray, id="fortran-order"),
        pytest.param(_read_only, id="read-only"),
    ],
)
def test_vs03_any_dtype_and_layout_is_searched(change: Callable[[Matrix], Matrix]) -> None:
    # Small whole numbers are the same in every dtype.
    random = np.random.default_rng(6)
    documents_ND, queries_QD = random.integers(-9, 10, (2, 40, 8)).astype(np.float32)

    found = DenseIndex.build(ids(40), change(documents_ND)).search(change(queries_QD), 10)

    assert found == brute_force(documents_ND, queries_QD, 10)


@pytest.mark.parametrize("queries", [np.zeros((1, 9)), np.zeros(8)], ids=["9-into-8", "no-matrix"])
def test_vs03_queries_of_another_shape_are_refused(queries: Matrix) -> None:
    with pytest.raises(DataError, match=r"query vectors have shape .*, expected \(any number, 8\)"):
        DenseIndex.build(["a"], np.zeros((1, 8))).search(queries, 1)


def test_ids_must_match_the_vectors() -> None:
    with pytest.raises(DataError, match="1 ids for 2 vectors"):
        DenseIndex.build(["a"], np.eye(2))


@pytest.mark.parametrize(
    ("factory", "least"), [("SQfp16", 0.99), ("HNSW32", 0.8), ("IVF16,Flat;nprobe=16", 1.0), ("IVF16,Flat", 0.1)]
)
def test_an_approximate_index_finds_its_share_and_can_be_stored(
    documents_ND: Matrix, queries_QD: Matrix, factory: str, least: float
) -> None:
    exact = DenseIndex.build(ids(1000), documents_ND).search(queries_QD, 10)
    index = DenseIndex.build(ids(1000), documents_ND, factory)
    found = index.search(queries_QD, 10)
    shared = [{*dict(near)} & {*dict(true)} for near, true in zip(found, exact, strict=True)]

    assert least <= sum(map(len, shared)) / 200 <= 1
    assert DenseIndex.from_bytes(ids(1000), index.to_bytes(), factory).search(queries_QD, 10) == found


@pytest.mark.parametrize("factory", ["IVF64,Flat", "NoSuchIndex"])
def test_an_index_that_cant_be_built_is_refused(factory: str) -> None:
    with pytest.raises(ConfigError, match=f"index '{factory}' can't be built from 8 vectors of 4 dimensions"):
        DenseIndex.build(ids(8), random_matrix(8, 4, seed=5), factory)


def test_an_exact_index_has_nothing_to_store() -> None:
    with pytest.raises(ConfigError, match="an exact index is its vectors"):
        DenseIndex.build(["a"], np.ones((1, 4))).to_bytes()


def test_threads_of_the_caller_are_left_alone(documents_ND: Matrix, queries_QD: Matrix) -> None:
    before = faiss.omp_get_max_threads()
    DenseIndex.build(ids(1000), documents_ND).search(queries_QD, 10)

    assert faiss.omp_get_max_threads() == before


def test_searching_imports_no_torch() -> None:
    code = "import sys, r2med_ray.indexing.dense, r2med_ray.indexing.bm25; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
