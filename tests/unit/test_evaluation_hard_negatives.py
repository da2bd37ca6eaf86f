"""The measures of hard negatives are those of their definitions, worked out by hand."""

import random
from math import comb, log2

import pytest

from r2med_ray.errors import DataError
from r2med_ray.evaluation.evaluate import evaluate
from r2med_ray.evaluation.hard_negatives.comp646 import comp646_figures, heap_order
from r2med_ray.evaluation.hard_negatives.contrasts import contrast_accuracy
from r2med_ray.evaluation.hard_negatives.differences import differences
from r2med_ray.evaluation.hard_negatives.measures import first_ranks, foreign_measures, hard_negative_measures
from r2med_ray.evaluation.hard_negatives.pairs import pair_accuracy
from r2med_ray.evaluation.hard_negatives.placed import placed
from r2med_ray.evaluation.measures import Measure
from r2med_ray.types import Contrast, HardNegative, HardNegatives, Ranking, Run, ScoredDoc

EXACT = 1e-9
QRELS = {"q": {"p1": 1, "p2": 1}}


def ranking(documents: str) -> Ranking:
    return tuple(ScoredDoc(doc_id, float(-place)) for place, doc_id in enumerate(documents.split()))


def run(**rankings: str) -> Run:
    return Run(tag="x", rankings={query_id: ranking(documents) for query_id, documents in rankings.items()})


def labels(**negatives: str) -> HardNegatives:
    return {query_id: dict.fromkeys(doc_ids.split(), HardNegative()) for query_id, doc_ids in negatives.items()}


def ndcg(found: Run) -> float:
    return evaluate(found, QRELS, [Measure.parse("nDCG@5")]).means["nDCG@5"]


def test_the_worked_example_has_the_values_of_its_definitions() -> None:
    found, negatives = run(q="h1 p1 d h2 p2 h3"), labels(q="h1 h2 h3")
    values = hard_negative_measures(placed(found, QRELS, negatives, depth=5), cutoffs=[1, 5], depth=5)

    # The first 5 are h1 p1 d h2 p2: the first is a hard negative, and 2 of 5 are, which are 2 of the query's 3.
    expected = {"hn_success@1": 1, "hn_precision@5": 2 / 5, "hn_recall@5": 2 / 3, "hn_mrr@5": 1, "pos_first_rate": 0}
    assert {name: values[name] for name in expected} == pytest.approx(expected, abs=EXACT)
    ranks = first_ranks(placed(found, QRELS, negatives, depth=5))
    assert (ranks.median, ranks.quartiles, ranks.censored) == (1, (1, 1), 0)
    # p1 is above h2 and h3, p2 is above h3: 3 of 2 x 3 pairs.
    assert pair_accuracy(found, QRELS, negatives, depth=10).pair_acc == pytest.approx(3 / 6, abs=EXACT)
    # The ideal is 1 + 1/log2(3). Without hard negatives the positives are 1st and 3rd, with them 2nd and 5th.
    base, augmented = ndcg(run(q="p1 d p2")), ndcg(found)
    ideal = 1 + 1 / log2(3)
    assert base == pytest.approx((1 + 1 / log2(4)) / ideal, abs=EXACT) == pytest.approx(0.9197, abs=5e-5)
    assert augmented == pytest.approx((1 / log2(3) + 1 / log2(6)) / ideal, abs=EXACT)
    assert augmented - base == pytest.approx(-0.2957, abs=5e-5)


def test_the_worked_example_as_comp646_codes_it() -> None:
    found, negatives = run(q="h1 p1 d h2 p2 h3"), labels(q="h1 h2 h3")

    true_order = comp646_figures(found, ["q"], negatives, cutoffs=[5], path="bm25")

    # Two hard negatives are among the first 5, the first of them in place 0.
    assert {name: value for name, value in true_order.items() if "true" in name} == {
        "has_true_hn_rate_at_5": 1,
        "true_hn_rate_at_5": 2,
        "true_hn_rate_ratio_at_5": pytest.approx(0.4, abs=EXACT),
        "true_hn_rr_at_5": 0,
    }
    # A min-heap that is filled with the scores 6 5 4 3 2 1 is the array 1 3 2 6 4 5.
    assert heap_order(ranking("h1 p1 d h2 p2 h3")) == ["h3", "h2", "p2", "h1", "d", "p1"]


