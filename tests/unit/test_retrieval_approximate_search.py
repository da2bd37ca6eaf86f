"""What an approximate search missed, counted by hand."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from r2med_ray.approximations import Approximation
from r2med_ray.corpora import Corpus, CorpusShard
from r2med_ray.demands import Demand, Expect, Find
from r2med_ray.pipeline import Ranked, rank
from r2med_ray.retrieval.approximate_search import SAMPLE, approximation, exact_find, sample_of
from r2med_ray.retrieval.search import most_found
from r2med_ray.settings.config_files import parse_config
from r2med_ray.systems import ResolvedSystem, resolve
from r2med_ray.types import Query, Run, ScoredDoc, Task
from tests.fakes import answer

INDEX = "IVF4,Flat;nprobe=1"
MINILM = "all-MiniLM-L6-v2"
QUERIES = (
    Query(query_id="q1", text="cat"),
    Query(query_id="q2", text="dog"),
    Query(query_id="q3", text="bird", excluded=frozenset({"a", "b"})),
)
TASK = Task(
    name="tiny",
    suite="tiny",
    revision="1",
    corpus=Corpus(key="c", digest="d", shards=(CorpusShard(index=0, path="p", start_row=0, num_rows=4, digest="s"),)),
    queries=QUERIES,
    qrels={},
    folder="",
)


def system(*retrievers: Any, depth: int = 3, **parts: Any) -> ResolvedSystem:
    named = {"retrievers": list(retrievers), "fusion": {}} if len(retrievers) > 1 else {"retriever": retrievers[0]}
    values = {"name": "x", "tasks": ["Demo-Posts"], "depth": depth, "systems": [{"name": "s", **named, **parts}]}
    return resolve(parse_config(values)).systems[0]


def run(**rankings: str) -> Run:
    """Return a run made from texts such as `ab`, whose letters are documents."""
    return Run(
        tag="t",
        rankings={
            query_id: tuple(ScoredDoc(doc_id, -place) for place, doc_id in enumerate(doc_ids))
            for query_id, doc_ids in rankings.items()
        },
    )


def find(index: str = INDEX, k: int = 3) -> Find:
    return Find(
        task=TASK, first_stage=system({"model": MINILM, "index": index}).first_stages[0], queries=QUERIES, k=k
    )


def test_recall_is_the_share_of_what_exact_search_finds() -> None:
    found = approximation(find(), run(q1="abx", q2="d", q3="cd"), run(q1="abc", q2="abd", q3="cd"))

    # q1 has 2 of 3 documents, q2 has 1 of 3, q3 has both of 2. q2 alone is shorter than exact search makes it: q3
    # excludes 2 of the corpus's 4 documents.
    assert found == Approximation(
        search=f"{MINILM}[{INDEX}]", recall=5 / 8, num_sampled=3, depth=3, num_queries=3, num_short=1
    )


def test_all_queries_are_counted_though_a_sample_is_compared() -> None:
    found = approximation(find(k=1), run(q1="", q2="d", q3="c"), run(q2="a"))

    assert (found.recall, found.num_sampled, found.num_short) == (0.0, 1, 1)


def test_a_full_ranking_lacks_what_the_query_excludes_its_own_id_and_what_the_index_lacks() -> None:
    # 4 documents: a, b, c and q2. `gone` isn't among them.
    task = replace(TASK, identical_ids=frozenset({"q2"}), unknown_excluded=frozenset({"gone"}))

    def most(query_id: str, *excluded: str, drop: bool = False, left_out: str = "") -> int:
        query = Query(query_id=query_id, text="x", excluded=frozenset(excluded))
        return most_found(task, query, drop_identical_ids=drop, left_out=frozenset(left_out))

    assert most("q1") == 4
    assert most("q1", "a", "gone") == 3
    assert (most("q1", drop=True), most("q2", drop=True), most("q2")) == (4, 3, 4)
    assert most("q2", "q2", drop=True) == 3  # left out once
    assert most("q1", "a", left_out="ab") == 2  # a is left out once


def test_a_ranking_is_short_only_of_what_exact_search_ranks() -> None:
    near = run(q1="abc", q2="abc", q3="c")
    # 4 documents, but the index lacks d: exact search asked for 4 ranks 3, and one where a and b are excluded.
    assert approximation(find(k=4), near, run(q1="abc", q2="abc", q3="c")).num_short == 0
    # q3 alone is short where the index is whole.
    assert approximation(find(k=3), near, run(q1="abc", q2="abc", q3="cd")).num_short == 1


def test_an_excluded_document_that_the_corpus_lacks_shortens_no_ranking() -> None:
    task = replace(TASK, unknown_excluded=frozenset({"b"}))
    found = run(q1="abc", q2="abc", q3="cd")

    # q3 excludes a, and b, which isn't there: 3 of 4 documents are to be ranked.
    assert approximation(replace(find(), task=task), found, run(q1="abc", q2="abc", q3="cde")).num_short == 1


def test_nothing_to_find_is_found() -> None:
    assert approximation(find(), run(q1="", q2="", q3=""), run(q1="", q2="", q3="")).recall == 1.0


def test_the_sample_depends_on_the_ids_alone_and_keeps_the_order() -> None:
    queries = [Query(query_id=f"q{number:03}", text=str(number)) for number in range(250)]
    sample = sample_of(queries)

    assert len(set(sample)) == SAMPLE
    assert [query.query_id for query in sample] == sorted(query.query_id for query in sample)
    assert set(sample_of(queries[::-1])) == set(sample)
    assert sample_of(QUERIES) == QUERIES


@pytest.mark.parametrize("retriever", [MINILM, "bm25", {"candidates": "bm25"}, {"model": MINILM, "index": "Flat"}])
def test_an_exact_search_is_not_checked(retriever: Any) -> None:
    exact = Find(task=TASK, first_stage=system(retriever).first_stages[0], queries=QUERIES, k=3)

    assert exact_find(exact) is None


def test_the_exact_search_differs_by_its_index_alone() -> None:
    approximate = system({"model": MINILM, "index": INDEX, "max_length": 99}).first_stages[0]
    exact = exact_find(replace(find(), first_stage=approximate))

    assert exact == replace(find(), first_stage=system({"model": MINILM, "max_length": 99}).first_stages[0])


def ranked(parts: ResolvedSystem, runs: Mapping[str, Run]) -> tuple[Ranked, list[Demand]]:
    """Drive the flow. A search finds the run of its first stage, for the queries that are asked."""

    def found(demand: Find) -> Run:
        rankings = runs[demand.first_stage.label].rankings
        return Run(tag="t", rankings={query.query_id: rankings[query.query_id] for query in demand.queries})

    return answer(rank(TASK, parts), {Find: found, Expect: lambda _: None})


def labels(demands: Sequence[Demand]) -> list[str]:
    return [demand.first_stage.label for demand in demands if isinstance(demand, Find)]


def test_a_system_says_what_its_approximate_search_missed() -> None:
    near, exact = run(q1="abx", q2="d", q3="cd"), run(q1="abc", q2="abd", q3="cd")
    result, demands = ranked(system({"model": MINILM, "index": INDEX}), {f"{MINILM}[{INDEX}]": near, MINILM: exact})

    assert labels(demands) == [f"{MINILM}[{INDEX}]", MINILM]
    assert result.run.rankings == near.rankings
    assert [found.recall for found in result.approximations] == [5 / 8]


def test_only_the_approximate_part_of_a_fusion_is_checked() -> None:
    near, exact = run(q1="ab", q2="ab", q3="cd"), run(q1="cd", q2="ab", q3="cd")
    parts = system("bm25", {"model": MINILM, "index": INDEX}, depth=2)
    result, demands = ranked(parts, {"bm25": near, f"{MINILM}[{INDEX}]": near, MINILM: exact})

    assert labels(demands) == ["bm25", f"{MINILM}[{INDEX}]", MINILM]
    # q1 has none of 2 documents, q2 and q3 have both of 2: 4 / 6.
    assert [found.recall for found in result.approximations] == pytest.approx([4 / 6])


def test_an_exact_system_asks_for_nothing_more() -> None:
    result, demands = ranked(system(MINILM), {MINILM: run(q1="ab", q2="ab", q3="cd")})

    assert labels(demands) == [MINILM]
    assert result.approximations == ()


def test_search_parameters_are_part_of_the_name() -> None:
    assert system({"model": MINILM, "index": "IVF64,Flat"}).describe() == f"{MINILM}[IVF64,Flat;nprobe=32]"


def test_a_search_that_finds_all_and_orders_it_worse_is_not_close_to_exact() -> None:
    found = Approximation(search="s", recall=1.0, num_sampled=2, depth=3, num_queries=2, num_short=0)

    # A loss of 1 of 100 is noticed, a gain is none.
    assert [replace(found, ndcg_change=change).is_close for change in (None, 0.3, -0.009, -0.01)] == [
        True,
        True,
        True,
        False,
    ]
