"""Pairs in NevIR's shape become a task with contrasts, and a benchmark measures `contrast_acc` with them."""

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from r2med_ray.benchmark import run_benchmark
from r2med_ray.cli.main import app
from r2med_ray.errors import ConfigError, DataError
from r2med_ray.interop.contrast_sets import import_contrasts
from r2med_ray.reporting.page import render_page
from r2med_ray.reporting.summary import Summary, summarise
from r2med_ray.reporting.tables import leaderboard_markdown
from r2med_ray.reporting.write import load_results, write_report
from r2med_ray.settings.config_files import parse_config
from r2med_ray.systems import resolve
from r2med_ray.workbench.bench import open_workbench
from tests.unit.corpus_files import write_jsonl

ROWS = [
    {
        "id": "1-0",
        "WorkerId": 0,
        "q1": "which drug helps fever",
        "q2": "which drug never helps cough",
        "doc1": "aspirin helps fever",
        "doc2": "aspirin never helps cough",
    },
    {"id": "2-0", "WorkerId": 0, "q1": "rash", "q2": "rash without pain", "doc1": "rash rash", "doc2": "rash pain"},
]


def write(folder: Path, name: str, rows: list[dict[str, Any]] = ROWS) -> Path:
    path = folder / name
    if path.suffix == ".csv":
        with path.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    elif path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        write_jsonl(path, rows)
    return path


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("name", ["nevir.csv", "nevir.jsonl", "nevir.parquet"])
def test_each_file_format_gives_the_same_task(tmp_path: Path, name: str) -> None:
    found = CliRunner().invoke(app, ["contrasts", str(write(tmp_path, name)), "--output", str(tmp_path / "task")])

    assert (found.exit_code, found.output) == (0, f"{tmp_path}/task: 2 contrasts\n")
    assert lines(tmp_path / "task" / "corpus.jsonl")[1] == {"id": "1-0_doc2", "text": "aspirin never helps cough"}
    assert lines(tmp_path / "task" / "query.jsonl")[2] == {"id": "2-0_q1", "text": "rash"}
    assert [(row["q_id"], row["p_id"]) for row in lines(tmp_path / "task" / "qrels.jsonl")] == [
        (f"{name}_q{number}", f"{name}_doc{number}") for name in ("1-0", "2-0") for number in (1, 2)
    ]
    assert lines(tmp_path / "task" / "hard_negatives" / "contrasts.jsonl")[0] == {
        "query_ids": ["1-0_q1", "1-0_q2"],
        "doc_ids": ["1-0_doc1", "1-0_doc2"],
        "kind": "negation",
    }


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    folder = tmp_path_factory.mktemp("nevir")
    import_contrasts(write(folder, "nevir.jsonl"), folder / "task")
    values = {
        "name": "x",
        "tasks": [{"path": str(folder / "task"), "layout": "r2med", "name": "Pairs"}],
        "systems": [{"name": "words", "retriever": "bm25"}],
        "hard_negatives": [{"task": "Pairs", "conditions": ["own", "pairs"]}],
    }
    benchmark = resolve(parse_config(values))
    with open_workbench(folder / "store", names=benchmark.names, resources=benchmark.config.resources) as bench:
        return summarise(run_benchmark(benchmark, bench))


def test_a_benchmark_measures_both_queries_of_a_pair(measured: Summary) -> None:
    base, own, pairs = measured.hard_negatives

    # 1-0: each query shares its own document's words, so both are right. 2-0: `rash rash` has the term of q1 twice in
    # as many words, so q1 is right; `pain` puts `rash pain` first for q2, so q2 is right, too.
    assert pairs.values == {"pair_acc": 1, "triplet_acc": 1, "contrast_acc": 1, "contrast_acc chance": 0.25}
    assert (pairs.num_contrasts, list(pairs.by_kind)) == (2, ["negation"])
    assert pairs.by_kind["negation"].values == pairs.values
    # The corpus of `own` is that of the task, because its hard negatives are there already.
    assert own.score == base.score


def test_the_report_shows_contrasts_beside_pairs_with_their_chance_and_is_made_again(
    tmp_path: Path, measured: Summary
) -> None:
    folder = write_report(measured, tmp_path / "x")

    assert summarise(load_results(folder)).hard_negatives == measured.hard_negatives
    for text in (leaderboard_markdown(measured), render_page(measured)):
        for expected in ("contrast_acc chance", "contrast_acc: negation", "chance is 25"):
            assert expected in text.replace("\\", "")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"doc2": None}, r"nevir.jsonl:2: doc2 is None; expected a text"),
        ({"q1": " "}, r"nevir.jsonl:2: record '2-0': q1 has no text"),
        ({"id": "1-0"}, r"nevir.jsonl:2: id '1-0' is at .*nevir.jsonl:1 too"),
        ({"doc1": "rash pain"}, r"nevir.jsonl:2: record '2-0': doc1 and doc2 are the same text"),
        ({"id": "a b"}, r"nevir.jsonl:2: 'a b' is no id"),
    ],
)
def test_a_bad_record_is_refused_with_its_line_and_leaves_no_folder(
    tmp_path: Path, changed: dict[str, Any], message: str
) -> None:
    file = write(tmp_path, "nevir.jsonl", [ROWS[0], ROWS[1] | changed])

    with pytest.raises(DataError, match=message):
        import_contrasts(file, tmp_path / "task")

    assert not (tmp_path / "task").exists()


def test_a_file_without_records_and_a_field_that_is_missing_are_refused(tmp_path: Path) -> None:
    (tmp_path / "none.jsonl").write_text("")
    with pytest.raises(DataError, match=r"none.jsonl: holds no records"):
        import_contrasts(tmp_path / "none.jsonl", tmp_path / "task")
    (tmp_path / "short.csv").write_text("id,q1\n1,fever\n")
    with pytest.raises(DataError, match=r"short.csv:2: no field q2; it has id, q1"):
        import_contrasts(tmp_path / "short.csv", tmp_path / "task")
    (tmp_path / "long.csv").write_text("id,q1\n1,fever,cough\n")
    with pytest.raises(DataError, match=r"long.csv:2: the row has more fields than the header"):
        import_contrasts(tmp_path / "long.csv", tmp_path / "task")


def test_a_folder_that_is_there_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="it exists already; name a new folder"):
        import_contrasts(write(tmp_path, "nevir.jsonl"), tmp_path)
