"""The searches that rewritten queries ask for, and the combination of their rankings."""

from collections.abc import Mapping

import pytest

from r2med_ray.errors import DataError
from r2med_ray.ranking import best
from r2med_ray.retrieval.fusion import fuse
from r2med_ray.retrieval.searches import Search, combine_searches, searches_of
from r2med_ray.settings.config import FusionConfig
from r2med_ray.types import Combine, Expansion, Query, Run, ScoredDoc, Use


def written(*texts: str, use: Use = "averaged") -> tuple[Expansion, ...]:
    return tuple(Expansion(text=text, method="hyde", use=use) for text in texts)


def query(query_id: str, *expansions: Expansion) -> Query:
    return Query(query_id=query_id, text=f"text {query_id}", expansions=expansions)


def run(rankings: Mapping[str, Mapping[str, float]], tag: str = "bm25") -> Run:
    return Run(
        tag=tag,
        rankings={
            query_id: best([ScoredDoc(doc_id, score) for doc_id, score in hits.items()], 100)
            for query_id, hits in rankings.items()
        },
    )


def asked(search: Search) -> list[tuple[str, list[str]]]:
    """Return the id and the texts of every query of a search."""
    return [(query.query_id, [expansion.text for expansion in query.expansions]) for query in search.queries]


def test_several_texts_are_one_search_or_one_search_each() -> None:
    two, one = query("1", *written("a", "b")), query("2", *written("c"))

    assert searches_of([two, one], "mean") == (Search((two, one), "fused"),)
    first, second = searches_of([two, one], "rrf")
    assert asked(first) == [("1", ["a"]), ("2", ["c"])]
    assert asked(second) == [("1", ["b"]), ("2", [])]
    assert (first.role, second.role) == ("fused", "fused")


@pytest.mark.parametrize("queries", [[], [query("1")]])
def test_without_texts_there_is_one_search(queries: list[Query]) -> None:
    assert searches_of(queries, "rrf") == (Search(tuple(queries), "fused"),)


@pytest.mark.parametrize("combine", ["mean", "rrf"])
@pytest.mark.parametrize(("use", "role"), [("alone", "fused"), ("subtracted", "subtracted")])
def test_a_text_that_is_searched_on_its_own_takes_the_place_of_its_query(use, role, combine) -> None:  # type: ignore[no-untyped-def]
    two, one, none = query("1", *written("a", "b", use=use)), query("2", *written("c", use=use)), query("3")

    as_it_is, first, second = searches_of([two, one, none], combine)

    assert (asked(as_it_is), as_it_is.role) == ([("1", []), ("2", []), ("3", [])], "fused")
    # only the queries that have a text are in the search for texts
    assert (asked(first), first.role) == ([("1", ["a"]), ("2", ["c"])], role)
    assert (asked(second), second.role) == ([("1", ["b"])], role)
    assert {part.use for search in (first, second) for item in search.queries for part in item.expansions} == {
        "replaces"
    }


def test_one_search_gives_its_run_as_it_is() -> None:
    found = run({"1": {"a": 2.0, "b": 1.0}})

    assert combine_searches(searches_of([query("1")], "mean"), [found], k=1) is found


def test_searches_of_several_texts_are_fused_as_runs_are() -> None:
    searches = searches_of([query("1", *written("a", "b")), query("2", *written("c"))], "rrf")
    runs = [
        run({"1": {"a": 3.0, "b": 2.0, "c": 1.0}, "2": {"a": 1.0}}),
        run({"1": {"c": 9.0, "b": 9.0}, "2": {"b": 0.5, "a": 0.25}}),
    ]

    combined = combine_searches(searches, runs, k=2)

    assert combined == fuse(runs, FusionConfig(), tag="bm25", k=2)
    assert list(combined.rankings) == ["1", "2"]


@pytest.mark.parametrize("combine", ["sum", "minmax", "zscore"])
def test_rewrites_are_searched_one_by_one_and_their_scores_summed_after_the_stated_normalisation(
    combine: Combine,
) -> None:
    searches = searches_of([query("1", *written("a", "b", "c", use="replaces"))], combine)
    runs = [run({"1": {"a": 4.0, "b": 2.0}}), run({"1": {"b": 3.0, "c": 1.0}}), run({"1": {"c": 9.0, "a": 1.0}})]

    rankings = combine_searches(searches, runs, combine, k=3).rankings

    assert [asked(search) for search in searches] == [[("1", [text])] for text in "abc"]
    assert (
        dict(rankings["1"])
        == {
            "sum": {"a": 5.0, "b": 5.0, "c": 10.0},  # a: 4 + 1, b: 2 + 3, c: 1 + 9
            "minmax": {"a": 1.0, "b": 1.0, "c": 1.0},  # each is first of one list, 1, and last of another, 0
            # of two scores the better gets 1 and the other -1, as a document does that is absent: 1 - 1 - 1
            "zscore": {"a": -1.0, "b": -1.0, "c": -1.0},
        }[combine]
    )


