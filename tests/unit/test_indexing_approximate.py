"""Approximate indexes that are trained once for all shards."""

import faiss
import numpy as np
import pytest

from r2med_ray.errors import ConfigError
from r2med_ray.indexing.approximate import ApproximateSearch, needs_training, train
from r2med_ray.indexing.dense import DenseIndex
from r2med_ray.ranking import merge
from r2med_ray.types import FloatMatrix

DIM = 16
SIZES = (700, 3, 297)
"""Documents of three shards. The second one is smaller than anything that FAISS could train on."""


@pytest.fixture(scope="module")
def shards() -> list[FloatMatrix]:
    random = np.random.default_rng(11)
    return [random.standard_normal((size, DIM)).astype(np.float32) for size in SIZES]


@pytest.fixture(scope="module")
def queries() -> FloatMatrix:
    return np.random.default_rng(12).standard_normal((20, DIM)).astype(np.float32)


def ids_of(shard: int) -> list[str]:
    return [f"{shard}-{row:04}" for row in range(SIZES[shard])]


@pytest.mark.parametrize("factory", ["IVF8,Flat;nprobe=2", "IVF8,SQ8;nprobe=3"])
def test_an_inverted_file_over_shards_finds_what_one_over_the_corpus_finds(
    factory: str, shards: list[FloatMatrix], queries: FloatMatrix
) -> None:
    trained = train(np.concatenate(shards), factory)
    corpus = DenseIndex.build([*ids_of(0), *ids_of(1), *ids_of(2)], np.concatenate(shards), factory, trained)
    parts = [DenseIndex.build(ids_of(shard), shards[shard], factory, trained) for shard in range(3)]

    found = [part.search(queries, 10) for part in parts]
    merged = [merge(rankings, 10) for rankings in zip(*found, strict=True)]
    whole = corpus.search(queries, 10)

    assert [[hit.doc_id for hit in ranking] for ranking in merged] == [
        [hit.doc_id for hit in ranking] for ranking in whole
    ]


@pytest.mark.parametrize(
    "factory", ["IVF4,PQ4x4", "IVF4,RaBitQfs", "IVF4,RaBitQfs4", "RaBitQ", "IVF4,SQ8", "PCA8,Flat"]
)
def test_a_shard_of_three_documents_gets_an_index_of_what_was_trained_elsewhere(
    factory: str, shards: list[FloatMatrix], queries: FloatMatrix
) -> None:
    small = ApproximateSearch.fill(shards[1], f"{factory}", train(shards[0], factory))

    assert small.shape[0] == 3
    assert all(set(found.positions.tolist()) <= {0, 1, 2} for found in small.search(queries, 2))


def test_a_trained_index_stays_empty_however_often_it_is_filled(shards: list[FloatMatrix]) -> None:
    trained = train(shards[0], "IVF8,Flat")

    filled = [ApproximateSearch.fill(shard, "IVF8,Flat", trained) for shard in shards]

    assert [search.shape[0] for search in filled] == list(SIZES)


@pytest.mark.parametrize(
    ("factory", "needs"), [("IVF8,Flat;nprobe=2", True), ("PQ4", True), ("RaBitQ", True), ("HNSW8", False)]
)
def test_a_graph_has_nothing_to_learn(factory: str, needs: bool) -> None:
    assert needs_training(factory, DIM) is needs


def test_search_parameters_are_those_of_the_search_and_not_of_the_index_that_is_kept(
    shards: list[FloatMatrix],
) -> None:
    kept = ApproximateSearch.fill(shards[0], "IVF8,Flat;nprobe=2").to_bytes()

    assert faiss.extract_index_ivf(ApproximateSearch.from_bytes(kept, "IVF8,Flat;nprobe=7").index).nprobe == 7


@pytest.mark.parametrize("factory", ["IVF8,Flat;nprob=2", "HNSW8;nprobe=2"])
def test_a_parameter_that_an_index_lacks_is_refused(factory: str, shards: list[FloatMatrix]) -> None:
    with pytest.raises(ConfigError, match=f"index '{factory}' can't be built from 700 vectors of 16 dimensions"):
        ApproximateSearch.fill(shards[0], factory)


@pytest.mark.parametrize("factory", ["IVF64,Flat", "NoSuchIndex"])
def test_what_cant_be_trained_is_refused(factory: str) -> None:
    with pytest.raises(ConfigError, match=f"index '{factory}' can't be built from 8 vectors of 4 dimensions"):
        train(np.random.default_rng(5).standard_normal((8, 4)).astype(np.float32), factory)
