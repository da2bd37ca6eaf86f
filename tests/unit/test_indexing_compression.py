"""Codes of vectors are those of sentence-transformers and MTEB, and what they find doesn't depend on shards."""

import warnings

import numpy as np
import pytest
from sentence_transformers.util import truncate_embeddings
from sentence_transformers.util.quantization import _dequantize_embeddings, quantize_embeddings

from r2med_ray.errors import ConfigError, DataError
from r2med_ray.indexing.codes import (
    BITS,
    BinaryCodes,
    FloatCodes,
    IntegerCodes,
    OutputDtype,
    clipped_ranges_of,
    codes_of,
    ranges_of,
)
from r2med_ray.indexing.compression import (
    WHOLE,
    CompressedIndex,
    Compression,
    StoredVectors,
    cut_vectors,
    require_dimensions,
)
from r2med_ray.indexing.dense import DenseIndex
from r2med_ray.retrieval.search import PlainRetriever
from r2med_ray.settings.retriever import INTEGERS
from r2med_ray.types import FloatMatrix, Query, Run
from r2med_ray.vectors import unit_length

RANDOM = np.random.default_rng(3)
# Few different values per component, so that codes and scores tie.
DOCUMENTS = unit_length(RANDOM.integers(-2, 3, (90, 20)).astype(np.float32) + np.float32(0.5))
QUERIES = unit_length(RANDOM.standard_normal((5, 20)).astype(np.float32))
RANDOM_DOCUMENTS = unit_length(RANDOM.standard_normal((90, 21)).astype(np.float32))
"""Vectors with an odd number of components."""

DOCUMENTS_64 = unit_length(RANDOM.standard_normal((90, 64)).astype(np.float32))
IDS = [f"d{number}" for number in range(90)]
ASKED = [Query(query_id=f"q{number}", text="") for number in range(5)]


LEVELS: tuple[OutputDtype, ...] = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8", "int4", "binary")
MARGIN = (0.05, 0.9)


def shards_of(vectors_ND: FloatMatrix) -> list[FloatMatrix]:
    return [vectors_ND[:13], vectors_ND[13:13], vectors_ND[13:]]


def index(rows: slice, output_dtype: OutputDtype) -> CompressedIndex:
    vectors_ND = np.ascontiguousarray(DOCUMENTS[rows])
    codes = codes_of(vectors_ND, output_dtype, ranges_of(shards_of(DOCUMENTS)))
    return CompressedIndex(IDS[rows], codes, StoredVectors(lambda: (IDS[rows], vectors_ND)))


def mtebs(output_dtype: str, vectors_ND: FloatMatrix, margin: tuple[float, float] | None = None) -> FloatMatrix:
    """Return what MTEB's `CompressionWrapper` makes of vectors."""
    torch, models, types = (pytest.importorskip(name) for name in ("torch", "mteb.models", "mteb.types"))

    class Model:
        mteb_model_meta = pytest.importorskip("mteb.models.model_meta").ModelMeta.create_empty()

    wrapper = models.CompressionWrapper(Model(), types.OutputDType(output_dtype), clipping_margin=margin)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it would rather see 10,000 vectors
        values: FloatMatrix = wrapper._quantize_embeddings(torch.tensor(vectors_ND)).float().numpy()
    return values


def found(num_shards: int, output_dtype: OutputDtype, multiplier: int, k: int = 7) -> Run:
    shards = [index(slice(start, None, num_shards), output_dtype) for start in range(num_shards)]
    retriever = PlainRetriever("codes", lambda queries: QUERIES, shards, rescore_multiplier=multiplier)
    return retriever.retrieve(ASKED, k=k)


def test_bytes_and_bits_are_those_of_sentence_transformers() -> None:
    ranges_2D = np.stack([DOCUMENTS.min(axis=0), DOCUMENTS.max(axis=0)])
    int8, binary = index(slice(None), "int8").codes, index(slice(None), "binary").codes
    assert isinstance(int8, IntegerCodes)
    assert isinstance(binary, BinaryCodes)

    assert (int8.codes() == quantize_embeddings(DOCUMENTS, "int8", ranges=ranges_2D)).all()
    # 20 components are 3 bytes; the rest of the word of 8 bytes is empty.
    bits_NB = binary.codes_NW.view(np.uint8)
    assert (bits_NB[:, :3] == quantize_embeddings(DOCUMENTS, "ubinary")).all()
    assert not bits_NB[:, 3:].any()


def test_bits_of_a_whole_corpus_are_those_of_mtebs_compression_wrapper() -> None:
    binary = index(slice(None), "binary").codes
    assert isinstance(binary, BinaryCodes)

    assert (np.unpackbits(binary.codes_NW.view(np.uint8), axis=1)[:, :20] == mtebs("binary", DOCUMENTS)).all()


