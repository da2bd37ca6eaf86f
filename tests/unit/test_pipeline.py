"""The flow as steps. Fakes answer the demands, so that a person can work out the results by hand."""

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from r2med_ray.chat import Completion
from r2med_ray.corpora import Corpus
from r2med_ray.demands import Ask, Demand, Expect, Find, Read, Score
from r2med_ray.errors import DataError, StageError
from r2med_ray.evaluation.measures import Measure
from r2med_ray.pipeline import Ranked, measure, rank
from r2med_ray.protocols import Candidates
from r2med_ray.ranking import best
from r2med_ray.settings.config_files import parse_config
from r2med_ray.systems import ResolvedSystem, resolve
from r2med_ray.types import Document, Query, Ranking, Repairs, Reranking, Run, ScoredDoc, Task
from tests.fakes import SharedWords, answer

DOCUMENTS = {
    doc_id: Document(doc_id=doc_id, text=text)
    for doc_id, text in (("d1", "cat sits mat"), ("d2", "dog barks loud"), ("d3", "cat dog"), ("d4", "bird"))
}
TASK = Task(
    name="tiny",
    suite="tiny",
    revision="1",
    corpus=Corpus(key="corpus/x", digest="x", shards=()),
    queries=(
        Query(query_id="q1", text="cat mat"),
        Query(query_id="q2", text="dog"),
        Query(query_id="q3", text="zzz"),
    ),
    qrels={"q1": {"d1": 1}, "q2": {"d2": 1}, "q3": {"d4": 1}},
    folder="",
)
MEASURES = [Measure.parse("RR"), Measure.parse("R@3")]


def system(**parts: Any) -> ResolvedSystem:
    """Return a system of depth 3, written as in a benchmark file."""
    values = {"name": "x", "tasks": ["Demo-Posts"], "depth": 3}
    retriever = {} if "retrievers" in parts else {"retriever": "bm25"}
    return resolve(parse_config({**values, "systems": [{"name": "s", **retriever, **parts}]})).systems[0]


def fixed(**scores: float) -> Callable[[Find], Run]:
    """Return a search that finds the same documents for every query but `zzz`."""
    hits = [ScoredDoc(doc_id, score) for doc_id, score in scores.items()]

    def found(find: Find) -> Run:
        rankings = {query.query_id: () if query.text == "zzz" else best(hits, find.k) for query in find.queries}
        return Run(tag=find.first_stage.label, rankings=rankings)

    return found


def ranked(
    parts: ResolvedSystem,
    find: Callable[[Find], Run],
    score: Callable[[Sequence[Candidates]], Reranking] | None = None,
    ask: Callable[[Ask], list[Completion]] = lambda _: [],
) -> tuple[Ranked, list[Demand]]:
    answers = {
        Expect: lambda _: None,
        Find: find,
        Read: lambda read: {doc_id: DOCUMENTS[doc_id] for doc_id in read.doc_ids},
        Score: lambda demand: (score or SharedWords().score_all)(demand.candidates),
        Ask: ask,
    }
    return answer(rank(TASK, parts), answers)


def ids(result: Ranked, query_id: str) -> list[str]:
    return [hit.doc_id for hit in result.run.rankings[query_id]]


def test_a_first_stage_alone_is_evaluated_over_every_judged_query() -> None:
    result, _ = ranked(system(), fixed(d1=3, d2=2, d3=1))
    evaluation = measure(result.run, TASK, MEASURES)

    # RR is 1 for q1 (d1 is first), 1/2 for q2 (d2 is second) and 0 for q3 (unanswered). Recall is 1, 1 and 0.
    assert evaluation.means == pytest.approx({"RR": (1 + 1 / 2 + 0) / 3, "R@3": 2 / 3})
    assert evaluation.num_unanswered == 1


def test_fusion_and_reranking_come_in_this_order() -> None:
    parts = system(retrievers=["bm25", "bm25-r2med"], fusion={}, reranker={"model": "maxsim-minilm", "depth": 3})
    searches = {"bm25": fixed(d4=3, d1=2), "bm25-r2med": fixed(d4=3, d2=2)}
    result, demands = ranked(parts, lambda find: searches[find.first_stage.label](find))

    # RRF gives 2/61 to d4, and 1/62 to d1 and to d2; d2 is before d1 by its id. Reranking counts shared words: for
    # q1, d1 has 2, then come d4 and d2 with 0 by id; for q2, d2 has 1, then come d4 and d1.
    assert ids(result, "q1") == ["d1", "d4", "d2"]
    assert ids(result, "q2") == ["d2", "d4", "d1"]
    assert result.run.tag == "s"
    assert [type(demand).__name__ for demand in demands] == ["Expect", "Expect", "Find", "Find", "Read", "Score"]


