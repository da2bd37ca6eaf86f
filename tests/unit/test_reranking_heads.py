from dataclasses import dataclass

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from r2med_ray.demands import Score
from r2med_ray.errors import DataError
from r2med_ray.ranking import best
from r2med_ray.reranking.blending import Blend
from r2med_ray.reranking.heads import head_ids, rerank
from r2med_ray.reranking.pair_reranking import PairReranker
from r2med_ray.types import Document, Expansion, Query, Reranking, Run, ScoredDoc
from tests.fakes import SharedWords, answer

QUERY = Query(query_id="q1", text="acute nerve pain", expansions=(Expansion(text="itch", method="hyde"),))
DOCUMENTS = {
    "a": Document(doc_id="a", text="itch"),
    "b": Document(doc_id="b", text="nerve pain"),
    "c": Document(doc_id="c", text="acute nerve pain"),
    "d": Document(doc_id="d", text="nerve pain"),
}
FIRST = Run(tag="first", rankings={"q1": tuple(ScoredDoc(i, s) for i, s in zip("abcd", (9, 8, 7, 6), strict=True))})


@dataclass(frozen=True)
class Row:
    """A scorer in the form that a part sees: a row of the catalogue."""

    name: str = "words"


class Scripted:
    """A scorer with one score per document id. It remembers the candidates of each call."""

    def __init__(self, scores):
        self.scores = scores
        self.work = []

    def score_all(self, work):
        self.work.append(work)
        scores = {
            query.query_id: [self.scores[document.doc_id] for document in documents if document.doc_id in self.scores]
            for query, documents, _ in work
        }
        return Reranking(scores=scores)


def reranked(run, scorer, *, depth, queries=(QUERY,), documents=DOCUMENTS, **settings):
    """Rerank a run by the scores of a scorer, which has `score_all`."""
    steps = rerank(run, PairReranker(Row()), queries, documents, depth=depth, tag="reranked", **settings)
    result, _ = answer(steps, {Score: lambda demand: scorer.score_all(demand.candidates)})
    return result.run


def test_the_head_is_reordered_and_the_rest_stays_below_in_its_order():
    run = reranked(FIRST, SharedWords(), depth=3)

    # a shares 0 of the user's three words, b 2, c 3; d is one step below a
    assert run.tag == "reranked"
    assert run.rankings == {"q1": (("c", 3.0), ("b", 2.0), ("a", 0.0), ("d", -1.0))}


def test_ties_fall_as_everywhere_and_a_deep_head_takes_all():
    run = reranked(FIRST, SharedWords(), depth=100)

    assert [hit.doc_id for hit in run.rankings["q1"]] == ["c", "d", "b", "a"]


def test_the_published_way_leaves_out_what_was_not_scored():
    assert reranked(FIRST, SharedWords(), depth=2, keep_rest=False).rankings == {"q1": (("b", 2.0), ("a", 0.0))}


def test_the_reranker_sees_the_users_query_and_all_heads_in_one_call():
    other = Query(query_id="q2", text="itch")
    unanswered = Query(query_id="q3", text="zzz")
    run = Run(tag="first", rankings={**FIRST.rankings, "q2": (ScoredDoc("a", 1.0),), "q3": ()})
    reranker = Scripted({"a": 1.0, "b": 2.0})

    final = reranked(run, reranker, depth=2, queries=[unanswered, other, QUERY])

    assert reranker.work == [
        (
            (Query(query_id="q1", text="acute nerve pain"), (DOCUMENTS["a"], DOCUMENTS["b"]), (9, 8)),
            (other, (DOCUMENTS["a"],), (1.0,)),
        )
    ]
    assert final.rankings["q3"] == ()


def test_rk03_one_candidate_and_none():
    run = Run(tag="first", rankings={"q1": (ScoredDoc("b", 1.0),)})

    assert reranked(run, SharedWords(), depth=10).rankings == {"q1": (("b", 2.0),)}
    assert reranked(Run(tag="first", rankings={"q1": ()}), SharedWords(), depth=10).rankings == {"q1": ()}


def test_a_score_that_is_not_finite_is_not_blended_away():
    blend = Blend(reranker=1, first_stage=1)

    with pytest.raises(DataError, match="document 'b' has score nan"):
        reranked(FIRST, Scripted({"a": 1.0, "b": float("nan")}), depth=2, blend=blend)
    with pytest.raises(DataError, match="2 candidates and got 1 scores"):
        reranked(FIRST, Scripted({"a": 1.0}), depth=2, blend=blend)


