"""Pieces keep any number of encoders busy to the end: within 1.10 of the time that single documents would take."""

import pytest

from tests.benchmarks.bench_l1_encode import ACTORS, BAR, abstracts, in_pieces, r2med, ratio


@pytest.fixture(scope="module")
def dealt() -> dict[str, list[float]]:
    return {"R2MED": in_pieces(r2med()), "24 M abstracts": in_pieces(abstracts())}


@pytest.mark.parametrize("actors", ACTORS)
@pytest.mark.parametrize("corpus", ["R2MED", "24 M abstracts"])
def test_encoders_end_near_the_lower_bound(dealt: dict[str, list[float]], corpus: str, actors: int) -> None:
    assert ratio(dealt[corpus], actors) <= BAR


def test_whole_shards_would_not_do() -> None:
    # The heaviest shard has 10,449 × 1,273 = 13.30 M of 82.47 M words; 64 actors would have 1.289 M words each.
    assert ratio([shard.words for shard in r2med()], 64) == pytest.approx(13.30 / 1.289, abs=0.02)
