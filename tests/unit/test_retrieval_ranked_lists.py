"""Ranked lists that exist already are a first stage."""

from pathlib import Path

import pytest

from r2med_ray.errors import DataError
from r2med_ray.ranking import best
from r2med_ray.retrieval.ranked_lists import ListRetriever, in_order, read_lists
from r2med_ray.types import Query
from tests.unit.nano_files import write_table

QUERIES = [Query(query_id="q1", text="cat"), Query(query_id="q2", text="dog")]
LONG = [f"d{number}" for number in range(500)]


def test_the_order_of_a_list_is_the_order_of_its_run() -> None:
    # By id alone, "d9" would be before "d10".
    run = ListRetriever("t", {"q1": ["d10", "d9"], "q2": ["a"]}).retrieve(QUERIES, k=5)

    assert [hit.doc_id for hit in run.rankings["q1"]] == ["d10", "d9"]
    assert run.rankings["q2"] == (("a", 1.0),)


def test_scores_keep_500_documents_apart_where_runs_are_compared() -> None:
    assert best(reversed(in_order(LONG)), 500) == in_order(LONG)


def test_what_lies_below_the_kept_part_or_the_depth_is_cut_off() -> None:
    retriever = ListRetriever("t", {"q1": LONG[:101], "q2": LONG[:100]}, keep=100)

    assert [len(ranking) for ranking in retriever.retrieve(QUERIES, k=500).rankings.values()] == [100, 100]
    assert len(retriever.retrieve(QUERIES, k=7).rankings["q1"]) == 7


def test_what_a_query_excludes_is_left_out_before_the_cut() -> None:
    query = Query(query_id="q1", text="cat", excluded=frozenset({"d1", "d9"}))

    run = ListRetriever("t", {"q1": ["d1", "d2", "d3", "d4"]}).retrieve([query], k=2)

    assert [hit.doc_id for hit in run.rankings["q1"]] == ["d2", "d3"]


@pytest.mark.parametrize(("drop", "kept"), [(False, ["q1", "d2"]), (True, ["d2", "d3"])])
def test_a_document_with_the_id_of_its_query_is_left_out_before_the_cut_where_that_is_asked_for(
    drop: bool, kept: list[str]
) -> None:
    lists = {"q1": ["q1", "d2", "d3"], "q2": ["q1", "d2"]}

    run = ListRetriever("t", lists, drop_identical_ids=drop).retrieve(QUERIES, k=2)

    assert [hit.doc_id for hit in run.rankings["q1"]] == kept
    assert [hit.doc_id for hit in run.rankings["q2"]] == ["q1", "d2"]


def test_a_query_without_a_list_is_refused() -> None:
    with pytest.raises(DataError, match="candidates 't': there is no list for query 'q2'"):
        ListRetriever("t", {"q1": ["d1"]}).retrieve(QUERIES, k=5)


def test_lists_are_read_with_their_ids_as_text(tmp_path: Path) -> None:
    write_table(tmp_path / "x.parquet", ["query-id", "corpus-ids"], [(1, [30, 4]), (2, [])])

    assert read_lists(tmp_path / "x.parquet") == {"1": ("30", "4"), "2": ()}


@pytest.mark.parametrize(
    ("columns", "rows", "message"),
    [
        (["query-id", "corpus-id"], [("q1", "d1")], "x.parquet:1: expected query-id and a list of corpus-ids"),
        (
            ["query-id", "corpus-ids"],
            [("q1", ["d1"]), ("q1", ["d2"])],
            r"x.parquet:2: query 'q1' has a list already, in .*:1$",
        ),
        (["query-id", "corpus-ids"], [("q1", ["a", "b", "b"])], "query 'q1' has document 'b' twice"),
        (["query-id", "corpus-ids"], [("q1", ["a", None])], "x.parquet:1: document 2 of query 'q1' is null"),
    ],
)
def test_wrong_lists_are_refused(
    tmp_path: Path, columns: list[str], rows: list[tuple[object, ...]], message: str
) -> None:
    write_table(tmp_path / "x.parquet", columns, rows)

    with pytest.raises(DataError, match=message):
        read_lists(tmp_path / "x.parquet")
