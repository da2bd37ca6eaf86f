"""The stored indexes of a corpus' shards: trained once for all of them, filled once for each."""

from collections.abc import Sequence
from pathlib import Path

import faiss
import numpy as np
import pytest

from r2med_ray.first_stages import vector_index
from r2med_ray.first_stages.vector_index import open_vector_index, train_vector_index
from r2med_ray.indexing.embedding import vectors_table
from r2med_ray.indexing.keys import ANN_FILE, TRAINED_FILE, VECTORS_FILE, ann_key
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import ArtifactKey

SIZES = (400, 0, 200)
FACTORY = "IVF4,Flat;nprobe=1"


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    """A store with the vectors of three shards, of which the second one is empty."""
    opened, random = ArtifactStore(str(tmp_path / "store")), np.random.default_rng(3)
    for shard, size in enumerate(SIZES):
        vectors_ND = random.standard_normal((size, 8)).astype(np.float32)
        with opened.create(key(shard)) as writer:
            ids = [f"{shard}-{row}" for row in range(size)]
            writer.write_table(VECTORS_FILE, vectors_table(range(size), ids, vectors_ND))
    return opened


def key(shard: int) -> ArtifactKey:
    return ArtifactKey("vectors", {"shard": shard})


def trained(store: ArtifactStore, factory: str = FACTORY, shards: Sequence[int] = (0, 1, 2)) -> ArtifactKey | None:
    return train_vector_index(
        store,
        [key(shard) for shard in shards],
        factory,
        num_rows=sum(SIZES[shard] for shard in shards),
        cosine=False,
        attributes={"task": "t"},
    )


def test_all_shards_share_the_cells_that_were_learned_once(store: ArtifactStore) -> None:
    learned = trained(store)
    assert learned is not None
    for shard in range(3):
        open_vector_index(store, key(shard), FACTORY, cosine=False, trained=learned)

    # The empty shard is searched exactly, so it has no index.
    assert sorted(name.partition("/")[0] for name in store.names()) == [*["ann"] * 2, "ann-trained", *["vectors"] * 3]
    assert store.get(learned).attributes == {"task": "t"}
    centroids = [_centroids(store.get(learned).read(TRAINED_FILE))]
    for shard in (0, 2):
        filled = store.get(ann_key(key(shard), FACTORY, unit_length=False, trained=learned.digest))
        centroids.append(_centroids(filled.read(ANN_FILE)))
    assert np.array_equal(centroids[0], centroids[1])
    assert np.array_equal(centroids[0], centroids[2])


def test_what_was_learned_is_found_again_and_so_is_each_filled_index(
    store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned = trained(store)
    first = open_vector_index(store, key(0), FACTORY, cosine=False, trained=learned)
    names = store.names()
    monkeypatch.delattr(vector_index, "train")  # nothing is trained again

    assert trained(store) == learned
    again = open_vector_index(store, key(0), FACTORY, cosine=False, trained=learned)

    queries_QD = np.random.default_rng(4).standard_normal((5, 8))
    assert again.search(queries_QD, 7) == first.search(queries_QD, 7)
    assert store.names() == names


def test_another_number_of_searched_cells_builds_nothing(store: ArtifactStore) -> None:
    open_vector_index(store, key(0), FACTORY, cosine=False, trained=trained(store))
    names = store.names()

    all_cells = "IVF4,Flat;nprobe=4"
    index = open_vector_index(store, key(0), all_cells, cosine=False, trained=trained(store, all_cells))

    assert store.names() == names
    # All cells hold all documents.
    assert [len(ranking) for ranking in index.search(np.ones((1, 8)), 400)] == [400]


@pytest.mark.parametrize(("factory", "shards"), [("HNSW4", (0, 2)), (FACTORY, (1,))])
def test_nothing_is_stored_where_there_is_nothing_to_learn(
    store: ArtifactStore, factory: str, shards: Sequence[int]
) -> None:
    assert trained(store, factory, shards) is None
    assert {name.partition("/")[0] for name in store.names()} == {"vectors"}


def test_each_shard_gives_its_share_of_what_is_trained_on(
    store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    monkeypatch.setattr(vector_index, "training_size", lambda factory: 150)
    monkeypatch.setattr(vector_index, "train", lambda sample, factory: seen.append(len(sample)) or b"learned")

    trained(store)

    # 150 of 600 are a quarter: 100 of 400 and 50 of 200.
    assert seen == [150]


def _centroids(content: bytes) -> np.ndarray:
    index = faiss.deserialize_index(np.frombuffer(content, np.uint8))
    return index.quantizer.reconstruct_n(0, index.nlist)
