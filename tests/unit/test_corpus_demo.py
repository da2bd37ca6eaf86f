"""The demo collection agrees with its card."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from r2med_ray.corpus.catalog import PACKAGE, TASKS
from r2med_ray.storage.jsonl import read_jsonl

DEMO = [row for row in TASKS.values() if row.suite == "Demo"]
NAMES = [row.name for row in DEMO]


def read(task: str, file: str) -> list[Mapping[str, object]]:
    return [record.values for record in read_jsonl(PACKAGE / "demo" / task / file)]


def words(text: object) -> list[str]:
    return re.findall(r"[a-z]+", str(text).lower())


def test_it_has_three_tasks_of_eighty_documents_and_fifteen_queries() -> None:
    assert [(row.family, row.counts.documents, row.counts.queries) for row in DEMO] == [
        ("qa", 80, 15),
        ("evidence", 80, 15),
        ("case", 80, 15),
    ]


@pytest.mark.parametrize("task", NAMES)
def test_its_passages_have_50_to_150_words(task: str) -> None:
    assert all(50 <= len(str(document["text"]).split()) <= 150 for document in read(task, "corpus.jsonl"))


@pytest.mark.parametrize("task", NAMES)
def test_a_query_has_one_to_five_positives_the_same_in_both_files(task: str) -> None:
    pairs = {(row["q_id"], row["p_id"]) for row in read(task, "qrels.jsonl")}
    queries = read(task, "query.jsonl")

    assert all(1 <= len(query["doc_id"]) <= 5 for query in queries)  # type: ignore[arg-type]
    assert pairs == {(query["id"], doc_id) for query in queries for doc_id in query["doc_id"]}  # type: ignore[attr-defined]


@pytest.mark.parametrize("task", NAMES)
def test_a_query_never_names_its_answer(task: str) -> None:
    for query in read(task, "query.jsonl"):
        assert query["answer"]
        assert query["body_system"]
        named = {word for word in words(query["answer"]) if len(word) > 5} & set(words(query["text"]))
        assert not named, (query["id"], named)


@pytest.mark.parametrize("task", NAMES)
@pytest.mark.parametrize(
    "generations", ["hyde/demo-writer", "query2doc/demo-writer", "lamer/demo-writer", "hyde/demo-reasoner"]
)
def test_every_query_has_a_generated_text(task: str, generations: str) -> None:
    texts = read(task, f"{generations}/query_with_hydoc.jsonl")

    assert [(text["id"], text["text"]) for text in texts] == [
        (query["id"], query["text"]) for query in read(task, "query.jsonl")
    ]
    thinks = [bool(re.fullmatch(r"<think>.+</think>.+", str(text["hy_doc"]), re.DOTALL)) for text in texts]
    assert all(thinks) if "reasoner" in generations else not any(thinks)


def test_its_card_says_that_it_is_no_benchmark_and_no_advice() -> None:
    card = (Path(PACKAGE) / "demo" / "README.md").read_text()

    assert "not a benchmark" in card
    assert "medical advice" in card
