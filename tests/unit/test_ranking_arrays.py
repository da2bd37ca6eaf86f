"""Rankings held as arrays are the rankings that tuples hold, in a tenth of the memory."""

import math
import pickle
import sys
import tracemalloc
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from r2med_ray import ranking_arrays
from r2med_ray.errors import DataError
from r2med_ray.evaluation import ranked, run_lines
from r2med_ray.evaluation.evaluate import evaluate
from r2med_ray.evaluation.measures import Measure
from r2med_ray.evaluation.trec import read_run, write_run
from r2med_ray.ranking import best
from r2med_ray.ranking_arrays import RANKINGS_AT_ONCE, RankedQueries, RankingArrays
from r2med_ray.retrieval.search import merge_shards
from r2med_ray.retrieval.stored_runs import RUN_FILE, run_from_table, run_table
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import ArtifactKey
from r2med_ray.types import Query, Ranking, Run, ScoredDoc

IDS = st.text(st.characters(codec="utf-8"), max_size=4)
HITS = st.builds(ScoredDoc, IDS, st.sampled_from([-2.0, -0.0, 0.0, 0.5, 7.0, 2.0**100]) | st.floats(width=32))
FINITE = HITS.filter(lambda hit: math.isfinite(hit.score))
RANKINGS = st.dictionaries(IDS, st.lists(HITS, max_size=5).map(tuple), max_size=6)

Q, K = 20_000, 100
QUERIES = tuple(Query(query_id=f"query-{number}", text="fever") for number in range(Q))


def bits(rankings: Mapping[str, Ranking]) -> list[tuple[str, list[tuple[str, bytes]]]]:
    """Return rankings in their order, with the bits of their scores, so that NaN equals NaN and -0 isn't 0."""
    return [
        (query, [(hit.doc_id, np.float32(hit.score).tobytes()) for hit in hits]) for query, hits in rankings.items()
    ]


def numbered(num_queries: int, *, shard: int = 0) -> RankingArrays:
    """Return rankings of 100 documents each, of a shard with 10,000 documents. The best score is 100."""
    doc_ids = pa.array([f"shard-{shard}/doc-{number:05d}" for number in range(10_000)])
    doc_QK = (np.arange(num_queries)[:, None] * 7 + np.arange(K) * 3) % 10_000
    score_QK = np.broadcast_to(np.arange(K, 0, -1, np.float32), doc_QK.shape)
    start_Q1 = np.arange(num_queries + 1) * K
    return RankingArrays(doc_ids, doc_QK.astype(np.int32).ravel(), score_QK.ravel(), start_Q1)


@given(RANKINGS)
def test_arrays_hold_the_rankings_that_they_were_made_of(rankings):
    packed = RankedQueries.of(rankings.items())

    assert bits(packed) == bits(rankings)
    assert [len(packed[query_id]) for query_id in packed] == [len(ranking) for ranking in rankings.values()]


@given(RANKINGS, st.integers(1, 7))
def test_rankings_that_are_cut_into_parts_and_joined_are_the_same(rankings, num_queries):
    parts = list(RankedQueries.of(rankings.items()).parts(num_queries))

    assert bits(RankedQueries.joined(parts)) == bits(rankings)
    assert max(map(len, parts)) <= num_queries
    for part in parts:  # no part has ids that only others need
        wanted = {hit.doc_id for ranking in part.values() for hit in ranking}
        assert sorted(part.arrays.doc_ids.to_pylist()) == sorted(wanted)


@given(RANKINGS)
def test_a_run_is_stored_as_the_rows_of_its_tuples(rankings):
    table = run_table(Run(tag="t", rankings=RankedQueries.of(rankings.items())))

    rows = [(query_id, hit.doc_id, np.float32(hit.score)) for query_id, hits in rankings.items() for hit in hits]
    assert table.schema == pa.schema({"query_id": pa.string(), "doc_id": pa.string(), "score": pa.float32()})
    assert [table["query_id"].to_pylist(), table["doc_id"].to_pylist()] == [
        [row[at] for row in rows] for at in (0, 1)
    ]
    assert table["score"].to_numpy().tobytes() == np.array([score for _, _, score in rows], np.float32).tobytes()


