"""trec_eval's own files, names and means. The files are of the shapes that trec_eval's test files have."""

import json
import random

import pytest
import pytrec_eval
from typer.testing import CliRunner

from r2med_ray.cli.main import app
from r2med_ray.errors import ConfigError, DataError
from r2med_ray.evaluation.as_trec_eval import evaluate_as_trec_eval, trec_eval_title
from r2med_ray.evaluation.evaluate import evaluate_file
from r2med_ray.evaluation.measures import Measure, parse_measures
from r2med_ray.evaluation.trec import read_qrels, read_run

# q1 is answered perfectly, q2 is answered and has no positive, q3 is not answered, q4 is answered and not judged.
RUN = """# BM25 of our own, k1 = 0.9
q1 Q0 d#1 1 2.5 ours 12 ms
q1\tQ0\td2\t2\t1.5\tours
   # q1 Q0 d3 3 99 ours

q2 Q0 d1 1 2.0 ours
q4 Q0 d1 1 2.0 ours
"""
QRELS = """# judged by nobody
q1 0 d#1 1
q1 0 d2 0
#q1 0 d2 1
q2 0 d1 0
q3 0 d1 1
"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "run").write_text(RUN, encoding="utf-8")
    (tmp_path / "qrels").write_text(QRELS, encoding="utf-8")
    return tmp_path / "run", tmp_path / "qrels"


def evaluate(files, *options):
    run, qrels = map(str, files)
    return CliRunner().invoke(app, ["evaluate", "--run", run, "--qrels", qrels, *options])


def test_the_output_is_that_of_trec_eval(files):
    # Queries that run and qrels share: q1 with 1 and q2 with 0. P@5 of q1 is 1/5.
    assert evaluate(files, "--as", "trec_eval", "--measures", "AP,P@5,nDCG@10,RR").stdout == (
        "num_q                 \tall\t2\n"
        "map                   \tall\t0.5000\n"
        "P_5                   \tall\t0.1000\n"
        "ndcg_cut_10           \tall\t0.5000\n"
        "recip_rank            \tall\t0.5000\n"
    )


def test_with_c_every_query_of_the_qrels_is_in_the_mean(files):
    output = evaluate(files, "--as", "trec_eval", "-c", "--measures", "AP", "--per-query").stdout

    assert output == (
        "map                   \tq1\t1.0000\n"
        "map                   \tq2\t0.0000\n"
        "map                   \tq3\t0.0000\n"
        "num_q                 \tall\t3\n"
        "map                   \tall\t0.3333\n"
    )


def test_programs_get_the_same_figures(files):
    report = json.loads(evaluate(files, "--as", "trec_eval", "--measures", "AP", "--format", "json").stdout)

    assert report == {"measures": {"map": 0.5}, "counts": {"num_q": 2}}


def test_comments_and_further_fields_are_counted_aloud(files, caplog):
    evaluate_as_trec_eval(files[0], read_qrels(files[1], comments=True), [Measure("AP")])

    assert [record.message for record in caplog.records] == [
        f"{files[0]}: 2 comments and the fields after the tag of 1 lines were passed over"
    ]


def test_mt11_a_number_sign_is_part_of_an_id_unless_it_begins_a_line(files):
    qrels = read_qrels(files[1], comments=True)

    assert qrels == {"q1": {"d#1": 1, "d2": 0}, "q2": {"d1": 0}, "q3": {"d1": 1}}
    figures = evaluate_as_trec_eval(files[0], qrels, [Measure("RR")])
    assert figures.per_query["q1"] == {"recip_rank": 1.0}


def test_mt11_without_as_trec_eval_a_number_sign_is_data_everywhere(tmp_path):
    run, qrels = tmp_path / "run", tmp_path / "qrels"
    run.write_text("#q Q0 #d 1 2.0 t\n", encoding="utf-8")
    qrels.write_text("#q 0 #d 1\n", encoding="utf-8")

    assert evaluate_file(run, read_qrels(qrels), [Measure("RR")]).means == {"RR": 1.0}


@pytest.mark.parametrize(
    "line", ["# a comment", "q1 Q0 d1 1 2.0 ours further", "# q1 Q0 d1 1 2.0 ours"], ids=["comment", "field", "both"]
)
@pytest.mark.parametrize("before", ["", "q1 Q0 d9 1 2.0 ours\n"], ids=["first line", "later line"])
def test_what_only_trec_eval_reads_is_refused_with_the_way_to_read_it(tmp_path, line, before):
    path = tmp_path / "run"
    path.write_text(f"{before}{line}\n", encoding="utf-8")

    with pytest.raises(DataError, match=r"run:[12]: .*; comments and fields after .* --as trec_eval`$"):
        evaluate_file(path, {"q1": {"d1": 1}}, [Measure("RR")])


@pytest.mark.parametrize(
    "content",
    [
        "# ours\rq1 Q0 d1 1 2.0 ours\r",  # lines that end with carriage returns
        "q1 Q0 d1 1 2.0 ours\rq1 Q0 d2 2 1.0 ours\r",
        "d1 d2 d3 d4 d5 d6 d7\n",  # the fifth field is no score
    ],
)
def test_what_trec_eval_would_misread_is_refused_without_that_way(tmp_path, content):
    path = tmp_path / "run"
    path.write_bytes(content.encode())

    with pytest.raises(DataError, match=r"run:1: expected ") as caught:
        evaluate_file(path, {"q1": {"d1": 1}}, [Measure("RR")])

    assert "--as trec_eval" not in str(caught.value)


def test_whoever_reads_a_run_for_something_else_is_not_sent_to_evaluate(tmp_path):
    (tmp_path / "run").write_text("# ours\nq1 Q0 d1 1 2.0 ours\n", encoding="utf-8")

    with pytest.raises(DataError, match=r"run:1: expected ") as caught:
        read_run(tmp_path / "run")

    assert "--as trec_eval" not in str(caught.value)


def test_c_belongs_to_trec_eval(files):
    result = evaluate(files, "-c")

    assert isinstance(result.exception, ConfigError)
    assert "write --as trec_eval -c" in str(result.exception)


@pytest.mark.parametrize("name", ["RBP(p=0.8)", "Judged@10", "nDCG(dcg='exp-log2')@10", "RR@10"])
def test_a_measure_that_trec_eval_lacks_is_refused_by_name(name):
    with pytest.raises(ConfigError, match=r"trec_eval has no .*; leave the measure out, or leave out --as trec_eval"):
        trec_eval_title(Measure.parse(name))


def test_our_table_says_how_many_queries_stand_behind_a_mean(tmp_path):
    (tmp_path / "run").write_text("q1 Q0 d1 1 2.5 t\nq2 Q0 d1 1 2.5 t\n", encoding="utf-8")
    (tmp_path / "qrels").write_text("q1 0 d1 1\nq2 0 d1 0\nq3 0 d1 1\n", encoding="utf-8")
    output = evaluate((tmp_path / "run", tmp_path / "qrels"), "--measures", "AP").stdout

    # q1 has 1 and q3 is not answered; q2 has no positive.
    assert output.splitlines()[0].split() == ["AP", "all", "0.5000"]
    assert output.splitlines()[-1] == (
        "A mean is over the 2 queries with a positive judgement; 1 of them are unanswered and count 0; 1 without a "
        "positive are left out."
    )


ALL = "AP,AP@10,AP@100,Bpref,RR,nDCG,nDCG@5,nDCG@10,nDCG@100,P@5,P@10,P@100,R@5,R@10,R@100,Success@1,Success@5,infAP"


@pytest.fixture
def random_files(tmp_path):
    """A run of 31 queries, one without a positive, and qrels of 33, with ties, depths that differ, and grades."""
    chance = random.Random(7)
    run = {
        f"{300 + i}": {f"D-{chance.randrange(400)}": chance.randrange(60) / 4 for _ in range(20 + 5 * i)}
        for i in range(31)
    }
    qrels = {
        query_id: {f"D-{chance.randrange(400)}": chance.choice([-1, 0, 0, 1, 1, 2]) for _ in range(90)}
        for query_id in run
    }
    qrels["314"] = dict.fromkeys(qrels["314"], 0)
    qrels |= {"401": {"D-1": 1}, "402": {"D-1": 0}}
    lines = [
        f"{query_id}\tQ0\t{doc_id}\t1\t{score}\tSMART\tmore of it\n"
        for query_id, scores in run.items()
        for doc_id, score in scores.items()
    ]
    chance.shuffle(lines)
    path = tmp_path / "results.shape"
    path.write_text("# scattered\n" + "".join(lines), encoding="utf-8")
    return path, run, qrels


@pytest.mark.parametrize("complete", [False, True], ids=["shared queries", "-c"])
def test_every_measure_has_the_value_and_the_mean_of_trec_eval(random_files, complete):
    path, run, qrels = random_files
    measures = parse_measures(ALL)
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {measure.trec_eval_name for measure in measures}).evaluate(run)
    figures = evaluate_as_trec_eval(path, qrels, measures, complete=complete)

    assert len(theirs) == 31  # trec_eval evaluates the query without a positive, too
    assert len(figures.per_query) == (33 if complete else 31)
    for title in map(trec_eval_title, measures):
        values = {query_id: of_query[title] for query_id, of_query in theirs.items()}
        assert {query_id: figures.per_query[query_id][title] for query_id in values} == pytest.approx(
            values, abs=1e-9
        )
        # meas_avg.c: the sum over the evaluated queries, divided by their number, or with -c by that of the qrels
        assert figures.means[title] == pytest.approx(sum(values.values()) / len(figures.per_query), abs=1e-9)


@pytest.mark.parametrize("complete", [False, True], ids=["shared queries", "-c"])
def test_qrels_without_any_positive_give_zeros_as_in_trec_eval(tmp_path, complete):
    run = {"q1": {"d1": 2.0, "d2": 1.0}, "q4": {"d1": 1.0}}
    qrels = {"q1": {"d1": 0, "d3": 0}, "q2": {"d1": 0}}
    path = tmp_path / "run"
    path.write_text("q1 Q0 d1 1 2.0 t\nq1 Q0 d2 2 1.0 t\nq4 Q0 d1 1 1.0 t\n", encoding="utf-8")
    measures = parse_measures(ALL)
    theirs = pytrec_eval.RelevanceEvaluator(qrels, {measure.trec_eval_name for measure in measures}).evaluate(run)
    figures = evaluate_as_trec_eval(path, qrels, measures, complete=complete)

    zeros = dict.fromkeys(map(trec_eval_title, measures), 0.0)
    assert {query_id: {title: values[title] for title in zeros} for query_id, values in theirs.items()} == {
        "q1": zeros
    }
    assert figures.means == zeros
    assert figures.per_query == ({"q1": zeros, "q2": zeros} if complete else {"q1": zeros})


def test_our_own_mean_over_no_query_is_refused(tmp_path):
    (tmp_path / "run").write_text("q1 Q0 d1 1 2.0 t\n", encoding="utf-8")

    with pytest.raises(DataError, match="none of the 1 queries of the qrels has a judgement above 0"):
        evaluate_file(tmp_path / "run", {"q1": {"d1": 0}}, [Measure("RR")])


@pytest.mark.parametrize("complete", [False, True], ids=["shared queries", "-c"])
@pytest.mark.parametrize("grade", [0, 1])
def test_a_run_without_a_query_of_the_qrels_is_refused_as_in_trec_eval(tmp_path, complete, grade):
    (tmp_path / "run").write_text("q4 Q0 d1 1 2.0 t\n", encoding="utf-8")

    # trec_eval.c: "No queries with both results and relevance info", exit code 7, before `-c` is looked at
    with pytest.raises(DataError, match=r"no query in common: the run answers 1 queries, e\.g\. 'q4'"):
        evaluate_as_trec_eval(tmp_path / "run", {"q1": {"d1": grade}}, [Measure("RR")], complete=complete)


def test_a_query_without_a_positive_lowers_the_mean_of_trec_eval_by_its_share(random_files):
    path, _, qrels = random_files
    only_shared = {query_id: grades for query_id, grades in qrels.items() if query_id < "400"}
    ours = evaluate_as_trec_eval(path, only_shared, [Measure("AP")]).means["map"]
    path.write_text(path.read_text().removeprefix("# scattered\n").replace("\tmore of it", ""))

    # The same sum over 31 queries and over the 30 that have a positive
    assert ours == pytest.approx(evaluate_file(path, only_shared, [Measure("AP")]).means["AP"] * 30 / 31)
