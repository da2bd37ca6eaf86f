"""Pairs scored in this process: a failure is tried again once, and then its pair is named."""

from collections.abc import Mapping, Sequence

import pytest

from r2med_ray.errors import StageError
from r2med_ray.protocols import Candidates
from r2med_ray.types import Document, Query
from r2med_ray.workbench.local_runner import LocalScorer
from tests.fakes import scored_by

WORK = [
    Candidates(
        Query(query_id=f"q{number}", text=f"fever {number}"),
        [Document(doc_id=f"d{place}", text="rash " * place) for place in range(3)],
        [0.0] * 3,
    )
    for number in range(3)
]


class Lengths:
    """Scores a pair by its length. It raises an error for one pair, as often as it is told."""

    def __init__(self, times: int) -> None:
        self.times = times

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        if self.times and ("fever 1", "rash rash ") in pairs:
            self.times -= 1
            raise RuntimeError("no score")
        return [float(len(query) + len(text)) for query, text in pairs]


def scores(scorer: Lengths, work: Sequence[Candidates] = WORK) -> Mapping[str, Sequence[float]]:
    return scored_by(LocalScorer(scorer), work).scores


def test_a_scorer_that_fails_once_is_asked_again() -> None:
    # "fever 0" has 7 characters, and "rash " has 5.
    assert scores(Lengths(times=1)) == {f"q{n}": [7.0, 12.0, 17.0] for n in range(3)}


def test_the_pair_that_a_scorer_fails_on_is_named() -> None:
    with pytest.raises(
        StageError, match=r"^rerank failed on query 'q0' and 2 others: query and document 'q1 d2': RuntimeError: no"
    ):
        scores(Lengths(times=100))


def test_no_pairs_have_no_scores() -> None:
    assert scores(Lengths(times=0), []) == {}
