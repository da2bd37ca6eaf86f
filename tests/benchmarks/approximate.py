"""What approximate indexes find, and in what share of the time of exact search: the curve of `docs/approximate.svg`.

    python -m tests.benchmarks.approximate [--small]

100,000 documents and 200 queries have 384 components, k = 100. They are drawn around 2,000 centres in 32 dimensions
that a random rotation puts into 384, plus noise, as embeddings have far fewer directions than components. The
documents are in four shards, which share what FAISS was trained on. Each index is searched with one setting after the
other, in turn with exact search (`index: Flat`), and the least of three rounds counts. The time is that of the search
alone: without training, filling and reading. `--small` has 4,000 documents and shorter codes, and draws nothing.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from r2med_ray.indexing.approximate import needs_training, train
from r2med_ray.indexing.dense import DenseIndex
from r2med_ray.ranking_arrays import RankingArrays
from r2med_ray.reporting.plots import drawing
from r2med_ray.retrieval.search import search_shards
from r2med_ray.types import FloatMatrix
from r2med_ray.vectors import unit_length
from tests.benchmarks.findings import REPOSITORY
from tests.benchmarks.rounds import seconds_per_round

PICTURE = REPOSITORY / "docs" / "approximate.svg"
DIMENSIONS, DIRECTIONS, CENTRES = 384, 32, 2_000
TICKS = (0.25, 0.5, 1, 2)
SHARDS, QUERIES, K, ROUNDS = 4, 200, 100, 3

INDEXES = {
    "IVF{cells},Flat": ("nprobe", (1, 4, 16, 64)),
    "IVF{cells},SQ8": ("nprobe", (1, 4, 16, 64)),
    "IVF{cells},{codes}": ("nprobe", (1, 4, 16, 64)),
    "IVF{cells},RaBitQfs4": ("nprobe", (1, 4, 16, 64)),
    "HNSW32": ("efSearch", (100, 200, 400)),
}
"""Factory string → the parameter of its search, and the values that are tried."""


class Point(NamedTuple):
    """One setting of one index."""

    index: str
    setting: str
    recall: float
    """The share of the K documents of exact search that it finds, the mean over queries."""

    share: float
    """Its seconds over those of exact search."""


def drawn(count: int, seed: int) -> FloatMatrix:
    """Return vectors of unit length: float32 of shape (count, 384)."""
    of_all, of_these = np.random.default_rng(0), np.random.default_rng(seed)
    centres = of_all.standard_normal((CENTRES, DIRECTIONS))
    rotation, _ = np.linalg.qr(of_all.standard_normal((DIMENSIONS, DIRECTIONS)))
    near = centres[of_these.integers(CENTRES, size=count)] + 0.5 * of_these.standard_normal((count, DIRECTIONS))
    spread = near @ rotation.T + 0.02 * of_these.standard_normal((count, DIMENSIONS))
    return unit_length(spread.astype(np.float32))


def measured(shards: list[FloatMatrix], queries: FloatMatrix, cells: int, codes: str) -> Iterator[Point]:
    ids = [[f"{shard}-{row}" for row in range(len(vectors))] for shard, vectors in enumerate(shards)]
    exact = [DenseIndex.build(*each) for each in zip(ids, shards, strict=True)]
    expected = found_by(search_shards(exact, queries, K))
    for template, (parameter, values) in INDEXES.items():
        index = template.format(cells=cells, codes=codes)
        needs = needs_training(index, DIMENSIONS)
        trained = train(np.concatenate(shards), index) if needs else None
        filled = [DenseIndex.build(*each, index, trained).to_bytes() for each in zip(ids, shards, strict=True)]
        for value in values:
            setting = f"{parameter}={value}"
            built = [DenseIndex.from_bytes(*each, f"{index};{setting}") for each in zip(ids, filled, strict=True)]
            found = found_by(search_shards(built, queries, K))
            recall = np.mean([len(these & those) / K for these, those in zip(found, expected, strict=True)])
            seconds = seconds_per_round(
                {
                    "exact": lambda: search_shards(exact, queries, K),
                    "index": lambda built=built: search_shards(built, queries, K),
                },
                ROUNDS,
            )
            yield Point(index, setting, float(recall), min(seconds["index"]) / min(seconds["exact"]))


def found_by(rankings: RankingArrays) -> list[set[str]]:
    return [{hit.doc_id for hit in ranking} for ranking in rankings]


def draw(points: list[Point], file: Path) -> None:
    with drawing(file, height=3.2) as axes:
        for index in dict.fromkeys(point.index for point in points):
            own = [point for point in points if point.index == index]
            axes.plot([point.share for point in own], [point.recall for point in own], "o-", ms=3, lw=1, label=index)
        axes.axvline(1, color="#555555", lw=0.5)
        axes.set_xscale("log")
        axes.minorticks_off()
        axes.set_xticks(TICKS, [f"{tick:g}" for tick in TICKS])
        axes.set_xlabel("time of the search ÷ time of exact search")
        axes.set_ylabel(f"share of the first {K} documents that it finds")
        axes.legend(frameon=False)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    is_small = parser.parse_args().small
    documents, cells, codes = (4_000, 16, "PQ48x4") if is_small else (100_000, 256, "PQ48")
    shards = np.split(drawn(documents, seed=1), SHARDS)
    points = list(measured(shards, drawn(QUERIES, seed=2), cells, codes))
    for point in points:
        print(f"{point.index:18} {point.setting:14} finds {point.recall:.3f} in {point.share:.3f} of the time")
    if not is_small:
        draw(points, PICTURE)


if __name__ == "__main__":
    main()