def test_the_published_order_praises_the_system_that_is_always_fooled() -> None:
    """100 documents per query: one system ranks five hard negatives first, the other one ranks them last."""
    filler, hard = [f"d{number:03}" for number in range(95)], [f"h{number}" for number in range(5)]
    fooled, safe = run(q=" ".join([*hard, *filler])), run(q=" ".join([*filler, *hard]))
    qrels, negatives = {"q": {"d000": 1}}, labels(q=" ".join(hard))

    def success(found: Run) -> float:
        return hard_negative_measures(placed(found, qrels, negatives, depth=100), cutoffs=[10], depth=100)[
            "hn_success@10"
        ]

    def published(found: Run) -> dict[str, float]:
        return comp646_figures(found, ["q"], negatives, cutoffs=[10, 100], path="dense")

    assert (success(fooled), success(safe)) == (1, 0)
    # The array of a min-heap begins with its least, so the last ranks are read first. In the array of 100 falling
    # scores, the ranks 1 to 5 lie in the places 63, 95, 79, 71 and 55.
    assert (published(fooled)["has_hn_rate_at_10"], published(safe)["has_hn_rate_at_10"]) == (0, 1)
    assert [heap_order(fooled.rankings["q"]).index(doc_id) for doc_id in hard] == [63, 95, 79, 71, 55]
    assert (published(fooled)["hn_rr_at_100"], published(safe)["hn_rr_at_100"]) == (55, 0)
    assert published(fooled)["hn_rate_at_10"] == -1


def test_a_query_without_hard_negatives_found_is_censored_and_not_dropped() -> None:
    qrels = {f"q{number}": {"p": 1} for number in range(4)}
    negatives = labels(q0="h", q1="h", q2="h", q3="h")
    found = placed(run(q0="h p", q1="p d h", q2="p d e h"), qrels, negatives, depth=3)

    # First ranks: 1, 3, beyond 3, unanswered. The second of four is the median; the third and fourth have no rank.
    ranks = first_ranks(found)
    assert (ranks.median, ranks.quartiles, ranks.censored) == (3, (1, None), 0.5)
    values = hard_negative_measures(found, cutoffs=[3], depth=3)
    assert values["hn_mrr@3"] == pytest.approx((1 + 1 / 3) / 4, abs=EXACT)
    # The positive is first in q1 and q2; q3 has neither and counts a half, which is told apart.
    assert values["pos_first_rate"] == pytest.approx(2.5 / 4, abs=EXACT)
    assert values["neither_found"] == 0.25


def test_equal_scores_fall_in_the_order_of_ids_for_ranks_and_count_a_half_for_pairs() -> None:
    tied = Run(tag="x", rankings={"q": (ScoredDoc("a", 1.0), ScoredDoc("b", 1.0 + 1e-12))})
    qrels, negatives = {"q": {"a": 1}}, labels(q="b")

    # As float32 the scores are equal, so the greater id is first.
    assert placed(tied, qrels, negatives, depth=2)["q"].own == (1,)
    assert pair_accuracy(tied, qrels, negatives, depth=3).pair_acc == 0.5


def test_foreign_hard_negatives_stand_beside_what_chance_would_find() -> None:
    qrels = {"q": {"p": 1}, "r": {"p": 1}}
    negatives = labels(q="h1", r="h2 h3")

    found = placed(run(q="h2 p h1", r="p h2"), qrels, negatives, depth=100)
    values = foreign_measures(found, cutoffs=[2], num_documents=10)

    # q has the foreign h2 and h3, and finds h2; r has the foreign h1, and finds none.
    assert values["foreign_hn_success@2"] == 0.5
    assert values["foreign_hn_precision@2"] == pytest.approx((1 / 2 + 0) / 2, abs=EXACT)
    # Of 10 documents, 2 are foreign for q and 1 for r. A random document is foreign with 2/10 and 1/10.
    assert values["foreign_hn_precision@2 chance"] == pytest.approx((0.2 + 0.1) / 2, abs=EXACT)
    misses = [comb(8, 2) / comb(10, 2), comb(9, 2) / comb(10, 2)]
    assert values["foreign_hn_success@2 chance"] == pytest.approx(1 - sum(misses) / 2, abs=EXACT)


def test_triplets_are_only_those_of_a_negative_and_what_it_was_made_from() -> None:
    negatives = {"q": {"h1": HardNegative(positives=("p2",)), "h2": HardNegative()}}

    found = pair_accuracy(run(q="p1 h1 p2 h2"), QRELS, negatives, depth=10)

    # p1 is above both, p2 above h2 alone: 3 of 4. The only triplet is p2 and h1, which is wrong.
    assert (found.pair_acc, found.triplet_acc, found.num_queries) == (0.75, 0, 1)


def test_documents_that_match_nothing_score_less_than_all_others() -> None:
    # p2 and h2 aren't ranked: p1 beats both, p2 loses to h1 and ties with h2. (1 + 1 + 0 + 1/2) / 4.
    found = pair_accuracy(run(q="p1 h1"), QRELS, labels(q="h1 h2"), depth=10)

    assert found.pair_acc == pytest.approx(2.5 / 4, abs=EXACT)


