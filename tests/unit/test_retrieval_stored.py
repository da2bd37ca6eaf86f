"""A run or a score that was made once is read again, byte for byte, and nothing is built for it."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from r2med_ray.protocols import Candidates
from r2med_ray.retrieval.stored import StoredReranker, StoredRetriever
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Document, Expansion, Query, Repairs, Reranking, Run, ScoredDoc

QUERIES = (Query(query_id="q1", text="rash"), Query(query_id="q/2", text="zzz"))
DOCUMENTS = (Document(doc_id="d1", text="rash"), Document(doc_id="d2", text="fever"))


class CountingRetriever:
    """Finds d1 for the first query and nothing for the others; counts its searches."""

    def __init__(self) -> None:
        self.searches = 0

    def retrieve(self, queries: Sequence[Query], *, k: int) -> Run:
        self.searches += 1
        hits = (ScoredDoc("d1", 0.1),)
        return Run(tag="x", rankings={query.query_id: hits if query is queries[0] else () for query in queries})


class CountingReranker:
    """Scores a document by its length; counts its calls."""

    def __init__(self, repairs: Repairs = Repairs()) -> None:  # noqa: B008 (frozen)
        self.calls = 0
        self.repairs = repairs

    def score_all(self, work: Sequence[Candidates]) -> Reranking:
        self.calls += 1
        scores = {query.query_id: [float(len(d.text)) for d in documents] for query, documents, _ in work}
        return Reranking(scores=scores, repairs=self.repairs)


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(str(tmp_path))


def test_a_run_is_retrieved_once_and_keeps_its_unanswered_queries(store: ArtifactStore) -> None:
    retriever = CountingRetriever()
    stored = StoredRetriever("bm25", store, {"k1": 0.9}, lambda: retriever)

    first = stored.retrieve(QUERIES, k=10)

    assert stored.is_stored(QUERIES, k=10)
    assert stored.retrieve(QUERIES, k=10) == first
    assert retriever.searches == 1
    # 0.1 as float32 is 0.10000000149011612; the second query was asked and not answered.
    assert first.rankings == {"q1": (ScoredDoc("d1", 0.10000000149011612),), "q/2": ()}


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
def test_another_question_is_another_run(
    store: ArtifactStore, queries: tuple[Query, ...], k: int, inputs: dict[str, float]
) -> None:
    StoredRetriever("bm25", store, {"k1": 0.9}, CountingRetriever).retrieve(QUERIES, k=10)

    assert not StoredRetriever("bm25", store, inputs, CountingRetriever).is_stored(queries, k=k)


def test_a_run_of_no_hits_at_all_is_a_run(store: ArtifactStore) -> None:
    stored = StoredRetriever("bm25", store, {}, CountingRetriever)

    assert stored.retrieve((), k=10).rankings == {}


def test_the_tag_is_no_part_of_the_key(store: ArtifactStore) -> None:
    StoredRetriever("bm25", store, {}, CountingRetriever).retrieve(QUERIES, k=10)
    other = CountingRetriever()

    assert StoredRetriever("hybrid", store, {}, lambda: other).retrieve(QUERIES, k=10).tag == "hybrid"
    assert other.searches == 0


def test_pairs_are_scored_once_and_a_changed_text_is_scored_again(store: ArtifactStore) -> None:
    reranker = CountingReranker()
    stored = StoredReranker(store, {"model": "m"}, lambda: reranker)

    for _ in range(2):
        assert stored.score_all([Candidates(QUERIES[0], DOCUMENTS, (2.0, 1.0))]).scores == {"q1": [4.0, 5.0]}
    assert reranker.calls == 1
    changed = (DOCUMENTS[0], Document(doc_id="d2", text="fevers"))
    assert stored.score_all([Candidates(QUERIES[0], changed, (2.0, 1.0))]).scores == {"q1": [4.0, 6.0]}
    assert reranker.calls == 2


def test_stored_scores_come_with_the_repairs_that_were_made_for_them(store: ArtifactStore) -> None:
    repairs = Repairs(rules={"q1": {"id missing": 2, "id repeated": 1}}, unreadable={"q/2": {"cut at limit": 3}})
    work = [Candidates(query, DOCUMENTS, (2.0, 1.0)) for query in QUERIES]
    reranker = CountingReranker(repairs)

    for _ in range(2):
        assert StoredReranker(store, {}, lambda: reranker).score_all(work).repairs == repairs
    assert reranker.calls == 1


def test_where_nothing_was_repaired_the_scores_are_stored_alone(store: ArtifactStore) -> None:
    """As are those of pair scorers from before repairs were kept, which are read like any other."""
    stored = StoredReranker(store, {}, CountingReranker)
    work = [Candidates(QUERIES[0], DOCUMENTS, (2.0, 1.0))]

    assert stored.score_all(work).repairs == Repairs()
    assert [*store.get(stored.key(work)).files] == ["scores.parquet"]


@pytest.mark.parametrize(("sees_scores", "calls"), [(False, 1), (True, 2)])
def test_other_scores_of_the_first_stage_matter_where_they_are_shown(
    store: ArtifactStore, sees_scores: bool, calls: int
) -> None:
    reranker = CountingReranker()
    stored = StoredReranker(store, {"model": "m"}, lambda: reranker, sees_scores=sees_scores)

    for scores in ((2.0, 1.0), (3.0, 1.0)):
        stored.score_all([Candidates(QUERIES[0], DOCUMENTS, scores)])

    assert reranker.calls == calls