def test_head_ids_are_those_that_a_reranker_will_read():
    run = Run(tag="first", rankings={**FIRST.rankings, "q2": (ScoredDoc("d", 1.0), ScoredDoc("c", 0.5))})

    assert head_ids(run, 1) == {"a", "d"}
    assert head_ids(run, 2) == {"a", "b", "c", "d"}


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ({"a": 1.0, "b": 2.0}, "query 'q1' has 3 candidates and got 2 scores; the first without one is 'c'"),
        ({"a": 1.0, "b": float("nan"), "c": 1.0}, "rerank: query 'q1', document 'b' has score nan"),
        ({"a": 1.0, "b": 1.0, "c": float("-inf")}, "rerank: query 'q1', document 'c' has score -inf"),
        ({"a": float("inf"), "b": float("inf"), "c": float("inf")}, "query 'q1', document 'c' has score inf"),
        # c has the lowest float32, and there is no room below it
        ({"a": 1.0, "b": 1.0, "c": -3.4028234e38}, "rerank: query 'q1', document 'd' has score -inf"),
    ],
)
def test_mt05_a_score_that_is_missing_or_not_finite_names_query_and_document(scores, message):
    with pytest.raises(DataError, match=message):
        reranked(FIRST, Scripted(scores), depth=3)


def test_a_query_that_the_reranker_left_out_is_an_error():
    class Silent(Scripted):
        def score_all(self, work):
            return Reranking(scores={})

    with pytest.raises(DataError, match="'q1' has 2 candidates and got 0 scores; the first without one is 'a'"):
        reranked(FIRST, Silent({}), depth=2)


def test_the_scores_that_decided_are_returned_beside_the_run():
    steps = rerank(FIRST, PairReranker(Row()), [QUERY], DOCUMENTS, depth=2, tag="reranked")

    result, demanded = answer(steps, {Score: lambda demand: SharedWords().score_all(demand.candidates)})

    assert result.reranking == Reranking(scores={"q1": [0.0, 2.0]})
    assert [demand.scorer for demand in demanded] == [Row()]


def test_queries_and_documents_must_be_those_of_the_run():
    with pytest.raises(DataError, match=r"differ in 1 ids, e\.g\. 'q2'"):
        reranked(FIRST, SharedWords(), depth=2, queries=[QUERY, Query(query_id="q2", text="x")])
    run = Run(tag="first", rankings={"q1": (ScoredDoc("z", 1.0),)})
    with pytest.raises(DataError, match="query 'q1', document 'z' was not read"):
        reranked(run, SharedWords(), depth=2)


@pytest.mark.parametrize(("scores", "warned"), [((1.0, 1.0, 1.0), True), ((1.0, 2.0, 1.0), False)])
def test_rk05_a_reranker_that_tells_no_candidates_apart_is_reported(caplog, scores, warned):
    reranked(FIRST, Scripted(dict(zip("abc", scores, strict=True))), depth=3)

    assert ("all candidates tie in 1 of 1 queries" in caplog.text) is warned


rankings = st.integers(1, 40).map(
    lambda length: tuple(ScoredDoc(f"d{i:02}", float(length - i)) for i in range(length))
)


@given(
    ranking=rankings,
    depth=st.integers(1, 50),
    scores=st.lists(st.floats(-(2.0**126), 2.0**126, width=32), min_size=40, max_size=40),
)
def test_reranking_keeps_the_documents_of_head_and_rest_and_so_recall(ranking, depth, scores):
    run = Run(tag="first", rankings={"q": ranking})
    documents = {hit.doc_id: Document(doc_id=hit.doc_id, text="") for hit in ranking}
    reranker = Scripted({hit.doc_id: score for hit, score in zip(ranking, scores, strict=False)})

    queries = [Query(query_id="q", text="")]
    final = reranked(run, reranker, depth=depth, queries=queries, documents=documents).rankings["q"]

    assert {hit.doc_id for hit in final[:depth]} == {hit.doc_id for hit in ranking[:depth]}
    assert [hit.doc_id for hit in final[depth:]] == [hit.doc_id for hit in ranking[depth:]]
    assert final == best(final, len(final))
    below = np.array([hit.score for hit in final[max(0, min(depth, len(ranking)) - 1) :]], dtype=np.float32)
    assert (np.diff(below) < 0).all()


@pytest.mark.parametrize("lowest", [0.0, 1e-30, -1e-45, 0.3, -0.3, 2.0**22, -(2.0**24), 1e30, -1e30])
def test_trec_eval_sees_the_rest_below_the_head_however_large_or_small_its_scores(lowest):
    head = {"a": lowest, "b": lowest}

    ranking = reranked(FIRST, Scripted(head), depth=2).rankings["q1"]

    run = {"q1": dict(ranking)}
    places = {}
    for doc_id in "abcd":
        evaluator = pytrec_eval.RelevanceEvaluator({"q1": {doc_id: 1}}, {"recip_rank"})
        places[doc_id] = round(1 / evaluator.evaluate(run)["q1"]["recip_rank"])

    assert sorted(places, key=places.__getitem__) == [hit.doc_id for hit in ranking] == ["b", "a", "c", "d"]
    assert ranking[1].score > ranking[2].score > ranking[3].score