@given(st.lists(st.lists(FINITE, max_size=8).map(tuple), max_size=6), st.integers(-1, 9))
def test_the_best_of_all_rankings_at_once_are_the_best_of_each(rankings, k):
    packed = RankingArrays.of(rankings)

    assert packed.best(k) == [best(ranking, k) for ranking in rankings]
    assert packed.best(k).kth_scores(k).tolist() == [
        ranking[k - 1].score if len(ranking) >= k > 0 else -math.inf for ranking in packed.best(k)
    ]


def test_equal_scores_fall_by_id_only_within_a_ranking():
    # q1 has the score 1 twice, and q2 has it too.
    packed = RankingArrays.of(
        [(ScoredDoc("a", 1.0), ScoredDoc("é", 1.0), ScoredDoc("b", 2.0)), (ScoredDoc("z", 1.0),)]
    )

    assert packed.best(2) == [(ScoredDoc("b", 2.0), ScoredDoc("é", 1.0)), (ScoredDoc("z", 1.0),)]


def test_positions_of_a_shard_become_its_documents_and_what_is_no_hit_is_left_out():
    found = [
        (np.array([2, 0]), np.array([0.5, -np.inf], np.float32)),
        (np.array([], np.int64), np.array([], np.float32)),
        (np.array([0, 2, 3]), np.array([1.0, 3.0, 2.0], np.float32)),
    ]

    packed = RankingArrays.of_positions(["a", "b", "c", "d"], found)

    in_order = (ScoredDoc("a", 1.0), ScoredDoc("c", 3.0), ScoredDoc("d", 2.0))
    assert packed == [(ScoredDoc("c", 0.5),), (), in_order]
    assert packed.doc_ids.to_pylist() == ["a", "c", "d"]
    assert RankingArrays.of_positions([], []) == []


def test_arrays_equal_the_same_rankings_in_any_sequence_and_no_others():
    rankings = [(ScoredDoc("a", 1.0),), ()]
    packed = RankingArrays.of(rankings)

    assert packed == rankings
    assert rankings == packed
    assert packed == RankingArrays.of(rankings)
    assert packed not in (rankings[:1], [(ScoredDoc("b", 1.0),), ()], [(ScoredDoc("a", 2.0),), ()], None)


def test_more_rankings_than_are_taken_at_once_stay_in_order():
    # The ids of one ranking are those of the next but one: they are in several takes.
    rankings = [(ScoredDoc(f"d{number % 2}", float(number)),) for number in range(2 * RANKINGS_AT_ONCE + 1)]

    packed = RankingArrays.of(rankings)

    assert list(packed) == rankings
    assert packed.doc_ids.to_pylist() == ["d0", "d1"]


def test_a_run_equals_another_with_the_same_rankings_however_they_are_held():
    rankings = {"q1": (ScoredDoc("d", 2.0), ScoredDoc("é", 1.0)), "q2": ()}
    packed = RankedQueries.of(rankings.items())
    other = RankedQueries.of((rankings | {"q2": (ScoredDoc("d", 2.0),)}).items())

    assert Run(tag="t", rankings=packed) == Run(tag="t", rankings=rankings) == Run(tag="t", rankings=packed)
    assert packed == RankedQueries.of(reversed(rankings.items()))
    assert packed != other != rankings
    assert packed != {"q1": rankings["q1"]}
    assert packed != 2


def test_what_is_not_there_is_no_ranking():
    packed = RankedQueries.of([("q1", ())])

    assert packed.get("q2") is None
    with pytest.raises(KeyError, match="q2"):
        packed["q2"]
    with pytest.raises(IndexError):
        packed.arrays[1]


def test_rankings_need_one_query_id_each():
    with pytest.raises(DataError, match="2 rankings for 1 distinct query ids"):
        RankedQueries.of([("q", ()), ("q", ())])


