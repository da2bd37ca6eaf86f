"""L1 for encoders: how long the shards of a collection take on 1 to 64 actors, beside the lower bound.

    python -m tests.benchmarks.bench_l1_encode

The lower bound is all work divided by all actors, as if single documents could be dealt. The work of a shard is the
sum of its documents' lengths. R2MED's lengths are its published means per task. A corpus of 24 million abstracts has
log-normal lengths (sigma 0.5, mean 200 words), from a fixed seed. As in `distributed.shard_stream`, each actor has a
shard that it works on and one that waits at it. The result is deterministic. Ratios above 1.10 have a mark.

    task order       as the shards are listed: task after task
    heaviest first   the order that deals best; the keys of artefacts don't depend on it
"""

import heapq
from collections.abc import Sequence

import numpy as np

BAR = 1.10
ACTORS = (1, 2, 4, 8, 16, 18, 32, 64)
IN_FLIGHT = 2
SHARDINGS = (25_000, 10_000, 2_500, 500)

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


def r2med(per_shard: int) -> list[float]:
    """Return the work of each shard, in words, in the order of the tasks."""
    return [
        min(per_shard, documents - start) * length
        for documents, length in R2MED.values()
        for start in range(0, documents, per_shard)
    ]


def abstracts(per_shard: int) -> list[float]:
    """Return the work of each shard, in words."""
    lengths = np.random.default_rng(9).lognormal(np.log(200) - 0.125, 0.5, ABSTRACTS)
    return np.add.reduceat(lengths, np.arange(0, ABSTRACTS, per_shard)).tolist()


def makespan(work: Sequence[float], actors: int, in_flight: int) -> float:
    """Return when the last shard is done, if each actor always has `in_flight` shards of its own."""
    free_at = [0.0] * actors
    waiting = [(0.0, number, actor) for number in range(in_flight) for actor in range(actors)]
    heapq.heapify(waiting)
    for shard in work:
        _, _, actor = heapq.heappop(waiting)
        free_at[actor] += shard
        heapq.heappush(waiting, (free_at[actor], 0, actor))
    return max(free_at)


def ratio(work: Sequence[float], actors: int, in_flight: int = IN_FLIGHT) -> float:
    return makespan(work, actors, in_flight) * actors / sum(work)


def main() -> None:
    for name, shards_of in {"R2MED": r2med, "24 M abstracts": abstracts}.items():
        for per_shard in SHARDINGS:
            work = shards_of(per_shard)
            for order, listed in {"task order": work, "heaviest first": sorted(work, reverse=True)}.items():
                ratios = {actors: ratio(listed, actors) for actors in ACTORS}
                shown = "  ".join(
                    f"{actors}: {each:.2f}{'' if each <= BAR else '!'}" for actors, each in ratios.items()
                )
                print(f"{name}, {len(work)} shards of {per_shard}, {order:14} {shown}")


if __name__ == "__main__":
    main()
