"""The files beside the page hold what it shows of single queries, each text once, and no text can run."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from r2med_ray.reporting import chunks
from r2med_ray.reporting.chunks import task_scripts, write_chunks
from r2med_ray.reporting.query_details import PASSAGE
from r2med_ray.reporting.texts import Question, TaskTexts, Written
from r2med_ray.sentences import Told
from tests.unit.reporting_records import ALPHA, BETA, record

HOSTILE = "</script><script>alert(1)</script>\u202e\x00\u2028" + "x" * 100_000
TEXTS = TaskTexts(
    questions={"q2": Question(text="second?", body_system="skin"), "q1": Question(text="first?", answer="rubella")},
    passages={"d1": "one", "d2": "two", "x": HOSTILE},
    written={"first": {"q1": Written(texts=("hypothesis",), reasoning=("because",))}},
    terms={"first": {"q1": {"d1": {"fever": 1.234, "rash": 0.5}}}},
    sentences={"second": Told("colbert", {"q1": {"d1": (0.5,)}}), "first": Told("colbert", {}, "no model")},
)


def read(path: Path, function: str) -> Any:
    text = path.read_text(encoding="ascii")
    assert text.startswith(f"r2med.{function}(")
    assert text.endswith(");\n")
    return json.loads(text.removeprefix(f"r2med.{function}(").removesuffix(");\n"))


def written(folder: Path) -> None:
    write_chunks(record(tasks=[replace(ALPHA, texts=TEXTS), BETA]), folder)


def test_a_task_has_its_queries_in_the_order_of_the_collection_with_the_values_of_every_system(tmp_path):
    written(tmp_path)

    task = read(tmp_path / "queries/Alpha.js", "task")

    assert task["queries"] == [["q2", "second?", "skin"], ["q1", "first?", ""]]
    assert task["blocks"] == [0]
    # q2: `first` has the relevant document second, `second` found nothing; q1: first and second
    assert task["values"]["RR"] == {"0": [0.5, 1.0], "1": [0.0, 0.5]}


def test_a_query_has_what_each_system_found_where_the_relevant_stand_and_why(tmp_path):
    written(tmp_path)

    block = read(tmp_path / "queries/Alpha/0.js", "block")
    [_, query] = block["queries"]
    named = [doc_id for doc_id, _ in block["documents"]]

    def text(position: int) -> str:
        return block["texts"][position][0]

    assert (text(query["text"]), query["answer"]) == ("first?", "rubella")
    assert [[named[place], grade] for place, grade in query["relevant"]] == [["d1", 1]]
    first, second = query["systems"]["0"], query["systems"]["1"]
    assert [named[place] for place in second["found"]] == ["x", "d1"]
    assert (first["ranks"], second["ranks"]) == ([1], [2])
    assert first["terms"] == [[["fever", 1.23], ["rash", 0.5]]]
    assert ([*map(text, first["written"])], [*map(text, first["reasoning"])]) == (["hypothesis"], ["because"])


def test_a_system_with_late_interaction_has_the_sentences_of_what_it_found_or_why_they_are_unknown(tmp_path):
    written(tmp_path)

    block = read(tmp_path / "queries/Alpha/0.js", "block")
    first, second = block["queries"][1]["systems"]["0"], block["queries"][1]["systems"]["1"]

    # `second` found x, of which nothing is told, and d1, whose text is one sentence of three characters.
    assert (second["scorer"], second["sentences"]) == ("colbert", [[], [[1, 0, 3, 50]]])
    assert (first["untold"], "sentences" in first) == ("no model", False)


def test_a_long_or_hostile_text_is_cut_counted_and_only_data(tmp_path):
    written(tmp_path)

    file = tmp_path / "queries/Alpha/0.js"
    block = read(file, "block")

    assert [[text, lost] for text, lost in block["texts"] if "script" in text] == [
        [HOSTILE[:PASSAGE], len(HOSTILE) - PASSAGE]
    ]
    assert "<" not in file.read_text()


def test_a_block_ends_when_its_texts_are_long(tmp_path, monkeypatch):
    monkeypatch.setattr(chunks, "BLOCK", 10)
    written(tmp_path)

    assert read(tmp_path / "queries/Alpha.js", "task")["blocks"] == [0, 1]
    assert read(tmp_path / "queries/Alpha/1.js", "block")["queries"][0]["answer"] == "rubella"


@pytest.mark.parametrize("name", ["../up", "a/b", "Alpha"])
def test_files_stay_in_their_folder_whatever_a_task_is_called(name):
    [path] = task_scripts(record(tasks=[replace(ALPHA, name=name)])).values()

    assert Path("x", path).parent == Path("x/queries")


def test_a_task_whose_texts_were_not_kept_has_its_values(tmp_path):
    written(tmp_path)

    task = read(tmp_path / "queries/Beta.js", "task")

    assert (task["queries"], task["blocks"]) == ([["q3", "", ""]], [])
