"""Runs and qrels on disk."""

import logging

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, settings
from hypothesis import strategies as st

from r2med_ray.errors import DataError
from r2med_ray.evaluation.trec import read_qrels, read_run, write_qrels, write_run
from r2med_ray.types import Run, ScoredDoc


def run_of(*hits, tag="sys", query_id="q"):
    return Run(tag=tag, rankings={query_id: tuple(ScoredDoc(*hit) for hit in hits)})


def test_a_run_is_written_in_ranking_order_and_by_query_id(tmp_path):
    hits = (ScoredDoc("a", 1.0), ScoredDoc("B", 1.000000001), ScoredDoc("c", -2.5))
    write_run(tmp_path / "out" / "run.trec", Run(tag="sys", rankings={"q2": hits[2:], "q1": hits, "q0": ()}))

    # B equals a as float32, and a is the larger id
    assert (tmp_path / "out" / "run.trec").read_text() == (
        "q1 Q0 a 1 1.0 sys\nq1 Q0 B 2 1.0 sys\nq1 Q0 c 3 -2.5 sys\nq2 Q0 c 1 -2.5 sys\n"
    )


@settings(max_examples=50)
@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_a_run_reads_back_with_the_same_float32_scores(tmp_path_factory, scores):
    path = tmp_path_factory.getbasetemp() / "round_trip.trec"
    run = run_of(*((f"d{i}", score) for i, score in enumerate(scores)))

    write_run(path, run)
    back = read_run(path)

    assert back.tag == "sys"
    assert {hit.doc_id: np.float32(hit.score) for hit in back.rankings["q"]} == {
        hit.doc_id: np.float32(hit.score) for hit in run.rankings["q"]
    }


@pytest.mark.parametrize("read", [read_run, read_qrels])
@pytest.mark.parametrize("name", ["missing.trec", "missing.trec.gz", "."])
def test_a_file_that_is_not_there_is_our_error(tmp_path, read, name):
    with pytest.raises(DataError, match="can't be read: "):
        read(tmp_path / name)


def test_mt03_the_rank_column_agrees_with_trec_eval(tmp_path):
    doc_ids = ["a", "b", "B", "10", "9", "é", "z"]
    write_run(tmp_path / "run.trec", run_of(*((doc_id, 1.0) for doc_id in doc_ids)))

    for line in (tmp_path / "run.trec").read_text().splitlines():
        _, _, doc_id, rank, *_ = line.split(" ")
        theirs = pytrec_eval.RelevanceEvaluator({"q": {doc_id: 1}}, {"recip_rank"}).evaluate(
            {"q": dict.fromkeys(doc_ids, 1.0)}
        )
        assert theirs["q"]["recip_rank"] == 1 / int(rank)


@pytest.mark.parametrize(
    "doc_id", ["neanderthals_vitamin_C_diet/N_0_43.txt", "../x", "x" * 300, "🫀", "#d", "a\u2028b"]
)
def test_da13_unusual_ids_survive_the_round_trip(tmp_path, doc_id):
    run = run_of((doc_id, 1.0), query_id=doc_id)

    write_run(tmp_path / "run.trec", run)
    write_qrels(tmp_path / "qrels.trec", {doc_id: {doc_id: 1}})

    assert read_run(tmp_path / "run.trec") == run
    assert read_qrels(tmp_path / "qrels.trec") == {doc_id: {doc_id: 1}}


@pytest.mark.parametrize("word", ["", "a b", "a\tb", "a\n", "a\rb", "a\0b", "\ud800"])
def test_mt19_ids_that_would_not_be_one_field_are_refused_and_nothing_is_written(tmp_path, word):
    path = tmp_path / "file.trec"
    for problem, write in {
        "document id": lambda: write_run(path, run_of(("ok", 2.0), (word, 1.0))),
        "query id": lambda: write_run(path, run_of(("ok", 2.0), query_id=word)),
        "run tag": lambda: write_run(path, run_of(("ok", 2.0), tag=word)),
        "document id:? ": lambda: write_qrels(path, {"q": {"a": 1, word: 1}}),
    }.items():
        with pytest.raises(DataError, match=problem) as caught:
            write()
        assert repr(word) in str(caught.value)

    assert list(tmp_path.iterdir()) == []


