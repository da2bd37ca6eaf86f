"""MaxSim over the tokens of a shard is exact, covers every document, and doesn't depend on its blocks."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from r2med_ray.errors import DataError
from r2med_ray.indexing import late_interaction as module
from r2med_ray.indexing.late_interaction import (
    HalfMatrix,
    LateInteractionIndex,
    query_table,
    read_queries,
    read_tokens,
    token_table,
)
from r2med_ray.ranking import merge

EAST, NORTH, NORTHEAST = [1.0, 0.0], [0.0, 1.0], [0.6, 0.8]


def tokens(*vectors: list[float]) -> HalfMatrix:
    return np.array(vectors, np.float16)


def random_texts(count: int, seed: int, dim: int = 16) -> list[HalfMatrix]:
    """Return texts of 1 to 9 tokens, whose vectors have unit length."""
    generator = np.random.default_rng(seed)
    texts = [generator.standard_normal((generator.integers(1, 10), dim)) for _ in range(count)]
    return [(text / np.linalg.norm(text, axis=1, keepdims=True)).astype(np.float16) for text in texts]


def index_of(ids: list[str], texts: list[HalfMatrix]) -> LateInteractionIndex:
    return LateInteractionIndex([read_tokens(token_table(range(len(ids)), ids, texts))])


def ask(texts: list[HalfMatrix]) -> list[module.TokenQuery]:
    return read_queries(query_table([f"q{number}" for number in range(len(texts))], [[text] for text in texts]))


def test_a_score_is_the_sum_of_each_query_tokens_best_match_and_every_document_is_a_hit() -> None:
    index = index_of(["d1", "d2", "d3"], [tokens(NORTHEAST, NORTH), tokens(EAST), tokens([-1.0, 0.0])])

    [ranking] = index.search(ask([tokens(EAST, NORTH)]), 10)

    # d1: max(0.6, 0) + max(0.8, 1); d2: 1 + 0; d3: -1 + 0. 0.6 in float16 is 0.60009766.
    assert ranking == (("d1", pytest.approx(1.60009766)), ("d2", 1.0), ("d3", -1.0))


def test_equal_scores_stand_in_trec_evals_order_at_the_cut() -> None:
    index = index_of(["a", "c", "b"], [tokens(EAST)] * 3)

    assert [hit.doc_id for hit in index.search(ask([tokens(EAST)]), 2)[0]] == ["c", "b"]


def test_a_generated_text_weighs_as_much_as_the_query_however_long_it_is() -> None:
    index = index_of(["d1", "d2"], [tokens(EAST), tokens(NORTH)])
    parts = [tokens(EAST, EAST), tokens(NORTH, NORTH, NORTH, EAST)]

    [ranking] = index.search(read_queries(query_table(["q"], [parts])), 2)

    # Each of the text's four tokens counts 2 / 4. d1 has 1 + 1 + 0.5; d2 has 0.5 × (1 + 1 + 1).
    assert ranking == (("d1", 2.5), ("d2", 1.5))


def test_stored_tokens_come_back_as_they_were(tmp_path: Path) -> None:
    texts = random_texts(5, seed=1)
    pq.write_table(token_table(range(3, 8), list("abcde"), texts), tmp_path / "tokens.parquet")
    stored = pq.read_table(tmp_path / "tokens.parquet")
    doc_ids, offsets, vectors = read_tokens(stored)

    assert stored["row"].to_pylist() == [3, 4, 5, 6, 7]
    assert doc_ids == list("abcde")
    assert vectors.dtype == np.float16
    for number, text in enumerate(texts):
        assert (vectors[offsets[number] : offsets[number + 1]] == text).all()


def test_a_shard_of_no_documents_can_be_stored_and_searched() -> None:
    assert index_of([], []).search(ask([tokens(EAST)]), 3) == [()]


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([tokens(EAST), tokens([float("nan"), 0.0])], r"1 of 2 texts .*not finite, e\.g\. 'd2'"),
        ([np.zeros((0, 2), np.float16), tokens(EAST)], r"1 of 2 texts have no tokens.*'d1'"),
        ([tokens(EAST)], "the tokens of 1 texts for 2"),
    ],
)
def test_nf01_what_cannot_be_scored_is_refused_with_its_document(texts: list[HalfMatrix], message: str) -> None:
    with pytest.raises(DataError, match=message):
        token_table(range(2), ["d1", "d2"], texts)


@settings(max_examples=30)
@given(seed=st.integers(0, 10_000), cut=st.integers(1, 39), k=st.integers(1, 12), block=st.integers(1, 60))
def test_bm05_no_shard_no_batch_and_no_block_changes_a_bit_of_a_score(
    seed: int, cut: int, k: int, block: int
) -> None:
    documents, queries = random_texts(40, seed), ask(random_texts(6, seed + 1))
    ids = [f"d{number}" for number in range(40)]
    whole = index_of(ids, documents).search(queries, k)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "TOKENS_PER_BLOCK", block)
        patch.setattr(module, "QUERY_TOKENS_AT_ONCE", block)
        parts = [index_of(ids[:cut], documents[:cut]), index_of(ids[cut:], documents[cut:])]
        found = [part.search(queries, k) for part in parts]

        assert [merge(rankings, k) for rankings in zip(*found, strict=True)] == whole
        assert [index_of(ids, documents).search([query], k)[0] for query in queries] == whole


def test_scores_are_maxsim_over_all_pairs_rounded_once() -> None:
    documents, queries = random_texts(30, seed=3, dim=128), random_texts(4, seed=4, dim=128)
    found = index_of([str(number) for number in range(30)], documents).search(ask(queries), 30)

    for query_SD, ranking in zip(queries, found, strict=True):
        pairs = [query_SD.astype(np.float64) @ document_TD.T.astype(np.float64) for document_TD in documents]
        expected = {str(number): np.float32(pair_ST.max(axis=1).sum()) for number, pair_ST in enumerate(pairs)}
        assert {hit.doc_id: hit.score for hit in ranking} == expected