def test_scores_that_are_not_finite_are_refused_wherever_the_run_goes(tmp_path):
    run = Run(tag="t", rankings=RankedQueries.of([("q", (ScoredDoc("d", float("nan")),))]))

    for refuses in (
        lambda: merge_shards("t", QUERIES[:1], [run.rankings.arrays], 5),
        lambda: write_run(tmp_path / "run.trec", run),
        lambda: evaluate(run, {"q": {"d": 1}}, [Measure("RR")]),
    ):
        with pytest.raises(DataError, match="document 'd' has score nan"):
            refuses()


def test_a_run_travels_as_its_arrays():
    arrays = numbered(1000)
    held = arrays.doc.nbytes + arrays.score.nbytes + arrays.start.nbytes + arrays.doc_ids.nbytes

    sent = pickle.dumps(arrays, protocol=5)

    assert bits(dict(enumerate(pickle.loads(sent)))) == bits(dict(enumerate(arrays)))
    assert len(sent) < held + 2000  # the names of classes and fields


def test_a_run_of_many_queries_takes_eight_bytes_per_document_and_each_id_once():
    table = run_table(Run(tag="t", rankings=RankedQueries([query.query_id for query in QUERIES], numbered(Q))))
    tracemalloc.start()
    run = run_from_table("t", QUERIES, table)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    held += run.rankings.arrays.doc_ids.nbytes  # Arrow's memory is not traced

    # A document has a place and a score of 4 bytes each. A query has its end, 8 bytes, and a place in a dictionary:
    # at most 100 bytes for its entry, and 32 for the number. An id has 17 letters, and 4 bytes for its end.
    assert held < Q * K * 8 + Q * (8 + 100 + 32) + 10_000 * (17 + 4) + 50_000
    # The same as tuples: 2 million of them, and as many numbers.
    assert Q * K * (sys.getsizeof(ScoredDoc("", 1.5)) + sys.getsizeof(1.5)) > 5 * held


def test_no_step_from_the_merge_to_the_measures_holds_all_documents_as_tuples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranking_arrays, "RANKINGS_AT_ONCE", 16)
    monkeypatch.setattr(ranked, "QUERIES_AT_ONCE", 100)
    monkeypatch.setattr(run_lines, "BLOCK_BYTES", 1 << 18)
    queries = QUERIES[:1000]
    shards = [numbered(len(queries), shard=shard) for shard in (0, 1)]
    qrels = {query.query_id: {shards[0][place][0].doc_id: 1} for place, query in enumerate(queries)}
    store, key = ArtifactStore(str(tmp_path / "store")), ArtifactKey("run", {})
    tracemalloc.start()
    run = merge_shards("t", queries, shards, K)
    with store.create(key) as writer:
        writer.write_table(RUN_FILE, run_table(run))
    again = run_from_table("t", queries, store.get(key).table(RUN_FILE))
    means = evaluate(again, qrels, [Measure("nDCG", 10), Measure("RR")]).means
    write_run(tmp_path / "run.trec", again)
    read = read_run(tmp_path / "run.trec")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert run == again == read
    # The best documents of both shards tie, and the greater id is that of the other shard: rank 2.
    assert means["RR"] == 0.5
    # Three runs of 100,000 documents are held at the end. As tuples, each of them would have a pointer, a tuple and a
    # number per document.
    one_run = len(queries) * K * (8 + sys.getsizeof(ScoredDoc("", 1.5)) + sys.getsizeof(1.5))
    assert peak < one_run


@given(RANKINGS, st.integers(0, 7))
def test_heads_and_rests_are_the_rankings_up_to_a_depth_and_from_there(rankings, depth):
    packed = RankedQueries.of(rankings.items())
    heads, rests = packed.arrays.heads(depth), packed.arrays.rests(depth)

    assert bits(packed.heads(depth)) == bits({query: ranking[:depth] for query, ranking in rankings.items()})
    assert bits(RankedQueries(rankings, rests)) == bits({q: ranking[depth:] for q, ranking in rankings.items()})
    assert set(heads.doc_ids.to_pylist()) == {hit.doc_id for each in rankings.values() for hit in each[:depth]}
    assert bits(RankedQueries(rankings, heads.above(rests))) == bits(rankings)
