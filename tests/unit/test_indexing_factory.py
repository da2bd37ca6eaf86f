"""A factory string always says how much of its index is searched."""

import numpy as np
import pytest

from r2med_ray.errors import ConfigError
from r2med_ray.indexing.dense import DenseIndex
from r2med_ray.indexing.factory import training_size, with_search_parameters


@pytest.mark.parametrize(
    ("factory", "expected"),
    [
        # Half of the cells, at least 16 of them, and no more than there are.
        pytest.param("IVF1024,Flat", "IVF1024,Flat;nprobe=512", id="half of 1024"),
        pytest.param("IVF32,Flat", "IVF32,Flat;nprobe=16", id="half of 32 is the least"),
        pytest.param("IVF30,Flat", "IVF30,Flat;nprobe=16", id="more than half of 30"),
        pytest.param("IVF4,Flat", "IVF4,Flat;nprobe=4", id="all 4"),
        pytest.param("IVF65,Flat", "IVF65,Flat;nprobe=33", id="32.5 is rounded up"),
        pytest.param("OPQ16_64,IVF4k,PQ16", "OPQ16_64,IVF4k,PQ16;nprobe=2048", id="4k cells behind a rotation"),
        pytest.param("IVF256_HNSW32,SQ8", "IVF256_HNSW32,SQ8;nprobe=128", id="the graph finds cells"),
        pytest.param("HNSW32", "HNSW32;efSearch=256", id="graph"),
        pytest.param("PCA64,HNSW16,Flat", "PCA64,HNSW16,Flat;efSearch=256", id="graph behind a projection"),
        pytest.param("Flat", "Flat", id="exact"),
        pytest.param("SQfp16", "SQfp16", id="all of it"),
        pytest.param("IVF64,Flat;nprobe=3", "IVF64,Flat;nprobe=3", id="said"),
        pytest.param("IVF64,PQ8;ht=60", "IVF64,PQ8;ht=60,nprobe=32", id="something else is said"),
        pytest.param("IMI2x8,Flat;nprobe=9", "IMI2x8,Flat;nprobe=9", id="said of a multi-index"),
    ],
)
def test_what_is_not_said_is_filled_in(factory: str, expected: str) -> None:
    assert with_search_parameters(factory) == expected
    assert with_search_parameters(expected) == expected


def test_what_nothing_is_known_of_is_not_guessed() -> None:
    with pytest.raises(ConfigError, match=r"'IMI2x8,Flat' .*FAISS would search one; write 'IMI2x8,Flat;nprobe=N'"):
        with_search_parameters("IMI2x8,Flat")


@pytest.mark.parametrize("factory", ["IVF8,Flat", "HNSW8", "PCA8,IVF8,Flat", "IVF8_HNSW4,Flat", "PCA8,HNSW8,Flat"])
def test_faiss_takes_what_is_filled_in(factory: str) -> None:
    documents_ND = np.random.default_rng(0).standard_normal((400, 16)).astype(np.float32)
    index = DenseIndex.build([f"d{number}" for number in range(400)], documents_ND, with_search_parameters(factory))

    # All 8 cells are searched; the graph keeps more nodes in view than are asked for.
    assert [len(ranking) for ranking in index.search(documents_ND[:3], 100)] == [100] * 3


@pytest.mark.parametrize(
    ("factory", "size"),
    [
        # 40 for each cell, and 65,536 at least.
        pytest.param("IVF1024,Flat;nprobe=9", 65_536, id="1,024 cells"),
        pytest.param("IVF1640,Flat", 65_600, id="1,640 cells"),
        pytest.param("OPQ16_64,IVF4k,PQ16", 163_840, id="4k cells"),
        pytest.param("PQ16", 65_536, id="no cells"),
    ],
)
def test_more_cells_are_trained_on_more_vectors(factory: str, size: int) -> None:
    assert training_size(factory) == size
