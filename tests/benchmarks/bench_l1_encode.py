"""L1 for encoders: how long the pieces of a collection's shards take on 1 to 64 actors, beside the lower bound.

    python -m tests.benchmarks.bench_l1_encode

The lower bound is all work divided by all actors, as if single documents could be dealt. The work of a document is
its length. R2MED's lengths are its published means per task. A corpus of 24 million abstracts has log-normal lengths
(sigma 0.5, mean 200 words), from a fixed seed. Shards have 25,000 documents, and are cut and ordered by the package.
As in `distributed.shard_stream`, each actor has a piece that it works on and one that waits at it. The result is
deterministic. Ratios above 1.10 have a mark. Whole shards, as units of work, are beside it.
"""

import heapq
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from r2med_ray.corpora import CorpusShard
from r2med_ray.corpus.pieces import num_pieces
from r2med_ray.first_stages.preparation import ShardWork
from r2med_ray.storage.keys import ArtifactKey
from tests.benchmarks.bars import BARS
from tests.benchmarks.findings import Findings, Measured

BAR = BARS["L1 R2MED"].at_most
ACTORS = (1, 2, 4, 8, 16, 18, 32, 64)
IN_FLIGHT = 2
PER_SHARD = 25_000
BYTES_PER_WORD = 6

R2MED = {
    "Biology": (57_359, 83.6),
    "Bioinformatics": (47_473, 150.5),
    "Medical-Sciences": (34_810, 122.7),
    "MedXpertQA-Exam": (61_379, 154.9),
    "MedQA-Diag": (56_250, 179.7),
    "PMC-Treatment": (28_954, 149.3),
    "PMC-Clinical": (60_406, 480.4),
    "IIYi-Clinical": (10_449, 1_273.0),
}
"""Task → documents, and the mean length of a document in words."""

ABSTRACTS = 24_000_000


class Shard(NamedTuple):
    documents: int
    words: float


def r2med() -> list[Shard]:
    """Return the shards in the order of the tasks."""
    return [
        Shard(min(PER_SHARD, documents - start), min(PER_SHARD, documents - start) * length)
        for documents, length in R2MED.values()
        for start in range(0, documents, PER_SHARD)
    ]


def abstracts() -> list[Shard]:
    lengths = np.random.default_rng(9).lognormal(np.log(200) - 0.125, 0.5, ABSTRACTS)
    return [
        Shard(PER_SHARD, words) for words in np.add.reduceat(lengths, np.arange(0, ABSTRACTS, PER_SHARD)).tolist()
    ]


def in_pieces(shards: Sequence[Shard]) -> list[float]:
    """Return the work of each piece in words, in the order in which pieces are begun."""
    dealt: list[tuple[int, list[float]]] = []
    for index, (documents, words) in enumerate(shards):
        size = int(words * BYTES_PER_WORD)
        shard = CorpusShard(index=index, path="", start_row=0, num_rows=documents, digest="", text_bytes=size)
        work = ShardWork(task="", shard=shard, key=ArtifactKey("", {}), pieces=num_pieces(shard))
        dealt.append((work.weight, [words / work.pieces] * work.pieces))
    return [piece for _, pieces in sorted(dealt, key=lambda each: -each[0]) for piece in pieces]


def makespan(work: Sequence[float], actors: int, in_flight: int) -> float:
    """Return when the last piece is done, if each actor always has `in_flight` pieces of its own."""
    free_at = [0.0] * actors
    waiting = [(0.0, number, actor) for number in range(in_flight) for actor in range(actors)]
    heapq.heapify(waiting)
    for piece in work:
        _, _, actor = heapq.heappop(waiting)
        free_at[actor] += piece
        heapq.heappush(waiting, (free_at[actor], 0, actor))
    return max(free_at)


def ratio(work: Sequence[float], actors: int, in_flight: int = IN_FLIGHT) -> float:
    return makespan(work, actors, in_flight) * actors / sum(work)


def main() -> None:
    findings = Findings(__file__, small=False)
    for name, shards in {"R2MED": r2med(), "abstracts": abstracts()}.items():
        for unit, work in {"shards": [shard.words for shard in shards], "pieces": in_pieces(shards)}.items():
            ratios = {actors: ratio(work, actors) for actors in ACTORS}
            shown = "  ".join(f"{actors}: {each:.2f}{'' if each <= BAR else '!'}" for actors, each in ratios.items())
            print(f"{name:14} {len(work):7,} {unit}  {shown}")
        findings.add(f"L1 {name}", Measured(max(ratios.values()), min(ratios.values()), max(ratios.values())))
    findings.close()


if __name__ == "__main__":
    main()