def test_pairs_are_refused_where_the_ranking_may_have_been_cut() -> None:
    with pytest.raises(DataError, match=r"query 'q': document 'p2' has no score, because .* cut at 2 documents"):
        pair_accuracy(run(q="p1 h1"), QRELS, labels(q="h1"), depth=2)


def test_labels_without_a_query_that_has_a_positive_are_refused() -> None:
    with pytest.raises(DataError, match="none of the 1 queries with a positive has a hard negative of its own"):
        placed(run(q="p1"), QRELS, labels(r="h"), depth=5)


def test_a_foreign_hard_negative_that_is_a_positive_of_the_query_is_none() -> None:
    # d is a positive of q and a hard negative of r.
    found = placed(run(q="d h", r="p d"), {"q": {"d": 1}, "r": {"p": 1}}, labels(q="h", r="d"), depth=5)

    assert (found["q"].foreign, found["q"].num_foreign) == ((), 0)
    assert (found["r"].foreign, found["r"].num_foreign) == ((), 1)


PAIR = Contrast(("q", "r"), ("a", "b"))
"""a is right for q, and b for r."""


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        pytest.param("a b", "b a", 1, id="both right"),
        pytest.param("a b", "a b", 0, id="the same document first for both queries"),
        pytest.param("b a", "a b", 0, id="both wrong"),
        # b isn't ranked, so it scores less than a for q; r ranks neither, which is a tie: 1 × ½.
        pytest.param("a", "", 0.5, id="one right and one tied"),
        pytest.param("b", "", 0, id="one wrong and one tied"),
        # Two ties: ½ × ½, which is chance.
        pytest.param("", "", 0.25, id="both tied"),
    ],
)
def test_a_contrast_is_right_if_both_queries_are(first: str, second: str, expected: float) -> None:
    assert contrast_accuracy(run(q=first, r=second), [PAIR], depth=10) == expected


def test_a_system_that_always_prefers_one_document_of_a_pair_has_half_of_the_pairs_and_no_contrast() -> None:
    found = run(q="a b", r="a b")
    negatives = labels(q="b", r="a")

    # a is right for q and wrong for r.
    assert pair_accuracy(found, {"q": {"a": 1}, "r": {"b": 1}}, negatives, depth=10).pair_acc == 0.5
    assert contrast_accuracy(found, [PAIR], depth=10) == 0


def test_contrasts_are_the_pairwise_accuracy_of_mteb_where_nothing_is_tied() -> None:
    retrieval_metrics = pytest.importorskip("mteb._evaluators.retrieval_metrics")
    draw = random.Random(3)
    orders = {f"{n}_q{m}": draw.sample([f"{n}_doc1", f"{n}_doc2"], 2) for n in range(40) for m in (1, 2)}
    positive = {query_id: query_id.replace("q", "doc") for query_id in orders}
    right = {query_id: {"recall_1": float(order[0] == positive[query_id])} for query_id, order in orders.items()}
    pairs = [Contrast((f"{n}_q1", f"{n}_q2"), (f"{n}_doc1", f"{n}_doc2")) for n in range(40)]

    expected = retrieval_metrics.paired_accuracy({q: {positive[q]: 1} for q in orders}, {}, right)

    assert 0 < expected < 1
    found = run(**{query_id: " ".join(order) for query_id, order in orders.items()})
    assert contrast_accuracy(found, pairs, depth=10) == pytest.approx(expected, abs=EXACT)


def test_a_contrast_is_refused_where_the_ranking_may_have_been_cut() -> None:
    with pytest.raises(DataError, match=r"query 'q': document 'b' has no score, because .* cut at 1 documents"):
        contrast_accuracy(run(q="a", r="b a"), [PAIR], depth=1)


def test_each_system_is_compared_with_itself_and_p_values_are_adjusted_over_systems() -> None:
    base = {"same": dict.fromkeys("abcdef", 0.5), "worse": dict.fromkeys("abcdef", 0.5)}
    changed = {"same": dict.fromkeys("abcdef", 0.5), "worse": dict.fromkeys("abcdef", 0.25)}

    found = differences(base, changed, seed=42)

    # All six differences are -0.25. Of the 2^6 ways to swap, 2 are as far from 0; Holm doubles the least p-value.
    assert found["worse"].difference == pytest.approx(-0.25, abs=EXACT)
    assert found["worse"].interval == pytest.approx((-0.25, -0.25), abs=EXACT)
    assert (found["worse"].p_value, found["worse"].p_adjusted) == pytest.approx((2 / 64, 4 / 64), abs=EXACT)
    assert (found["same"].difference, found["same"].p_adjusted) == (0, 1)