def test_a_text_alone_is_fused_with_its_query_and_other_queries_keep_their_ranking() -> None:
    searches = searches_of([query("1", *written("a", use="alone")), query("2")], "mean")
    runs = [run({"1": {"a": 3.0, "b": 2.0}, "2": {"x": 7.0}}), run({"1": {"b": 5.0, "c": 4.0}})]

    rankings = combine_searches(searches, runs, k=10).rankings

    # b: 1/62 + 1/61 = 0.032523; a: 1/61 = 0.016393; c: 1/62 = 0.016129
    assert [doc_id for doc_id, _ in rankings["1"]] == ["b", "a", "c"]
    assert [score for _, score in rankings["1"]] == pytest.approx([0.032523, 0.016393, 0.016129], abs=1e-6)
    assert rankings["2"] == (ScoredDoc("x", 7.0),)


def subtracted(of_query: Mapping[str, float], *of_texts: Mapping[str, float], k: int) -> list[tuple[str, float]]:
    texts = [f"text {number}" for number, _ in enumerate(of_texts)]
    searches = searches_of([query("1", *written(*texts, use="subtracted"))], "mean")
    runs = [run({"1": scores}) for scores in (of_query, *of_texts)]
    return [*combine_searches(searches, runs, k=k).rankings["1"]]


def test_the_scores_of_a_text_are_taken_away_and_full_lists_count_their_lowest_for_what_they_lack() -> None:
    # k = 3, so both lists are full. a and c are not in the text's list, whose lowest score is 2. d and e are not in
    # the query's list, whose lowest score is 5. a: 9 - 2 = 7, c: 5 - 2 = 3, d: 5 - 4 = 1, b: 8 - 8 = 0, e: 5 - 2 = 3.
    # c and e tie, so e is first.
    found = subtracted({"a": 9.0, "b": 8.0, "c": 5.0}, {"b": 8.0, "d": 4.0, "e": 2.0}, k=3)

    assert found == [("a", 7.0), ("e", 3.0), ("c", 3.0)]


def test_a_list_that_is_not_full_counts_nothing_for_what_it_lacks() -> None:
    # a: 9 - 0, b: 8 - 8, d: 0 - 4
    assert subtracted({"a": 9.0, "b": 8.0}, {"b": 8.0, "d": 4.0}, k=10) == [("a", 9.0), ("b", 0.0), ("d", -4.0)]


def test_a_text_that_finds_nothing_changes_no_score() -> None:
    assert subtracted({"a": 9.0, "b": 8.0}, {}, k=2) == [("a", 9.0), ("b", 8.0)]


def test_of_several_texts_the_mean_is_taken_away() -> None:
    # a: 9 - (4 + 0) / 2, b: 8 - (0 + 1) / 2
    assert subtracted({"a": 9.0, "b": 8.0}, {"a": 4.0}, {"b": 1.0}, k=5) == [("b", 7.5), ("a", 7.0)]


def test_a_query_without_a_text_keeps_its_ranking_beside_one_with_a_text() -> None:
    searches = searches_of([query("1", *written("a", use="subtracted")), query("2")], "mean")
    runs = [run({"1": {"a": 1.0}, "2": {"x": 7.0}}), run({"1": {"a": 3.0}})]

    assert combine_searches(searches, runs, k=5).rankings == {"1": (("a", -2.0),), "2": (("x", 7.0),)}


def test_nothing_is_subtracted_from_scores_that_only_tell_ranks() -> None:
    searches = searches_of([query("1", *written("a", "b"), *written("c", use="subtracted"))], "rrf")
    runs = [run({"1": {"a": 1.0}})] * 3

    with pytest.raises(DataError, match="query '1': a text can't be subtracted where 2 searches are fused"):
        combine_searches(searches, runs, k=5)


def test_a_score_that_is_not_finite_is_refused() -> None:
    with pytest.raises(DataError, match="subtract: query '1', document 'b' has score inf"):
        subtracted({"a": 9.0}, {"b": float("inf")}, k=5)


@pytest.mark.parametrize("found", [{}, {"1": {}, "2": {}}])
def test_a_run_that_answers_other_queries_than_it_was_asked_is_refused(found: dict[str, dict[str, float]]) -> None:
    searches = searches_of([query("1", *written("a", use="alone"))], "mean")

    with pytest.raises(DataError, match="run 'bm25' doesn't answer the queries of its search: 1 are in one of them"):
        combine_searches(searches, [run({"1": {}}), run(found)], k=5)