def test_the_queries_that_a_first_stage_finds_nothing_for_are_told_though_another_one_answers_them() -> None:
    parts = system(retrievers=["bm25", "bm25-r2med"], fusion={})

    def everything(find: Find) -> Run:
        return Run(tag="all", rankings={query.query_id: (ScoredDoc("d4", 1.0),) for query in find.queries})

    searches = {"bm25": fixed(d4=3), "bm25-r2med": everything}
    result, _ = ranked(parts, lambda find: searches[find.first_stage.label](find))

    assert result.found_nothing == {"bm25": ("q3",)}
    assert ids(result, "q3") == ["d4"]


def test_a_part_says_what_it_is_going_to_need_before_it_asks_for_anything() -> None:
    rewriter = {"method": "lamer", "llm": "qwen-7b", "candidates": {"retriever": "bm25-r2med"}}
    parts = system(rewriter=rewriter, reranker={"model": "listwise-qwen-7b"})
    first = next(rank(TASK, parts))

    assert isinstance(first, Expect)
    # What LameR shows its model is searched for at once, so only the retriever of the system is still to come.
    assert [first_stage.label for _, first_stage in first.searches] == ["bm25"]
    assert [model.name for model in first.models] == ["qwen-7b", "qwen-7b"]
    assert first.scorers == ()


@pytest.mark.parametrize(
    ("rewriter", "comes_back"),
    [
        ({"method": "hyde", "samples": 2}, False),
        ({"method": "search-r1", "agent": {"retriever": "bm25"}}, True),
    ],
)
def test_a_part_expects_the_model_that_its_first_demand_asks_only_if_it_comes_back(
    rewriter: dict[str, Any], comes_back: bool
) -> None:
    first = next(rank(TASK, system(rewriter={"llm": "qwen-7b", **rewriter})))

    assert isinstance(first, Expect)
    assert [model.name for model in first.models] == ["qwen-7b"] * comes_back


def test_importing_the_flow_loads_neither_ray_nor_torch() -> None:
    program = (
        "import sys, r2med_ray.pipeline; print(sorted({'ray', 'torch', 'faiss', 'transformers'} & set(sys.modules)))"
    )
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"
    )


def reranked_system(max_unusable: float, **parts: Any) -> ResolvedSystem:
    """Return a system with a reranker of depth 2. A share of `max_unusable` of its answers may be unreadable."""
    resolved = system(reranker={"model": "maxsim-minilm", "depth": 2}, **parts)
    [reranker] = resolved.rerankers
    config = reranker.config.model_copy(update={"max_unusable": max_unusable})
    return replace(resolved, rerankers=(replace(reranker, config=config),))


REPAIRS = Repairs(rules={"q1": {"id missing": 2}}, unreadable={"q1": {"cut at limit": 1}})


def turned_around(work: Sequence[Candidates]) -> Reranking:
    """Reverse every head, and report an unreadable answer for the first query."""
    scores = {item.query.query_id: [float(rank) for rank in range(len(item.documents))] for item in work}
    return Reranking(scores=scores, repairs=REPAIRS)


@pytest.mark.parametrize("keep_below", [True, False])
def test_reranking_never_changes_recall_at_its_depth(keep_below: bool) -> None:
    find = fixed(d1=3, d2=2, d3=1)
    parts = reranked_system(1.0, compat="none" if keep_below else "r2med")
    measures = [Measure.parse("R@2"), Measure.parse("R@3")]

    before, _ = ranked(system(), find)
    after, _ = ranked(parts, find, turned_around)

    recall = [measure(result.run, TASK, measures).means["R@2"] for result in (before, after)]
    assert recall[0] == recall[1]
    assert ids(after, "q1") == ["d2", "d1", *(["d3"] if keep_below else [])]


def test_a_cascade_reorders_the_head_of_what_came_before() -> None:
    find = fixed(d1=3, d2=2, d3=1)
    parts = system(rerankers=[{"model": "maxsim-minilm", "depth": depth} for depth in (3, 2)])
    parts = replace(
        parts,
        rerankers=tuple(
            replace(each, config=each.config.model_copy(update={"max_unusable": 1.0})) for each in parts.rerankers
        ),
    )

    result, demanded = ranked(parts, find, turned_around)

    # d1 d2 d3 is turned around: d3 d2 d1. Then its first two are turned around: d2 d3 d1.
    assert ids(result, "q1") == ["d2", "d3", "d1"]
    assert [len(each.candidates[0].documents) for each in demanded if isinstance(each, Score)] == [3, 2]
    assert result.repairs == Repairs(rules={"q1": {"id missing": 4}}, unreadable={"q1": {"cut at limit": 2}})


