"""NanoR2MED's hybrid: fusion, its ties, and the positive at rank 101."""

import random

import pytest

from r2med_ray.errors import DataError
from r2med_ray.retrieval.fusion import fuse
from r2med_ray.retrieval.nano_hybrid import audit, hybrid_list, hybrid_lists, safeguard
from r2med_ray.retrieval.ranked_lists import in_order
from r2med_ray.settings.config import FusionConfig
from r2med_ray.types import Run

FILLER = [f"x{number:03d}" for number in range(200)]


def test_scores_are_sums_over_the_lists() -> None:
    # k = 100. b: 1/102 + 1/101 = 0.01970; a: 1/101 + 1/104 = 0.01952; c: 1/102; d and e: 1/103 each.
    assert hybrid_list([["a", "b", "d"], ["b", "c", "e", "a"]]) == ["b", "a", "c", "d", "e"]


def test_the_constant_decides_between_one_good_rank_and_two_fair_ones() -> None:
    # a is 1st in one list and absent from the other; b is 70th in both. k = 100: 1/101 = 0.00990 < 2/170 = 0.01176.
    # k = 0: 1 > 2/70.
    lists = [["a", *FILLER[:68], "b"], [*FILLER[100:169], "b"]]

    assert hybrid_list(lists)[0] == "b"
    assert hybrid_list(lists, k=0)[0] == "a"


def test_ties_fall_by_best_rank_and_then_by_id_ascending() -> None:
    # z has ranks 1 and 2, y has ranks 2 and 1. Their sums are equal and both have best rank 1, so y is first by its
    # id.
    assert hybrid_list([["z", "y"], ["y", "z"]]) == ["y", "z"]
    # k = 0: m gets 1/1 and a gets 2/2, so they tie. m is at rank 1 of its list, a at rank 2.
    assert hybrid_list([["m"], ["z", "a"]], k=0, weights=[1, 2]) == ["z", "m", "a"]


def test_a_hundred_stay() -> None:
    assert hybrid_list([FILLER]) == FILLER[:100]


def test_the_safeguard_is_drawn_as_documented() -> None:
    positives = ["p3", "p1", "p2"]
    seed = "20260524\0NanoR2MEDBiology\0" + "7\0positive_safeguard"
    by_hand = ["p1", "p2", "p3"][random.Random(seed).randrange(3)]

    drawn = safeguard(FILLER[:100], positives, split="NanoR2MEDBiology", query_id="7")

    assert drawn == by_hand == "p2"
    draws = {safeguard([], positives, split="NanoR2MEDBiology", query_id=str(number)) for number in range(20)}
    assert draws == {"p1", "p2", "p3"}


def test_a_query_that_has_a_positive_gets_no_other() -> None:
    assert safeguard(["x", "p1"], ["p1", "p2"], split="s", query_id="q") is None
    assert safeguard(["x"], [], split="s", query_id="q") is None


def test_lists_of_all_queries_carry_a_safeguard_where_they_need_one() -> None:
    sources = [{"q1": FILLER, "q2": FILLER}, {"q1": FILLER[:150], "q2": FILLER[50:]}]
    qrels = {"q1": {"x199": 1, "x000": 0}, "q2": {"x060": 1}}

    found = hybrid_lists(sources, qrels, split="s")

    assert [len(ranked) for ranked in found.values()] == [101, 100]
    assert found["q1"][100] == "x199"


@pytest.mark.parametrize(
    ("ranked", "message"),
    [
        (["a", "p", "a"], "a document is in the list twice"),
        ([*FILLER[:101], "p"], "102 documents, at most 101"),
        (["a"], "none of its 1 positives"),
    ],
)
def test_the_audit_refuses_what_the_set_does_not_promise(ranked: list[str], message: str) -> None:
    with pytest.raises(DataError, match=f"candidates of query 'q': {message}"):
        audit({"q": ranked}, {"q": {"p": 1}})


def test_the_fusion_of_a_benchmark_file_gives_the_same_list_in_its_order() -> None:
    lists = [FILLER[:150], list(reversed(FILLER))]
    runs = [Run(tag="r", rankings={"q": in_order(ranked)}) for ranked in lists]

    fused = fuse(runs, FusionConfig(method="nano", k=100, depth=150), tag="f", k=500)

    assert [hit.doc_id for hit in fused.rankings["q"]] == hybrid_list([ranked[:150] for ranked in lists])
    assert fused.rankings["q"] == in_order([hit.doc_id for hit in fused.rankings["q"]])
