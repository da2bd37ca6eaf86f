"""The folder of a report has all its files, replaces an earlier report, and can be read back."""

import json
import shutil
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from r2med_ray.approximations import Approximation
from r2med_ray.errors import ConfigError, DataError
from r2med_ray.evaluation.trec import read_qrels, read_run
from r2med_ray.reporting.pairs import with_main_measure
from r2med_ray.reporting.record import MissingRecord
from r2med_ray.reporting.summary import summarise
from r2med_ray.reporting.texts import Question, TaskTexts
from r2med_ray.reporting.write import load_results, rewrite_report, write_report
from r2med_ray.types import Repairs
from tests.unit.reporting_records import ALPHA, BETA, FIRST, RESULTS, SECOND, files, record, result, run


def test_a_report_holds_a_file_for_every_use(tmp_path):
    output = write_report(summarise(record()), tmp_path / "results")

    assert sorted(files(output)) == [
        "index.html",
        "leaderboard.csv",
        "leaderboard.md",
        "manifest.json",
        "mteb/first/Alpha.json",
        "mteb/first/Beta.json",
        "mteb/second/Alpha.json",
        "mteb/second/Beta.json",
        "per_query.parquet",
        "qrels/Alpha.trec",
        "qrels/Beta.trec",
        "queries/Alpha.js",
        "queries/Beta.js",
        "runs/first/Alpha.trec",
        "runs/first/Beta.trec",
        "runs/second/Alpha.trec",
        "runs/second/Beta.trec",
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["results"]


def test_a_report_that_is_written_again_keeps_the_texts_of_its_queries_and_changes_nothing_else(tmp_path):
    texts = TaskTexts(questions={"q1": Question(text="why?"), "q2": Question(text="how?")}, passages={"d1": "so"})
    output = write_report(summarise(record(tasks=[replace(ALPHA, texts=texts), BETA])), tmp_path / "results")
    before = files(output)

    rewrite_report(output)

    assert b"why?" in before["queries/Alpha/0.js"]
    assert files(output) == before


def test_the_report_in_the_working_folder_is_not_replaced(tmp_path, monkeypatch):
    output = write_report(summarise(record()), tmp_path / "results")
    before = files(output)
    monkeypatch.chdir(output)

    with pytest.raises(ConfigError, match="this is the working folder, which the report would replace"):
        rewrite_report(".")

    assert files(output) == before


def test_comparisons_are_kept_and_are_those_of_the_main_measure_only(tmp_path):
    made = summarise(record(baseline="second"))
    kept = load_results(write_report(made, tmp_path / "results"), all_runs=False)

    assert kept.compared == {"first": made.rows[0].comparison}
    assert with_main_measure(kept, "RR").compared == kept.compared
    assert with_main_measure(kept, "R@1").compared == {}


def test_a_report_from_before_there_were_texts_of_queries_gets_their_values(tmp_path):
    output = write_report(summarise(record()), tmp_path / "results")
    before = files(output)
    shutil.rmtree(output / "queries")

    rewrite_report(output)

    assert files(output) == before


def test_runs_and_qrels_are_those_that_were_measured(tmp_path):
    output = write_report(summarise(record()), tmp_path / "results")

    assert read_run(output / "runs/first/Alpha.trec") == run("first", q1="d1", q2="x d2")
    assert read_qrels(output / "qrels/Beta.trec") == BETA.qrels


def test_per_query_values_are_on_the_scale_0_to_1(tmp_path):
    rows = pq.read_table(write_report(summarise(record()), tmp_path / "results") / "per_query.parquet").to_pylist()

    # 3 judged queries × 2 measures × 2 systems
    assert len(rows) == 12
    assert {
        "system": "first", "task": "Alpha", "query_id": "q2", "num_positives": 1, "measure": "RR", "value": 0.5,
    } in rows  # fmt: skip


def test_the_manifest_says_what_was_run_and_how_fast(tmp_path):
    manifest = json.loads((write_report(summarise(record()), tmp_path / "results") / "manifest.json").read_text())

    assert manifest["config"] == {"name": "greek", "tasks": ["Alpha", "Beta"]}
    assert manifest["versions"] == {"python": "3.11.9"}
    assert [task["revision"] for task in manifest["tasks"]] == ["abc123", "def456"]
    assert [stage["documents_per_second"] for stage in manifest["stages"]] == [6170.0, None]
    first_beta, second_alpha = manifest["results"][1:3]
    assert first_beta["seconds"] == {"search": 0.5, "rerank": 1.25}
    assert first_beta["run_file"] == "runs/first/Beta.trec"
    assert second_alpha["evaluation"] == {
        "means": {"RR": 0.25, "R@1": 0.0},
        "num_unanswered": 1,
        "num_unjudged": 0,
        "num_queries": 2,
        "num_without_positives": 0,
    }


def test_da13_names_never_lead_out_of_the_folder_or_onto_one_another(tmp_path):
    names = ["../../up", "org/model", "A", "a"]
    tasks = [replace(ALPHA, name="../x"), replace(ALPHA, name="..")]
    results = [result(name, task, {"q1": "d1"}) for name in names for task in tasks]
    results = [replace(found, run=replace(found.run, tag="run")) for found in results]
    written = record(tasks=tasks, systems=[replace(FIRST, name=name) for name in names], results=results)

    output = write_report(summarise(written), tmp_path / "deep" / "results")

    found = [name.lower() for name in files(output)]
    assert len(set(found)) == len(found) == 5 + 2 + 2 + 8 + 8
    assert [path.name for path in tmp_path.rglob("*") if path.is_file() and output not in path.parents] == []
    assert [system.name for system in load_results(output).systems] == names


def test_the_same_results_give_the_same_bytes_whenever_they_were_made(tmp_path):
    first = files(write_report(summarise(record()), tmp_path / "first"))
    second = files(write_report(summarise(record(started="then", finished="later")), tmp_path / "second"))

    assert {name for name in first if first[name] != second[name]} == {"index.html", "manifest.json"}


def test_what_is_written_reads_back_and_writes_the_same_bytes(tmp_path):
    flagged = replace(FIRST, compat="r2med", published_key={"retriever": "bm25"}, settings={"k1": 0.9})
    repaired = replace(RESULTS[0], repairs=Repairs(rules={"q1": {"id missing": 2}}, unreadable={"q2": {"empty": 1}}))
    found = Approximation(search="m[IVF64]", recall=0.9, num_sampled=2, depth=9, num_queries=2, num_short=1)
    near = replace(RESULTS[1], approximations=(found,), num_short=1)
    written = record(systems=[flagged, SECOND], results=[repaired, near, *RESULTS[2:]], baseline="second")
    output = write_report(summarise(written), tmp_path / "first")

    loaded = load_results(output)

    assert loaded == written
    assert files(write_report(summarise(loaded), tmp_path / "second")) == files(output)


def test_a_run_that_found_nothing_reads_back(tmp_path):
    nothing = result("first", ALPHA, {"q1": ""})
    output = write_report(summarise(record(results=[nothing, *RESULTS[1:]])), tmp_path / "results")

    loaded = load_results(output).results[0]
    assert (loaded.run, loaded.evaluation) == (run("first"), nothing.evaluation)


def test_mt01_queries_without_a_positive_judgement_read_back_as_such(tmp_path):
    task = replace(ALPHA, qrels={**ALPHA.qrels, "q8": {"d1": 0}})
    measured = result("first", task, {"q1": "d1"})
    output = write_report(
        summarise(record(tasks=[task, BETA], results=[measured, *RESULTS[1:]])), tmp_path / "results"
    )

    loaded = load_results(output).results[0]
    assert loaded.evaluation == measured.evaluation
    assert loaded.evaluation.num_without_positives == 1


def test_a_folder_that_is_no_report_is_refused(tmp_path):
    with pytest.raises(DataError, match="is no report"):
        load_results(tmp_path)


@pytest.mark.parametrize("name", ["runs/first/Alpha.trec", "qrels/Beta.trec", "per_query.parquet"])
def test_a_missing_file_is_named(tmp_path, name):
    output = write_report(summarise(record()), tmp_path / "results")
    (output / name).unlink()

    with pytest.raises(DataError, match=name.rpartition("/")[2]):
        load_results(output)


def test_a_damaged_table_is_refused(tmp_path):
    output = write_report(summarise(record()), tmp_path / "results")
    (output / "per_query.parquet").write_bytes(b"nothing")

    with pytest.raises(DataError, match="not whole"):
        load_results(output)


def test_a_manifest_that_says_something_else_is_refused(tmp_path):
    output = write_report(summarise(record()), tmp_path / "results")
    manifest = json.loads((output / "manifest.json").read_text())
    manifest["seed"] = "many"
    (output / "manifest.json").write_text(json.dumps(manifest))

    with pytest.raises(DataError, match="seed"):
        load_results(output)


def test_a_task_that_was_not_at_hand_has_no_files_and_comes_back_as_missing(tmp_path):
    absent = replace(BETA, qrels={})
    missing = (MissingRecord(system="first", task="Beta", needs="data"),)
    written = record(tasks=[ALPHA, absent], results=[RESULTS[0], RESULTS[2]], missing=missing)
    output = write_report(summarise(written), tmp_path / "results")

    assert [path.name for path in (output / "qrels").iterdir()] == ["Alpha.trec"]
    assert load_results(output).missing == missing
    assert load_results(output).tasks[1].qrels == {}
    assert "needs data: first on Beta" in (output / "index.html").read_text()