def test_a_cascade_of_one_is_a_reranker() -> None:
    one = {"model": "maxsim-minilm", "depth": 2}
    alone, cascade = system(reranker=one), system(rerankers=[one])

    assert ranked(cascade, fixed(d1=3, d2=2)) == ranked(alone, fixed(d1=3, d2=2))
    assert cascade.describe() == alone.describe() == "bm25 → maxsim-minilm@2"


def test_a_blend_takes_the_first_stages_scores_in() -> None:
    blend = {"reranker": 0.4, "first_stage": 0.6, "scale": "minmax"}
    parts = system(reranker={"model": "maxsim-minilm", "depth": 3, "blend": blend})
    result, _ = ranked(parts, fixed(d1=3, d2=2, d3=1), lambda work: replace(turned_around(work), repairs=Repairs()))

    # d1, d2, d3 have 0, 1, 2 of the reranker and 3, 2, 1 of the search: 0.4 × (0, ½, 1) + 0.6 × (1, ½, 0) = 0.6, 0.5,
    # 0.4. The scores of the run are those of the ranks.
    assert result.run.rankings["q1"] == (ScoredDoc("d1", 3.0), ScoredDoc("d2", 2.0), ScoredDoc("d3", 1.0))
    assert parts.describe() == "bm25 → maxsim-minilm@3 blended 0.4/0.6 minmax"
    assert parts.published_key is None


def test_repairs_come_with_the_result_up_to_the_limit_of_the_system() -> None:
    find = fixed(d1=3, d2=2)

    def reranked(max_unusable: float) -> Ranked:
        return ranked(reranked_system(max_unusable), find, turned_around)[0]

    # q1 and q2 have candidates, and one of the two queries has an unreadable answer
    assert reranked(0.5).repairs == REPAIRS
    with pytest.raises(
        DataError, match=r"^s on tiny: .* 1 of 2 queries .*\(cut at limit: 1\); at most 40% are allowed: q1\."
    ):
        reranked(0.4)
    assert ranked(system(), fixed(d1=3))[0].repairs == Repairs()


RANKINGS: Mapping[tuple[str, ...], Ranking] = {
    ("mat",): (ScoredDoc("d1", 2.0), ScoredDoc("d3", 1.0)),
    ("dog",): (ScoredDoc("d3", 9.0), ScoredDoc("d2", 8.0)),
    ("mat", "dog"): (ScoredDoc("d2", 1.0),),
}


def by_text(find: Find) -> Run:
    """Give each written text its own ranking, and several texts together a third one."""
    texts = {query.query_id: tuple(expansion.text for expansion in query.expansions) for query in find.queries}
    return Run(tag="x", rankings={query_id: RANKINGS[asked][: find.k] for query_id, asked in texts.items()})


def two_texts(ask: Ask) -> list[Completion]:
    """Write "mat" as the first text of every query, and "dog" as the second."""
    texts = ["mat" if prompt.seed == 42 else "dog" for prompt in ask.prompts]
    return [Completion(text=text, reasoning="", finish_reason="stop") for text in texts]


def test_samples_are_one_search_or_are_fused_by_reciprocal_rank() -> None:
    hyde = {"method": "hyde", "llm": "qwen-7b", "samples": 2}
    together, _ = ranked(system(rewriter=hyde), by_text, ask=two_texts)
    apart, _ = ranked(system(rewriter=hyde | {"combine": "rrf"}), by_text, ask=two_texts)

    assert ids(together, "q1") == ["d2"]
    # d3 has 1/62 + 1/61, d1 has 1/61, d2 has 1/62
    assert ids(apart, "q1") == ["d3", "d1", "d2"]


def test_a_document_that_reranking_lost_fails_the_stage() -> None:
    class Loses(SharedWords):
        def score_all(self, work: Sequence[Candidates]) -> Reranking:
            return Reranking(scores={item.query.query_id: [1.0] for item in work})

    with pytest.raises((StageError, DataError), match="q1"):
        ranked(system(reranker={"model": "maxsim-minilm", "depth": 2}), fixed(d1=3, d2=2), Loses().score_all)
