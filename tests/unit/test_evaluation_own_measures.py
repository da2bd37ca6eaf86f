"""A user's own measure is imported because a benchmark file names it, and is reported like any other measure."""

import csv
import io
import json
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from r2med_ray.errors import ConfigError, OwnCodeError, StageError
from r2med_ray.evaluation.evaluate import evaluate
from r2med_ray.evaluation.invariants import require_possible
from r2med_ray.evaluation.measure_entries import read_measures
from r2med_ray.evaluation.measures import not_checked
from r2med_ray.evaluation.trec_eval_check import check_with_trec_eval
from r2med_ray.reporting.compare import compare_with_published
from r2med_ray.reporting.notes import reading_notes
from r2med_ray.reporting.page import render_page
from r2med_ray.reporting.record import BenchmarkRecord
from r2med_ray.reporting.summary import summarise
from r2med_ray.reporting.tables import leaderboard_csv, leaderboard_markdown, leaderboard_text
from r2med_ray.reporting.write import load_results, write_report
from r2med_ray.settings.config_files import parse_config
from r2med_ray.types import Run, ScoredDoc
from tests.unit.reporting_records import ALPHA, BETA, RESULTS, record

MODULE = '''
import numpy as np

LIMIT = 5

def negatives(rankings, cutoff):
    """Judged negatives up to the cut-off, minus what was not judged."""
    return rankings.nonrelevant.within(cutoff) - rankings.unjudged.within(cutoff)

def tens(rankings, cutoff):
    return 10 * rankings.positives.within(cutoff) / rankings.num_ranked

def one(rankings, cutoff):
    return 1.0

def boom(rankings, cutoff):
    raise ValueError("boom")

def infinite(rankings, cutoff):
    return np.full(rankings.num_queries, np.inf)
'''

QRELS = {"q1": {"a": 1, "m": 0, "n": 0}, "q2": {"a": 1}, "q3": {"a": 1}}
RUN = Run(
    tag="t",
    rankings={
        # n and m are judged with 0, x is not judged, and a is at rank 4
        "q1": tuple(ScoredDoc(doc_id, -float(rank)) for rank, doc_id in enumerate("nxma")),
        "q2": (ScoredDoc("x", 2.0), ScoredDoc("a", 1.0)),
    },
)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a user's module in a folder on PYTHONPATH."""
    name = f"measures_of_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    (tmp_path / "broken_measures.py").write_text("import no_such_package\n")
    monkeypatch.syspath_prepend(tmp_path)
    return name


def config(*measures: object, **changes: object) -> Any:
    return parse_config(
        {"name": "x", "tasks": ["Demo-Posts"], "systems": [{"name": "b", "retriever": "bm25"}], "measures": measures}
        | changes
    )


def entry(path: str, name: str = "Negatives@3", bounds: tuple[object, object] = (None, 3)) -> dict[str, object]:
    return {"name": name, "class": path, "bounds": bounds}


def test_a_benchmark_file_brings_its_own_measure(module: str) -> None:
    from r2med_ray.systems import resolve

    benchmark = resolve(config("RR", entry(f"{module}.negatives"), main_measure="Negatives@3"))
    found = evaluate(RUN, QRELS, benchmark.measures)

    assert benchmark.config.measure_names == ("RR", "Negatives@3")
    # q1 has n and m, minus x: 2 - 1. q2 has minus x. q3 is not answered.
    assert found.values("Negatives@3") == {"q1": 1.0, "q2": -1.0, "q3": 0.0}
    assert found.values("RR") == {"q1": 0.25, "q2": 0.5, "q3": 0.0}
    check_with_trec_eval(RUN, QRELS, benchmark.measures, found)
    require_possible(found.per_query, benchmark.measures, QRELS, unit="b")
    assert not_checked(benchmark.measures) == ("Negatives@3",)


def test_its_own_bounds_hold(module: str) -> None:
    measures = read_measures(config("nDCG@10", entry(f"{module}.negatives", bounds=(-0.5, None))).measures)

    with pytest.raises(StageError, match=r"query 'q2': Negatives@3 is -1\.0, which is below -0\.5"):
        require_possible(evaluate(RUN, QRELS, measures).per_query, measures, QRELS, unit="b")


def test_a_query_without_an_answer_counts_0_whatever_the_function_says(module: str) -> None:
    measures = read_measures(config("nDCG@10", entry(f"{module}.tens", name="Tens")).measures)

    with pytest.warns(RuntimeWarning, match="divide"):
        # q1 has one of four, q2 has one of two, and q3 has 0 / 0
        assert evaluate(RUN, QRELS, measures).values("Tens") == {"q1": 2.5, "q2": 5.0, "q3": 0.0}


def test_what_it_raises_is_told_with_its_line(module: str, tmp_path: Path) -> None:
    measures = read_measures(config("nDCG@10", entry(f"{module}.boom")).measures)

    # `raise` is in line 17 of the module.
    message = rf"^measure {module}\.boom raised ValueError: boom \({tmp_path}/{module}\.py:17\)$"
    with pytest.raises(OwnCodeError, match=message):
        evaluate(RUN, QRELS, measures)


