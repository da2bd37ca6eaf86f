"""A Nano set takes the right queries and documents from a collection."""

from pathlib import Path

import pytest

from r2med_ray.corpus.sources import TaskSource
from r2med_ray.errors import DataError
from r2med_ray.interop.nano.pool import NanoPool, select_pool
from tests.unit.corpus_files import DOCUMENTS, write_jsonl, write_r2med


def ids(pool: NanoPool) -> list[str]:
    return [document.doc_id for document in pool.documents]


def test_positives_come_first_in_the_order_of_the_qrels_then_the_head(tmp_path: Path) -> None:
    source = write_r2med(tmp_path, qrels=[("q2", "d5", 1), ("q1", "d4", 2), ("q1", "d2", 1)])

    pool = select_pool(source, num_documents=5)

    assert ids(pool) == ["d5", "d4", "d2", "d1", "d3"]
    assert pool.qrels == {"q2": {"d5": 1}, "q1": {"d4": 1, "d2": 1}}


def test_queries_without_a_positive_and_repeated_texts_make_room_for_the_next(tmp_path: Path) -> None:
    queries = [("q1", "cat"), ("q2", "dog"), ("q3", " dog "), ("q4", "cow"), ("q5", "fish")]
    qrels = [("q1", "d1", 0), *((f"q{number}", f"d{number}", 1) for number in (2, 3, 4, 5))]

    pool = select_pool(write_r2med(tmp_path, queries=queries, qrels=qrels), num_queries=2)

    assert [query.query_id for query in pool.queries] == ["q2", "q4"]
    assert set(pool.qrels) == {"q2", "q4"}


def test_what_is_judged_not_relevant_fills_in_turn_over_the_queries_by_id(tmp_path: Path) -> None:
    # The positives are d6 of q2 and d5 of q1. Not relevant are d3 and d4 of q2, and d2 of q1. The queries take turns
    # by their ids: d2, d3, then d4.
    qrels = [("q2", "d6", 1), ("q2", "d3", 0), ("q2", "d4", -1), ("q1", "d5", 1), ("q1", "d2", 0)]

    assert ids(select_pool(write_r2med(tmp_path, qrels=qrels), num_documents=5)) == ["d6", "d5", "d2", "d3", "d4"]


def test_a_positive_that_repeats_another_text_loses_its_judgement_and_its_query(tmp_path: Path) -> None:
    corpus = [("d1", "cat"), ("d2", " cat\n"), ("d3", ""), ("d1", "other"), ("d4", "dog")]
    qrels = [("q1", "d1", 1), ("q1", "d3", 1), ("q2", "d2", 1), ("q3", "d4", 1)]

    pool = select_pool(write_r2med(tmp_path, corpus=corpus, qrels=qrels))

    # d3 is lost because it is empty, and d2 because it repeats d1. q2 has no other positive. The first of the two d1
    # counts.
    assert pool.qrels == {"q1": {"d1": 1}, "q3": {"d4": 1}}
    assert [query.query_id for query in pool.queries] == ["q1", "q3"]
    assert [(document.doc_id, document.text) for document in pool.documents] == [("d1", "cat"), ("d4", "dog")]
    assert (pool.lost_positives, pool.lost_queries, pool.lost_exclusions) == (2, 1, 0)


def test_the_head_is_long_enough_when_all_of_it_repeats_what_is_chosen(tmp_path: Path) -> None:
    # In a head of four documents, x1 and x2 have the texts of the two positives, and x3 and x4 fill the pool. No
    # document is left over.
    corpus = [
        ("x1", "one"),
        ("x2", "two"),
        ("x3", "three"),
        ("x4", "four"),
        ("x5", "five"),
        ("p1", "one"),
        ("p2", "two"),
    ]
    source = write_r2med(tmp_path, corpus=corpus, qrels=[("q1", "p1", 1), ("q2", "p2", 1)])

    assert ids(select_pool(source, num_documents=4)) == ["p1", "p2", "x3", "x4"]


@pytest.mark.parametrize(
    ("title", "text", "expected"),
    [(" T ", " body ", "T\n\nbody"), ("same", "same", "same"), ("T", " ", "T"), ("", "body", "body")],
)
def test_a_title_and_a_blank_line_come_before_the_text(tmp_path: Path, title: str, text: str, expected: str) -> None:
    source = write_r2med(tmp_path, qrels=[("q1", "d1", 1)])
    write_jsonl(tmp_path / "corpus.jsonl", [{"id": "d1", "title": title, "text": text}])

    assert select_pool(source).documents[0].text == expected


def test_what_a_query_excludes_is_counted_where_the_set_holds_it(tmp_path: Path) -> None:
    documents = [{"id": f"d{number}", "content": f"text {number}"} for number in (1, 2, 3)]
    example = {"id": "0", "query": "cat", "gold_ids": ["d1"], "excluded_ids": ["d2", "elsewhere"]}
    for config, rows in (("documents", documents), ("examples", [example])):
        (tmp_path / config).mkdir()
        write_jsonl(tmp_path / config / "biology.jsonl", rows)
    source = TaskSource(name="B", suite="B", folder=tmp_path, layout="bright", split="biology")

    assert select_pool(source).lost_exclusions == 1
    assert select_pool(source, num_documents=1).lost_exclusions == 0


def test_a_collection_whose_positives_are_all_missing_is_refused(tmp_path: Path) -> None:
    source: TaskSource = write_r2med(tmp_path, qrels=[("q1", "d99", 1)])

    with pytest.raises(DataError, match="no positive of its first 1 queries is in the corpus"):
        select_pool(source)
    assert "d99" not in DOCUMENTS
