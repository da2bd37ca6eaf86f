"""The flow in one function, with fakes that a person can work out by hand."""

import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pytest

from r2med_ray.errors import DataError
from r2med_ray.evaluation.measures import Measure
from r2med_ray.pipeline import System, run_system
from r2med_ray.protocols import Candidates
from r2med_ray.ranking import best
from r2med_ray.settings.config import FusionConfig
from r2med_ray.types import (
    Corpus,
    DocId,
    Document,
    Expansion,
    Query,
    Repairs,
    Reranking,
    Rewriting,
    Run,
    ScoredDoc,
    Task,
)
from tests.fakes import SharedWords

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


class Fixed:
    """A retriever that gives every query with a known word the same documents."""

    def __init__(self, **scores: float) -> None:
        self._hits = [ScoredDoc(doc_id, score) for doc_id, score in scores.items()]

    def retrieve(self, queries: Iterable[Query], *, k: int) -> Run:
        return Run(
            tag="fixed",
            rankings={query.query_id: () if query.text == "zzz" else best(self._hits, k) for query in queries},
        )


def fetch(doc_ids: Iterable[DocId]) -> Mapping[DocId, Document]:
    return {doc_id: DOCUMENTS[doc_id] for doc_id in doc_ids}


def system(*retrievers: Fixed, **parts: object) -> System:
    return System(name="s", depth=3, retrievers=retrievers, **parts)  # type: ignore[arg-type]


MEASURES = [Measure.parse("RR"), Measure.parse("R@3")]


def test_a_first_stage_alone_is_evaluated_over_every_judged_query() -> None:
    outcome = run_system(TASK, system(Fixed(d1=3, d2=2, d3=1)), MEASURES, fetch)

    # RR: d1 first (1), d2 second (1/2), q3 unanswered (0); recall: 1, 1, 0.
    assert outcome.evaluation.means == pytest.approx({"RR": (1 + 1 / 2 + 0) / 3, "R@3": 2 / 3})
    assert outcome.evaluation.num_unanswered == 1


def test_fusion_and_reranking_come_in_this_order() -> None:
    parts = system(
        Fixed(d4=3, d1=2), Fixed(d4=3, d2=2), fusion=FusionConfig(), reranker=SharedWords(), rerank_depth=3
    )
    outcome = run_system(TASK, parts, MEASURES, fetch)

    # RRF: d4 2/61; d1 and d2 1/62 each, d2 before d1 by its id. Reranking by shared words: q1 d1 (2), then d4 and d2
    # (0 each) by id; q2 d2 (1), then d4 and d1.
    assert [hit.doc_id for hit in outcome.run.rankings["q1"]] == ["d1", "d4", "d2"]
    assert [hit.doc_id for hit in outcome.run.rankings["q2"]] == ["d2", "d4", "d1"]
    assert outcome.run.tag == "s"


def test_importing_the_flow_loads_neither_ray_nor_torch() -> None:
    program = (
        "import sys, r2med_ray.pipeline; print(sorted({'ray', 'torch', 'faiss', 'transformers'} & set(sys.modules)))"
    )
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"
    )


class Reversed:
    """A reranker that turns the head around, and that had an unreadable answer for the first query."""

    REPAIRS = Repairs(rules={"q1": {"id missing": 2}}, unreadable={"q1": {"cut at limit": 1}})

    def score_all(self, work: Sequence[Candidates]) -> Reranking:
        scores = {item.query.query_id: [float(rank) for rank in range(len(item.documents))] for item in work}
        return Reranking(scores=scores, repairs=self.REPAIRS)


@pytest.mark.parametrize("keep_below", [True, False])
def test_reranking_never_changes_recall_at_its_depth(keep_below: bool) -> None:
    first = Fixed(d1=3, d2=2, d3=1)
    parts = system(first, reranker=Reversed(), rerank_depth=2, keep_below=keep_below)
    measures = [Measure.parse("R@2"), Measure.parse("R@3")]

    before = run_system(TASK, system(first), measures, fetch).evaluation.means
    after = run_system(TASK, parts, measures, fetch)

    assert after.evaluation.means["R@2"] == before["R@2"]
    assert [hit.doc_id for hit in after.run.rankings["q1"]] == ["d2", "d1", *(["d3"] if keep_below else [])]


def test_repairs_come_with_the_outcome_up_to_the_limit_of_the_system() -> None:
    parts = system(Fixed(d1=3, d2=2), reranker=Reversed(), rerank_depth=2, max_unusable=0.5)

    # q1 and q2 have candidates, and one of them an unreadable answer
    assert run_system(TASK, parts, MEASURES, fetch).repairs == Reversed.REPAIRS
    with pytest.raises(DataError, match=r"^s on tiny: 1 of 2 queries .*\(cut at limit: 1\), 40% may: q1\."):
        run_system(TASK, replace(parts, max_unusable=0.4), MEASURES, fetch)
    assert run_system(TASK, system(Fixed(d1=3)), MEASURES, fetch).repairs == Repairs()


class Samples:
    """A rewriter that writes the same two texts for every query."""

    def rewrite(self, queries: Sequence[Query]) -> Rewriting:
        texts = (Expansion(text="mat", method="hyde"), Expansion(text="dog", method="hyde"))
        return Rewriting(queries=tuple(replace(query, expansions=texts) for query in queries))


class ByText:
    """A retriever that gives each written text its own ranking, and several texts together a third one."""

    RANKINGS: Mapping[tuple[str, ...], tuple[ScoredDoc, ...]] = {
        ("mat",): (ScoredDoc("d1", 2.0), ScoredDoc("d3", 1.0)),
        ("dog",): (ScoredDoc("d3", 9.0), ScoredDoc("d2", 8.0)),
        ("mat", "dog"): (ScoredDoc("d2", 1.0),),
    }

    def retrieve(self, queries: Sequence[Query], *, k: int) -> Run:
        texts = {query.query_id: tuple(expansion.text for expansion in query.expansions) for query in queries}
        return Run(tag="x", rankings={query_id: self.RANKINGS[asked][:k] for query_id, asked in texts.items()})


def test_samples_are_one_search_or_are_fused_by_reciprocal_rank() -> None:
    together = run_system(TASK, system(ByText(), rewriter=Samples()), MEASURES, fetch)  # type: ignore[arg-type]
    apart = run_system(
        TASK,
        system(ByText(), rewriter=Samples(), combine="rrf"),
        MEASURES,
        fetch,  # type: ignore[arg-type]
    )

    assert [hit.doc_id for hit in together.run.rankings["q1"]] == ["d2"]
    # d3 1/62 + 1/61, d1 1/61, d2 1/62
    assert [hit.doc_id for hit in apart.run.rankings["q1"]] == ["d3", "d1", "d2"]
