"""A stored run is named by everything that changes it, and is read back unchanged."""

import pytest

from r2med_ray.errors import ArtifactError
from r2med_ray.retrieval import stored_runs
from r2med_ray.retrieval.stored_runs import run_from_table, run_key, run_table
from r2med_ray.types import Expansion, Query, Run, ScoredDoc

QUERIES = (Query(query_id="q1", text="rash"), Query(query_id="q/2", text="zzz"))


def test_a_run_is_read_as_it_was_and_keeps_its_unanswered_queries() -> None:
    run = Run(tag="bm25", rankings={"q1": (ScoredDoc("d1", 0.1),), "q/2": ()})

    first = run_from_table("bm25", QUERIES, run_table(run))

    # 0.1 is 0.10000000149011612 as float32. The second query was searched and has no hits.
    assert first.rankings == {"q1": (ScoredDoc("d1", 0.10000000149011612),), "q/2": ()}
    assert run_from_table("bm25", QUERIES, run_table(first)) == first


@pytest.mark.parametrize(
    ("queries", "k", "inputs"),
    [
        pytest.param(QUERIES, 9, {"k1": 0.9}, id="depth"),
        pytest.param(QUERIES[:1], 10, {"k1": 0.9}, id="queries"),
        pytest.param(QUERIES, 10, {"k1": 1.2}, id="inputs"),
        pytest.param(
            (Query(query_id="q1", text="rash", expansions=(Expansion(text="h", method="hyde"),)), QUERIES[1]),
            10,
            {"k1": 0.9},
            id="expansion",
        ),
        pytest.param(
            (Query(query_id="q1", text="rash", excluded=frozenset({"d1"})), QUERIES[1]),
            10,
            {"k1": 0.9},
            id="excluded",
        ),
    ],
)
def test_another_question_is_another_run(queries: tuple[Query, ...], k: int, inputs: dict[str, float]) -> None:
    assert run_key(inputs, queries, k) != run_key({"k1": 0.9}, QUERIES, 10)


@pytest.mark.parametrize(
    ("first", "name"),
    [
        pytest.param(QUERIES[0], "run/ec568fd31916f6175f400582a40cb616", id="plain"),
        pytest.param(
            Query(
                query_id="q1",
                text="rash",
                expansions=(Expansion(text="h", method="hyde"),),
                excluded=frozenset({"d2", "d1"}),
            ),
            "run/9ac84e6bca9a7cc09db1e93e87b63acc",
            id="expanded, with excluded documents",
        ),
    ],
)
def test_runs_that_were_kept_by_earlier_versions_are_found(first: Query, name: str) -> None:
    """The names come from commit f41411a."""
    assert run_key({"k1": 0.9}, (first, QUERIES[1]), 10).name == name


def test_a_run_of_no_hits_at_all_is_a_run() -> None:
    assert run_from_table("bm25", (), run_table(Run(tag="bm25", rankings={}))).rankings == {}


def test_a_table_of_several_chunks_is_the_same_run(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Run(tag="bm25", rankings={"q1": tuple(ScoredDoc(f"d{n}", 5.0 - n) for n in range(5)), "q/2": ()})
    whole = run_table(run)
    monkeypatch.setattr(stored_runs, "ROWS_AT_ONCE", 2)

    # 5 rows are 3 chunks of at most 2.
    assert run_table(run)["doc_id"].num_chunks == 3
    assert run_table(run).equals(whole)
    assert run_from_table("bm25", QUERIES, run_table(run)) == run


def test_the_tag_is_given_by_whoever_reads() -> None:
    table = run_table(Run(tag="bm25", rankings={"q1": (ScoredDoc("d1", 1.0),)}))

    assert run_from_table("hybrid", QUERIES, table).tag == "hybrid"


def test_a_stored_run_that_answers_what_was_not_asked_is_refused() -> None:
    table = run_table(Run(tag="bm25", rankings={"q1": (ScoredDoc("d1", 1.0),)}))

    with pytest.raises(ArtifactError, match="run 'bm25': the stored run answers 'q1', which was not asked"):
        run_from_table("bm25", QUERIES[1:], table)
