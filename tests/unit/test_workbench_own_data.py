"""Documents, queries and judgements of a caller are checked like those of files."""

from pathlib import Path
from typing import Any

import pytest

from r2med_ray import open_workbench
from r2med_ray.errors import ConfigError, DataError
from r2med_ray.evaluation.text_ties import TieRange
from r2med_ray.evaluation.trec import read_run, write_run
from r2med_ray.types import Document, Query
from r2med_ray.workbench.own_data import own_documents, own_qrels, own_queries

QRELS = {"q1": {"a": 1}, "q2": {"d": 1}}


def test_ids_with_texts_and_records_are_the_same() -> None:
    assert own_documents({"1": "a"}, "t") == own_documents([Document(doc_id="1", text="a")], "t")
    assert own_queries({"1": "a"}, "t") == own_queries([Query(query_id="1", text="a")], "t")


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        (["rubella"], r"t: document 1: expected a `Document`, or id → text for all of them, got 'rubella'"),
        ({"1": None}, r"t: document '1': text is None; expected a text"),
        ({7: "a"}, r"t: document 7: id is 7; expected a text"),
    ],
)
def test_a_document_that_is_none_is_refused(documents: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        own_documents(documents, "t")


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        (["why"], r"t: query 1: expected a `Query`, .*, got 'why'"),
        ({1: "why"}, r"t: query 1: id is 1; expected a text"),
        ([Query(query_id="1", text="a")] * 2, r"t: query id '1' comes twice"),
    ],
)
def test_a_query_that_is_none_is_refused(queries: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        own_queries(queries, "t")


def test_grades_are_whole_numbers_however_they_are_written() -> None:
    assert own_qrels({"q": {"a": 1.0, "b": "2", "c": -1}}, "t") == {"q": {"a": 1, "b": 2, "c": -1}}  # type: ignore


@pytest.mark.parametrize("grade", [0.5, 1.9, "x", None, 2**70, True])
def test_another_grade_is_refused(grade: Any) -> None:
    with pytest.raises(DataError, match=r"t: query 'q', document 'd': grade .* is no whole number"):
        own_qrels({"q": {"d": grade}}, "t")


@pytest.mark.parametrize("qrels", [{1: {"d": 1}}, {"q": {1: 1}}])
def test_an_id_of_a_judgement_that_is_no_text_is_refused(qrels: Any) -> None:
    with pytest.raises(DataError, match=r"t: qrels of query .*: id is 1; expected a text"):
        own_qrels(qrels, "t")


def test_judgements_of_another_shape_are_refused() -> None:
    with pytest.raises(DataError, match=r"t: query 'q': expected document id → grade, got \['d'\]"):
        own_qrels({"q": ["d"]}, "t")  # type: ignore[dict-item]


@pytest.mark.parametrize("k", [0, -1, 1.5, True])
def test_a_search_for_no_documents_is_refused(tmp_path: Path, k: Any) -> None:
    with open_workbench(tmp_path) as bench:
        task = bench.task("t", documents={"1": "a"}, queries={"q": "a"})
        with pytest.raises(ConfigError, match=rf"should be a whole number from 1, got {k!r}"):
            bench.find(task, "bm25", k=k)
        with pytest.raises(ConfigError, match=r"a system is keys and values, such as .*, got 'bm25'"):
            bench.rank(task, "bm25")  # type: ignore[arg-type]
        with pytest.raises(ConfigError, match="a task needs a name"):
            bench.task("", documents={"1": "a"})


def test_a_measure_says_how_far_it_depends_on_documents_with_the_same_text(tmp_path: Path) -> None:
    documents = {"a": "rash", "b": "rash", "c": "fever", "d": "fever cough", "e": "rash"}
    with open_workbench(tmp_path) as bench:
        task = bench.task("t", documents=documents, queries={"q1": "rash", "q2": "cough"}, qrels=QRELS)
        run = bench.rank(task, {"retriever": "bm25"}).run
        evaluation = bench.measure(run, task, ["RR", "R@5", "Judged@5"])

    # b and e have the text of a. q1 ranks e, b, a by their ids, so its RR is 1/3; in the best order it is 1. The
    # RR of q2 is 1 in any order.
    assert evaluation.means["RR"] == pytest.approx((1 / 3 + 1) / 2)
    assert evaluation.num_same_texts == 2
    assert evaluation.text_ties == {
        "RR": TieRange(num_queries=1, least=pytest.approx(2 / 3), greatest=1.0, with_cut_off=False)
    }
    assert (evaluation.share_tied("RR"), evaluation.share_tied("R@5")) == (0.5, 0.0)


def test_a_run_of_our_own_is_used_as_candidates_though_a_query_got_no_hit(tmp_path: Path) -> None:
    path = tmp_path / "bm25.trec"
    with open_workbench(tmp_path / "store") as bench:
        task = bench.task(
            "t",
            documents={"d1": "fever", "d2": "fever cough", "d3": "rash"},
            queries={"q1": "fever cough", "q2": "vertigo"},
            qrels={"q1": {"d2": 1}, "q2": {"d3": 1}},
        )
        first = bench.rank(task, {"retriever": "bm25"})
        write_run(path, first.run)
        again = bench.rank(task, {"retriever": {"candidates": str(path)}})
        evaluation = bench.measure(again.run, task, "RR")
        scored = bench.score("maxsim-minilm", task, read_run(path))

    # d2 has both words of q1 and is its positive; no document has the word of q2
    assert path.read_text().split()[:3] == ["q1", "Q0", "d2"]
    assert {query_id: [hit.doc_id for hit in hits] for query_id, hits in again.run.rankings.items()} == {
        "q1": ["d2", "d1"],
        "q2": [],
    }
    assert again.found_nothing == {f"candidates:{path}": ("q2",)}
    assert (evaluation.means["RR"], evaluation.num_queries, evaluation.num_unanswered) == (0.5, 2, 1)
    assert scored.rankings["q2"] == ()


def test_a_task_of_own_data_knows_which_ids_of_its_queries_are_documents(tmp_path: Path) -> None:
    queries = [
        Query(query_id="d1", text="fever", excluded=frozenset({"d2", "gone"})),
        Query(query_id="q", text="rash"),
    ]
    with open_workbench(tmp_path) as bench:
        task = bench.task("t", documents={"d1": "fever", "d2": "cough"}, queries=queries)

    assert (task.identical_ids, task.unknown_excluded) == ({"d1"}, {"gone"})


def test_judgements_without_a_positive_are_refused_by_the_name_of_the_task() -> None:
    assert own_qrels({}, "t") == {}
    with pytest.raises(
        DataError, match=r"^task 't': nothing can be measured: none of the 2 queries of its qrels has a"
    ):
        own_qrels({"q1": {"d": 0}, "q2": {"d": -1}}, "t")
