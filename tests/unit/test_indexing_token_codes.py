"""Codes of token vectors find candidates for MaxSim, and no shard, batch or thread changes what they find."""

from collections.abc import Iterator, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from r2med_ray.indexing import late_interaction
from r2med_ray.indexing.codes import BITS, OutputDtype
from r2med_ray.indexing.late_interaction import HalfMatrix, LateInteractionIndex, TokenQuery, TokenVectors
from r2med_ray.indexing.token_codes import LARGEST_CODE, CompressedTokenIndex, TokenCodes
from r2med_ray.ranking import merge
from r2med_ray.retrieval.search import PlainRetriever
from r2med_ray.types import Query, Ranking
from tests.unit.test_indexing_late_interaction import ask, random_texts, tokens

DTYPES: tuple[OutputDtype, ...] = tuple(LARGEST_CODE)


def part(ids: Sequence[str], texts: Sequence[HalfMatrix]) -> TokenVectors:
    return TokenVectors(list(ids), np.cumsum([0, *map(len, texts)]), np.concatenate(texts))


def index_of(
    ids: list[str], texts: list[HalfMatrix], output_dtype: OutputDtype, at_once: int
) -> CompressedTokenIndex:
    def read() -> Iterator[TokenVectors]:
        for first in range(0, len(ids), at_once):
            yield part(ids[first : first + at_once], texts[first : first + at_once])

    return CompressedTokenIndex(read, output_dtype)


def products(codes: TokenCodes, queries_SD: HalfMatrix) -> np.ndarray:
    """Return the estimated inner products of the tokens of documents with those of queries, shape (T, S)."""
    asked_SD, scales_S = codes.asked(queries_SD)
    rows = slice(0, len(codes.factors))
    return codes.products(rows, codes.block(rows), asked_SD).T * scales_S


def test_a_sign_per_component_and_the_factor_of_rabitq() -> None:
    codes = TokenCodes.of(tokens([0.75, -0.5, 0.25, 0.0]), "binary")

    assert codes.block(slice(0, 1)).tolist() == [[1, -1, 1, -1]]
    # ⟨x, x⟩ = 0.5625 + 0.25 + 0.0625 = 0.875, ⟨c, x⟩ = 0.75 + 0.5 + 0.25 - 0 = 1.5
    assert codes.factors.tolist() == [pytest.approx(0.875 / 1.5)]
    assert products(codes, tokens([1.0, 0.0, 0.0, 0.0])).tolist() == [[pytest.approx(0.875 / 1.5)]]


def test_whole_numbers_count_steps_of_the_largest_component() -> None:
    vector = tokens([0.875, -0.5, 0.25, 0.0])

    # A step of int4 is 0.875 / 7 = 0.125: the components are whole steps, so nothing is lost.
    assert TokenCodes.of(vector, "int4").block(slice(0, 1)).tolist() == [[7, -4, 2, 0]]
    assert TokenCodes.of(vector, "int4").factors.tolist() == [pytest.approx(0.125)]
    # A step of int8 is 0.875 / 127: 0.5 is 72.6 of them, and 0.25 is 36.3.
    assert TokenCodes.of(vector, "int8").block(slice(0, 1)).tolist() == [[127, -73, 36, 0]]


@pytest.mark.parametrize("output_dtype", DTYPES)
@pytest.mark.parametrize("dim", [1, 7, 128])
def test_a_token_times_itself_is_exact_whatever_was_rounded(output_dtype: OutputDtype, dim: int) -> None:
    [text] = random_texts(1, seed=dim, dim=dim)
    own = (text.astype(np.float64) ** 2).sum(axis=1)

    # What is left is the rounding of the query: at least 8 bits of its largest component.
    assert np.diag(products(TokenCodes.of(text, output_dtype), text)) == pytest.approx(own, rel=0.02)


@pytest.mark.parametrize("output_dtype", DTYPES)
def test_a_token_takes_the_bytes_of_its_bits_and_of_one_factor(output_dtype: OutputDtype) -> None:
    codes = TokenCodes.of(np.concatenate(random_texts(50, seed=1, dim=128)), output_dtype)

    assert codes.packed.nbytes == len(codes.factors) * 128 * BITS[output_dtype] // 8
    assert codes.factors.dtype == np.float32


