import pytest
from hypothesis import given
from hypothesis import strategies as st

from r2med_ray.errors import ConfigError, DataError
from r2med_ray.ranking import best
from r2med_ray.retrieval.fusion import fuse, fuse_lists
from r2med_ray.settings.config import FusionConfig
from r2med_ray.types import Run, ScoredDoc


def run_of(tag="run", **rankings):
    return Run(
        tag=tag,
        rankings={
            query_id: best([ScoredDoc(doc_id, score) for doc_id, score in scores.items()], len(scores))
            for query_id, scores in rankings.items()
        },
    )


def fused(runs, *, k=10, **config):
    return fuse(runs, FusionConfig(**config), tag="fused", k=k).rankings


LEXICAL = run_of("lexical", q1={"a": 9.0, "b": 5.0, "c": 1.0})
VECTORS = run_of("vectors", q1={"c": 0.75, "d": 0.5, "a": 0.25})


def test_rrf_sums_reciprocal_ranks():
    ranking = fused([LEXICAL, VECTORS])["q1"]

    # a: 1/61 + 1/63 = 0.0322665; c: 1/63 + 1/61 is the same; b: 1/62 = 0.0161290; d: 1/62 is the same
    assert [hit.doc_id for hit in ranking] == ["c", "a", "d", "b"]
    assert [hit.score for hit in ranking] == pytest.approx([0.0322665, 0.0322665, 0.0161290, 0.0161290], abs=5e-8)


def test_rrf_takes_its_constant_its_weights_and_its_depth_from_the_config():
    ranking = fused([LEXICAL, VECTORS], k=10, weights=(1.0, 3.0), depth=2)["q1"]

    # the first two of each list: c 3/61 = 0.0491803, d 3/62 = 0.0483871, a 1/61 = 0.0163934, b 1/62 = 0.0161290
    assert [hit.doc_id for hit in ranking] == ["c", "d", "a", "b"]
    assert [hit.score for hit in ranking] == pytest.approx([0.0491803, 0.0483871, 0.0163934, 0.0161290], abs=5e-8)

    # constant 0: a 1/1 + 1/3 = 1.3333333
    ranking = fuse([LEXICAL, VECTORS], FusionConfig(k=0), tag="fused", k=1).rankings["q1"]
    assert ranking == (ScoredDoc("c", pytest.approx(4 / 3, abs=1e-7)),)


def test_sum_adds_scores_as_they_come_and_an_absent_document_gets_nothing():
    ranking = fused([LEXICAL, VECTORS], method="sum", weights=(1.0, 2.0))["q1"]

    # a: 9 + 2 × 0.25, b: 5, c: 1 + 2 × 0.75, d: 2 × 0.5
    assert ranking == (("a", 9.5), ("b", 5.0), ("c", 2.5), ("d", 1.0))


def test_minmax_puts_every_list_between_0_and_1():
    ranking = fused([LEXICAL, VECTORS], method="minmax", weights=(1.0, 2.0))["q1"]

    # lexical: a 1, b (5-1)/8 = 0.5, c 0; vectors: c 1, d (0.5-0.25)/0.5 = 0.5, a 0
    # a: 1 + 0 = 1, b: 0.5, c: 0 + 2 = 2, d: 2 × 0.5 = 1; d is before a, because a has the smaller id
    assert [hit.doc_id for hit in ranking] == ["c", "d", "a", "b"]
    assert [hit.score for hit in ranking] == pytest.approx([2.0, 1.0, 1.0, 0.5], abs=1e-6)


def test_zscore_gives_an_absent_document_what_the_last_of_the_list_got():
    ranking = fused([LEXICAL, VECTORS], method="zscore")["q1"]

    # lexical: mean 5, deviation √(32/3) = 3.265986, so a 1.224745, b 0, c and absent -1.224745
    # vectors: mean 0.5, deviation √(0.125/3) = 0.204124, so c 1.224745, d 0, a and absent -1.224745
    # a: 1.224745 - 1.224745 = 0, c: 0, b: 0 - 1.224745, d: -1.224745 + 0
    scores = dict(ranking)
    assert scores == pytest.approx({"a": 0, "c": 0, "b": -1.224745, "d": -1.224745}, abs=1e-5)


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        # the only hit of a list is its best hit: 1; `lexical` is as above
        ("minmax", {"a": 1.0, "b": 0.5, "c": 0.0, "z": 1.0}),
        # a list of equal scores gives 0 to each; z is absent from `lexical`: -1.224745
        ("zscore", {"a": 1.224745, "b": 0.0, "c": -1.224745, "z": -1.224745}),
    ],
)
def test_a_list_of_equal_scores_is_defined(method, expected):
    lonely = run_of("lonely", q1={"z": 0.1})

    assert dict(fused([LEXICAL, lonely], method=method)["q1"]) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("method", ["rrf", "sum", "minmax", "zscore"])
def test_an_empty_list_adds_nothing(method):
    empty = run_of("empty", q1={})

    assert fused([LEXICAL, empty], method=method) == fused([LEXICAL], method=method)
    assert fused([empty, empty], method=method) == {"q1": ()}