@pytest.mark.parametrize("margin", [None, MARGIN])
@pytest.mark.parametrize("output_dtype", INTEGERS)
def test_integers_of_a_whole_corpus_are_those_of_mtebs_compression_wrapper(
    output_dtype: OutputDtype, margin: tuple[float, float] | None
) -> None:
    vectors_ND = RANDOM_DOCUMENTS
    shards = shards_of(vectors_ND)
    codes = codes_of(
        vectors_ND, output_dtype, clipped_ranges_of(lambda: shards, margin) if margin else ranges_of(shards)
    )
    assert isinstance(codes, IntegerCodes)

    assert (codes.codes() == mtebs(output_dtype, vectors_ND, margin)).all()


@pytest.mark.parametrize("output_dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_numbers_are_those_of_mtebs_compression_wrapper(output_dtype: OutputDtype) -> None:
    # Powers of two from the smallest subnormal numbers up to 256, and numbers around them, of both signs.
    sizes_N = np.ldexp(np.float32(1), np.arange(-26, 9))[:, np.newaxis]
    vectors_ND = np.concatenate([sizes_N * RANDOM.uniform(-1.75, 1.75, (35, 64)).astype(np.float32), DOCUMENTS_64])
    # The middle of two neighbours is rounded to the even one: 1 + 1/16 to 1 and 1 + 3/16 to 1 + 1/4 with 3 bits.
    vectors_ND[0, :5] = (1 + 1 / 16, 1 + 3 / 16, 1 + 1 / 8, -0.0, 0.0)
    codes = FloatCodes(vectors_ND, output_dtype)

    assert (codes.values() == mtebs(output_dtype, vectors_ND)).all()


def test_a_component_beyond_the_range_of_a_format_is_refused_with_both_numbers() -> None:
    with pytest.raises(
        DataError, match=r"`output_dtype: float8_e4m3fn` holds numbers up to 448, .* component of 449"
    ):
        FloatCodes(np.float32([[1, -449]]), "float8_e4m3fn")


def test_the_ends_of_a_clipped_range_are_quantiles_whatever_the_shards() -> None:
    expected_2D = np.quantile(RANDOM_DOCUMENTS.astype(np.float64), MARGIN, axis=0)

    for shards in ([RANDOM_DOCUMENTS], shards_of(RANDOM_DOCUMENTS), np.split(RANDOM_DOCUMENTS, 90)):
        ranges_2D = clipped_ranges_of(lambda shards=shards: shards, MARGIN)
        np.testing.assert_allclose(ranges_2D, expected_2D, rtol=1e-6)
    assert clipped_ranges_of(lambda: [], MARGIN).shape == (2, 0)
    # One vector is both of its quantiles.
    one = RANDOM_DOCUMENTS[:1]
    assert (clipped_ranges_of(lambda: [one], MARGIN) == one[0]).all()


@pytest.mark.parametrize("output_dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_scores_of_numbers_are_products_with_them(output_dtype: OutputDtype) -> None:
    codes = index(slice(None), output_dtype).codes
    assert isinstance(codes, FloatCodes)

    expected_QN = QUERIES.astype(np.float64) @ codes.values().astype(np.float64).T

    np.testing.assert_allclose(list(codes.scores(QUERIES)), expected_QN, atol=1e-6)


def test_scores_of_bytes_are_products_with_the_values_that_they_stand_for() -> None:
    ranges_2D = np.stack([DOCUMENTS.min(axis=0), DOCUMENTS.max(axis=0)])
    codes = index(slice(None), "int8").codes
    assert isinstance(codes, IntegerCodes)

    values_ND = _dequantize_embeddings(codes.codes().astype(np.int8), "int8", ranges_2D)

    np.testing.assert_allclose(list(codes.scores(QUERIES)), QUERIES.astype(np.float64) @ values_ND.T, atol=1e-6)


def test_scores_of_bits_count_the_components_with_the_same_sign() -> None:
    [scores_N] = BinaryCodes(np.array([[1, -1, 1], [-1, 1, -1]], np.float32)).scores(np.float32([[0.5, 0.5, 0.0]]))

    # A zero counts as negative. The first document agrees in 1 of 3 signs and the second in 2: 1 − 2 and 2 − 1.
    assert scores_N.tolist() == [-1, 1]


@pytest.mark.parametrize("output_dtype", LEVELS)
@pytest.mark.parametrize("multiplier", [0, 1, 3])
def test_shards_change_no_id_and_no_bit(output_dtype: OutputDtype, multiplier: int) -> None:
    whole = found(1, output_dtype, multiplier)

    for num_shards in (2, 3, 7, 90):
        assert found(num_shards, output_dtype, multiplier) == whole


def test_the_best_candidates_by_their_bits_are_ordered_by_their_vectors() -> None:
    exact = QUERIES.astype(np.float64) @ DOCUMENTS.astype(np.float64).T
    agreeing = (DOCUMENTS > 0)[np.newaxis] == (QUERIES > 0)[:, np.newaxis]

    run = found(3, "binary", 2)

    for row, query in enumerate(ASKED):
        by_bits = sorted(zip(agreeing[row].sum(axis=1), IDS, range(90), strict=True), reverse=True)[:14]
        ordered = sorted(((np.float32(exact[row, place]), name) for _, name, place in by_bits), reverse=True)[:7]
        assert [hit.doc_id for hit in run.rankings[query.query_id]] == [name for _, name in ordered]


def test_candidates_that_are_the_whole_corpus_give_the_run_of_exact_search_bit_for_bit() -> None:
    exact = PlainRetriever("codes", lambda queries: QUERIES, [DenseIndex.build(IDS, DOCUMENTS)]).retrieve(ASKED, k=9)

    # 9 documents and 10 candidates each are all 90 documents.
    assert found(2, "binary", 10, k=9) == found(4, "int8", 10, k=9) == exact


def test_a_search_among_some_documents_ranks_no_other() -> None:
    retriever = PlainRetriever(
        "codes", lambda queries: QUERIES, [index(slice(0, 40), "int8"), index(slice(40, 90), "int8")]
    )
    among = {query.query_id: ("d3", "d77", "elsewhere", "d5") for query in ASKED}

    run = retriever.retrieve(ASKED, k=2, among=among)

    exact = dict(zip(IDS, (DOCUMENTS.astype(np.float64) @ QUERIES[0].astype(np.float64)).tolist(), strict=True))
    best = sorted(((np.float32(exact[name]), name) for name in ("d3", "d5", "d77")), reverse=True)[:2]
    assert run.rankings["q0"] == tuple((name, float(score)) for score, name in best)


def test_an_index_that_scores_no_single_documents_says_so() -> None:
    retriever = PlainRetriever("exact", lambda queries: QUERIES, [DenseIndex.build(IDS, DOCUMENTS)])

    with pytest.raises(ConfigError, match="DenseIndex searches, and scores no candidates"):
        retriever.retrieve(ASKED, k=2, among={query.query_id: ("d3",) for query in ASKED})


def test_cut_vectors_are_those_of_sentence_transformers_at_unit_length() -> None:
    cut = cut_vectors(DOCUMENTS, 6, unit=True)

    np.testing.assert_array_equal(cut, unit_length(np.ascontiguousarray(truncate_embeddings(DOCUMENTS, 6))))
    np.testing.assert_array_equal(cut_vectors(DOCUMENTS, 6, unit=False), DOCUMENTS[:, :6])


def test_more_dimensions_than_a_model_has_are_refused_with_both_numbers() -> None:
    with pytest.raises(ConfigError, match="minilm: `embed_dim` is 512, and its vectors have 384 dimensions"):
        require_dimensions("minilm", 512, 384)
    with pytest.raises(ConfigError, match="`embed_dim` is 21, and its vectors have 20 dimensions"):
        cut_vectors(DOCUMENTS, 21, unit=False)
    require_dimensions("minilm", 384, 384)


def test_a_component_that_never_changes_has_one_byte() -> None:
    vectors = np.float32([[0.25, 255], [0.25, 0]])
    codes = IntegerCodes(vectors, ranges_of([vectors]))

    # Its range is empty; its value stands for itself. The other component's ends are the first and the last byte.
    assert codes.codes().tolist() == [[-128, 127], [-128, -128]]
    assert [scores.tolist() for scores in codes.scores(np.float32([[4, 0]]))] == [[1, 1]]


def test_bytes_of_a_document_are_those_of_its_code() -> None:
    assert Compression(None, "float32").num_bytes(384) == 1536
    assert Compression(100, "float32").num_bytes(384) == 400
    assert Compression(100, "int8").num_bytes(384) == 100
    assert Compression(100, "binary").num_bytes(384) == 13  # 12.5 bytes
    assert Compression(None, "int4").num_bytes(385) == 193  # 192.5 bytes
    assert Compression(None, "float16").num_bytes(384) == 768
    assert {Compression(None, level).num_bytes(8) for level in LEVELS} == {BITS[level] for level in LEVELS}


def test_a_key_says_nothing_of_clipping_where_nothing_is_clipped() -> None:
    assert WHOLE.inputs() == {}
    assert Compression(None, "int8", 4).inputs() == {
        "embed_dim": None, "output_dtype": "int8", "rescore_multiplier": 4,
    }  # fmt: skip
    assert Compression(None, "int8", 4, (0.01, 0.99)).inputs()["clipping_margin"] == (0.01, 0.99)