def test_a_grade_that_is_no_whole_number_is_not_written(tmp_path):
    with pytest.raises(DataError, match=r"query 'q', document 'd': grade 1\.5 is no whole number"):
        write_qrels(tmp_path / "qrels.trec", {"q": {"d": 1.5}})

    assert list(tmp_path.iterdir()) == []


def test_a_file_that_was_there_survives_a_failed_write(tmp_path):
    write_run(tmp_path / "run.trec", run_of(("a", 1.0)))

    with pytest.raises(DataError, match="write run: query 'q', document 'b' has score nan"):
        write_run(tmp_path / "run.trec", run_of(("a", 1.0), ("b", float("nan"))))
    with pytest.raises(DataError, match="1 documents are ranked twice"):
        write_run(tmp_path / "run.trec", run_of(("a", 1.0), ("a", 0.5)))

    assert [path.name for path in tmp_path.iterdir()] == ["run.trec"]
    assert read_run(tmp_path / "run.trec") == run_of(("a", 1.0))


def test_a_rank_only_run_is_named_after_its_file(tmp_path):
    (tmp_path / "monobert.tsv").write_text("q\td\t1\n")

    assert read_run(tmp_path / "monobert.tsv") == run_of(("d", -1.0), tag="monobert")


@pytest.fixture
def qrels_file(tmp_path):
    def write(content):
        path = tmp_path / "qrels"
        path.write_text(content)
        return path

    return write


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("q1 0 d1 1\nq1 0 d#2 0\n\nq2  Q0\td1 -1\r\n", id="trec"),
        pytest.param("query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td#2\t0\nq2\td1\t-1\n", id="beir"),
        pytest.param("q1\td1\t1\nq1\td#2\t0\nq2\td1\t-1", id="beir-without-header"),
        pytest.param(
            '{"q_id": "q1", "p_id": "d1", "score": 1}\n{"q_id": "q1", "p_id": "d#2", "score": 0}\n'
            '{"q_id": "q2", "p_id": "d1", "score": -1.0}\n',
            id="r2med",
        ),
    ],
)
def test_qrels_are_read_in_three_layouts(qrels_file, content):
    assert read_qrels(qrels_file(content)) == {"q1": {"d1": 1, "d#2": 0}, "q2": {"d1": -1}}


def test_da11_quotes_and_na_are_text(qrels_file):
    assert read_qrels(qrels_file('"1\tNA\t1\n2"\tnan\t1\n')) == {'"1': {"NA": 1}, '2"': {"nan": 1}}


def test_mt09_ids_are_text_and_json_integers_become_text_with_one_warning(qrels_file, caplog):
    with caplog.at_level(logging.WARNING):
        qrels = read_qrels(
            qrels_file('{"q_id": 7, "p_id": 8, "score": 1}\n{"q_id": "007", "p_id": "8", "score": 1}\n')
        )

    assert qrels == {"7": {"8": 1}, "007": {"8": 1}}
    assert [record.message.split(": ")[1] for record in caplog.records] == [
        "2 ids of qrels are JSON integers and were read as text, e.g. '7', '8'"
    ]


def test_mt13_a_repeated_judgement_is_counted(qrels_file, caplog):
    with caplog.at_level(logging.WARNING):
        assert read_qrels(qrels_file("q1 0 d1 1\nq1 0 d1 1\nq1 0 d1 1\n")) == {"q1": {"d1": 1}}
    assert [record.message.split(": ")[1] for record in caplog.records] == [
        "2 lines of qrels repeat an earlier judgement, e.g. 'q1 d1 in lines 1 and 2', 'q1 d1 in lines 1 and 3'"
    ]