@pytest.mark.parametrize("output_dtype", DTYPES)
def test_a_token_of_zeros_matches_nothing(output_dtype: OutputDtype) -> None:
    codes = TokenCodes.of(np.zeros((1, 4), np.float16), output_dtype)

    assert products(codes, tokens([1.0, 0.0, 0.0, 0.0])).tolist() == [[0.0]]
    assert products(TokenCodes.of(tokens([1.0, 0.0]), output_dtype), np.zeros((1, 2), np.float16)).tolist() == [[0.0]]


@pytest.mark.parametrize("output_dtype", DTYPES)
@settings(max_examples=20)
@given(seed=st.integers(0, 10_000), cut=st.integers(1, 39), k=st.integers(1, 12), block=st.integers(1, 60))
def test_no_shard_no_batch_and_no_block_changes_a_bit_of_a_score(
    output_dtype: OutputDtype, seed: int, cut: int, k: int, block: int
) -> None:
    documents, queries = random_texts(40, seed), ask(random_texts(6, seed + 1))
    ids = [f"d{number}" for number in range(40)]
    whole = index_of(ids, documents, output_dtype, at_once=40).search(queries, k)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(late_interaction, "TOKENS_PER_BLOCK", block)
        patch.setattr(late_interaction, "QUERY_TOKENS_AT_ONCE", block)
        shards = [
            index_of(ids[:cut], documents[:cut], output_dtype, at_once=block),
            index_of(ids[cut:], documents[cut:], output_dtype, at_once=7),
        ]
        found = [shard.search(queries, k) for shard in shards]

        assert [merge(rankings, k) for rankings in zip(*found, strict=True)] == whole
        assert [index_of(ids, documents, output_dtype, at_once=9).search([query], k)[0] for query in queries] == whole


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000), at_once=st.integers(1, 40))
def test_candidates_have_the_bits_of_an_exhaustive_search(seed: int, at_once: int) -> None:
    documents, queries = random_texts(40, seed), ask(random_texts(4, seed + 1))
    ids = [f"d{number}" for number in range(40)]
    exact = LateInteractionIndex([part(ids, documents)]).search(queries, 40)
    candidates = [ids[::3], ids[5:6], ["unknown", *ids[:7]], []]

    expected: list[Ranking] = [
        tuple(hit for hit in ranking if hit.doc_id in wanted)
        for ranking, wanted in zip(exact, candidates, strict=True)
    ]
    assert index_of(ids, documents, "binary", at_once).score(queries, candidates) == expected
    assert LateInteractionIndex([part(ids, documents)]).score(queries, candidates) == expected


@pytest.mark.parametrize("output_dtype", DTYPES)
def test_ten_documents_are_those_of_an_exhaustive_search(output_dtype: OutputDtype) -> None:
    documents, asked = random_texts(300, seed=2, dim=128), ask(random_texts(8, seed=3, dim=128))
    ids = [f"d{number}" for number in range(300)]
    queries = [Query(query_id=f"q{number}", text="") for number in range(8)]

    def prepare(wanted: Sequence[Query]) -> list[TokenQuery]:
        return asked

    exact = PlainRetriever("exact", prepare, [LateInteractionIndex([part(ids, documents)])]).retrieve(queries, k=10)
    shards = [index_of(ids[start::2], documents[start::2], output_dtype, at_once=64) for start in (0, 1)]
    near = PlainRetriever("near", prepare, shards, rescore_multiplier=8).retrieve(queries, k=10)

    # Random tokens are the hardest case: all documents are about as far away. Of integers, 80 candidates miss none.
    hits = sum(
        len({hit.doc_id for hit in ranking} & {hit.doc_id for hit in near.rankings[query_id]})
        for query_id, ranking in exact.rankings.items()
    )
    assert hits / 80 >= (0.85 if output_dtype == "binary" else 1.0)


def test_a_shard_without_documents_finds_nothing() -> None:
    index = CompressedTokenIndex(lambda: iter(()), "binary")

    assert index.search(ask([tokens([1.0, 0.0])]), 3) == [()]
    assert index.score(ask([tokens([1.0, 0.0])]), [["d1"]]) == [()]