def test_another_process_imports_it_too(module: str, tmp_path: Path) -> None:
    measures = read_measures(config("nDCG@10", entry(f"{module}.negatives")).measures)
    (tmp_path / "sent").write_bytes(pickle.dumps((RUN, QRELS, measures)))
    program = """
import pickle, sys
from r2med_ray.evaluation.evaluate import evaluate
with open(sys.argv[1], "rb") as sent:
    print(evaluate(*pickle.load(sent)).values("Negatives@3"))
"""

    done = subprocess.run(
        [sys.executable, "-c", program, tmp_path / "sent"],
        env=os.environ | {"PYTHONPATH": f"{Path.cwd()}:{tmp_path}"},
        check=True,
        capture_output=True,
        text=True,
    )

    assert done.stdout == "{'q1': 1.0, 'q2': -1.0, 'q3': 0.0}\n"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("no_such.thing", r"measures\.1\.class: 'no_such\.thing': there is no Python module 'no_such'; install it"),
        ("broken_measures.one", r"there is no Python module 'no_such_package'"),
        ("MODULE.negative", r"has no function 'negative'\. Did you mean 'negatives'\? It has negatives, tens"),
        ("MODULE.LIMIT", r"has no function 'LIMIT'"),
    ],
)
def test_a_function_that_is_not_there_is_named_with_its_key(module: str, path: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_measures(config("nDCG@10", entry(path.replace("MODULE", module))).measures)


@pytest.mark.parametrize("name", ["nDCG@10", "AP@7", "my measure", "M@05", "M(p=1)"])
def test_its_name_is_its_own_and_a_name(module: str, name: str) -> None:
    with pytest.raises(ConfigError, match=r"measures\.1\.name: "):
        read_measures(config("RR", entry(f"{module}.negatives", name=name), main_measure="RR").measures)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"class": "negatives"}, r"measures\.1\.class: should be a module and a function in it, .* got 'negatives'"),
        ({"bounds": [1, 2]}, r"measures\.1\.bounds: should include 0"),
        ({"bounds": [0, "all"]}, r"measures\.1\.bounds\.1: should be a number, got 'all'"),
        ({"name": "nDCG@10"}, r"two measures are called 'nDCG@10'"),
    ],
)
def test_what_is_wrong_about_it_is_found_before_anything_is_imported(
    changed: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        config("nDCG@10", entry("no_such.thing") | changed)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("one", r"expected 3 numbers, one per query, got an array of shape \(\)"),
        ("infinite", r"query 'q1'.*Negatives@3 is inf, which is no finite number"),
    ],
)
def test_a_function_that_returns_something_else_stops_the_evaluation(
    module: str, function: str, message: str
) -> None:
    with pytest.raises(StageError, match=message):
        evaluate(RUN, QRELS, read_measures(config("nDCG@10", entry(f"{module}.{function}")).measures))


@pytest.fixture
def own_record(module: str) -> BenchmarkRecord:
    """The small benchmark. Its measure is minus the number of documents up to rank 3 that were not judged."""
    benchmark = config("RR", entry(f"{module}.negatives"), "Judged@2", main_measure="Negatives@3")
    measures = read_measures(benchmark.measures)
    qrels = {task.name: task.qrels for task in (ALPHA, BETA)}
    results = [replace(row, evaluation=evaluate(row.run, qrels[row.task], measures)) for row in RESULTS]
    return record(
        results=results,
        config=benchmark.model_dump(mode="json"),
        measures=benchmark.measure_names,
        main_measure="Negatives@3",
        baseline="second",
    )


def test_its_figures_are_reported_as_they_are(own_record: BenchmarkRecord) -> None:
    summary = summarise(own_record)
    text = leaderboard_markdown(summary)

    # `first` has (0 - 1) / 2 on Alpha and 0 on Beta; `second` has (-1 + 0) / 2 on Alpha and -1 on Beta
    assert "Negatives@3 on its own scale; the best of each column is bold." in text
    assert "| first<br>bm25 → maxsim@20 | **-0.2500** | **-0.5000** | **0.0000** | +0.5000 | – |" in text
    # RR is as in test_reporting_summary. Judged@2 is (1 + 1/2) / 2 on Alpha and 1 on Beta.
    assert "| System | RR | Negatives@3 | Judged@2 | Negatives@3 by query |" in text
    assert "| first | **87.50** | **-0.2500** | **87.50** | **-0.3333** |" in text
    assert leaderboard_text(summary).startswith("greek: Negatives@3 on its own scale\n")
    page = render_page(summary)
    assert "Negatives@3 on its own scale, best first" in page
    assert "--share: -" not in page
    rows = list(csv.DictReader(io.StringIO(leaderboard_csv(summary))))
    assert (rows[0]["Mean"], rows[0]["Δ"], rows[0]["RR (0-100)"]) == ("-0.2500", "0.5000", "87.50")


def test_the_report_names_what_trec_eval_did_not_check(own_record: BenchmarkRecord) -> None:
    notes = reading_notes(own_record)

    assert notes[:2] == [
        "Measures are on a scale of 0 to 100; the JSON and Parquet files hold 0 to 1. "
        "On their own scale in all files: Negatives@3.",
        "Not checked by trec_eval, which lacks them: Negatives@3, Judged@2.",
    ]
    assert not [note for note in reading_notes(record()) if "trec_eval, which" in note or "own scale" in note]
    assert "none of RR, Negatives@3, Judged@2 is published" in compare_with_published(own_record)


def test_a_finished_report_is_read_again_where_the_module_is_gone(
    own_record: BenchmarkRecord, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = write_report(summarise(own_record), tmp_path / "report")
    before = (output / "leaderboard.md").read_bytes()
    (tmp_path / f"{module}.py").unlink()
    monkeypatch.delitem(sys.modules, module)

    write_report(summarise(load_results(output)), output)

    assert (output / "leaderboard.md").read_bytes() == before
    assert json.loads((output / "manifest.json").read_text())["config"]["measures"][1] == {
        "name": "Negatives@3", "class": f"{module}.negatives", "bounds": [None, 3.0],
    }  # fmt: skip