def test_runs_over_other_queries_are_refused():
    with pytest.raises(DataError, match=r"'lexical' and 'other' don't answer the same queries: 2 .* e\.g\. 'q1'"):
        fused([LEXICAL, run_of("other", q2={"a": 1.0})])


def test_weights_must_match_the_runs():
    with pytest.raises(ConfigError, match="2 runs with 1 weights"):
        fused([LEXICAL, VECTORS], weights=(1.0,))
    with pytest.raises(ConfigError, match="0 runs"):
        fused([])


def test_mt05_a_score_that_is_not_finite_is_refused():
    broken = Run(tag="broken", rankings={"q1": (ScoredDoc("d", float("inf")),)})

    with pytest.raises(DataError, match="fuse: query 'q1', document 'd' has score inf"):
        fused([LEXICAL, broken])


def test_sums_are_exact_whatever_the_order_of_the_runs():
    runs = [run_of(q={"d": 1.0}) for _ in range(3)]

    # 10¹⁶ + 1 - 10¹⁶ = 1; if the numbers are added from left to right, the 1 is lost in 10¹⁶
    assert dict(fused(runs, method="minmax", weights=(1e16, 1.0, -1e16))["q"]) == {"d": 1.0}


def test_one_list_keeps_its_order_and_several_are_fused_by_reciprocal_rank():
    assert fuse_lists([["b", "a", "c"]], k=2) == (("b", 2.0), ("a", 1.0))
    # a: 1/62 + 1/61 = 0.0325225, b: 1/61 = 0.0163934, c: 1/62 = 0.0161290
    fused_lists = fuse_lists([["b", "a"], ["a", "c"]], k=3)
    assert [hit.doc_id for hit in fused_lists] == ["a", "b", "c"]
    assert [hit.score for hit in fused_lists] == pytest.approx([0.0325225, 0.0163934, 0.0161290], abs=5e-8)


methods = st.sampled_from(["rrf", "sum", "minmax", "zscore"])
runs = st.lists(
    st.dictionaries(
        st.sampled_from([f"d{i}" for i in range(12)]), st.floats(-1e6, 1e6, width=32), min_size=1, max_size=12
    ).map(lambda scores: run_of(q=scores)),
    min_size=1,
    max_size=4,
)


@given(runs=runs, method=methods, data=st.data())
def test_the_order_of_the_runs_never_matters(runs, method, data):
    shuffled = data.draw(st.permutations(runs))

    assert fused(shuffled, method=method) == fused(runs, method=method)


@given(runs=runs, method=methods, depth=st.integers(1, 5))
def test_fusion_holds_each_document_of_the_lists_once_in_the_one_order(runs, method, depth):
    ranking = fused(runs, k=100, method=method, depth=depth)["q"]

    assert {hit.doc_id for hit in ranking} == {hit.doc_id for run in runs for hit in run.rankings["q"][:depth]}
    assert ranking == best(ranking, len(ranking))


@given(run=runs.map(lambda runs: runs[0]))
def test_fusing_one_run_by_rank_keeps_its_order(run):
    assert [hit.doc_id for hit in fused([run], k=100)["q"]] == [hit.doc_id for hit in run.rankings["q"]]


SCORES = st.dictionaries(
    st.sampled_from("abcdefgh"), st.floats(-50, 50, width=32).map(lambda score: round(score, 1)), min_size=1
)


@given(
    lists=st.lists(SCORES, min_size=2, max_size=4),
    weights=st.lists(st.sampled_from([0.1, 0.25, 1.0, 2.0]), min_size=4, max_size=4),
    method=st.sampled_from(["rrf", "rsf", "dbsf"]),
)
def test_fusion_by_mtebs_words_is_that_of_mtebs_hybrid_search(lists, weights, method):
    theirs = pytest.importorskip("mteb.models.hybrid_wrappers")
    fuses = {"rrf": theirs.fuse_rrf, "rsf": theirs.fuse_relative_score_fusion, "dbsf": theirs.fuse_dbsf}
    runs = [run_of(q1=scores) for scores in lists]
    weights = tuple(weights[: len(runs)])

    ranking = fused(runs, method=method, weights=weights)["q1"]

    # Both sides read the float32 scores that a run holds.
    stored = [dict(run.rankings["q1"]) for run in runs]
    assert dict(ranking) == pytest.approx(dict(fuses[method](stored, weights)), rel=1e-6, abs=1e-6)


def test_equal_scores_are_half_of_the_best_as_in_mteb():
    constant = run_of("constant", q1={"a": 3.0, "b": 3.0})

    for method in ("rsf", "dbsf"):
        # constant: a and b 0.5; VECTORS under rsf: c 1, d 0.5, a 0
        ranking = dict(fused([constant, VECTORS], method=method, weights=(2.0, 1.0))["q1"])
        assert ranking["b"] == 1.0
    assert dict(fused([constant, VECTORS], method="rsf")["q1"]) == {"c": 1.0, "d": 0.5, "a": 0.5, "b": 0.5}
