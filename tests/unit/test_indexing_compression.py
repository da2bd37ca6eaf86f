"""Codes of vectors are those of sentence-transformers and MTEB, and what they find doesn't depend on shards."""

import warnings

import numpy as np
import pytest
from sentence_transformers.util import truncate_embeddings
from sentence_transformers.util.quantization import _dequantize_embeddings, quantize_embeddings

from r2med_ray.errors import ConfigError
from r2med_ray.indexing.compression import (
    BinaryCodes,
    Codes,
    CompressedIndex,
    Compression,
    Int8Codes,
    StoredVectors,
    cut_vectors,
    ranges_of,
    require_dimensions,
)
from r2med_ray.indexing.dense import DenseIndex
from r2med_ray.retrieval.search import PlainRetriever
from r2med_ray.types import FloatMatrix, Query, Run
from r2med_ray.vectors import unit_length

RANDOM = np.random.default_rng(3)
# Few different values per component, so that codes and scores tie.
DOCUMENTS = unit_length(RANDOM.integers(-2, 3, (90, 20)).astype(np.float32) + np.float32(0.5))
QUERIES = unit_length(RANDOM.standard_normal((5, 20)).astype(np.float32))
IDS = [f"d{number}" for number in range(90)]
ASKED = [Query(query_id=f"q{number}", text="") for number in range(5)]


def index(rows: slice, output_dtype: str) -> CompressedIndex:
    vectors_ND = np.ascontiguousarray(DOCUMENTS[rows])
    codes: Codes = (
        BinaryCodes(vectors_ND)
        if output_dtype == "binary"
        else Int8Codes(vectors_ND, ranges_of(iter([DOCUMENTS[:13], DOCUMENTS[13:]])))
    )
    return CompressedIndex(IDS[rows], codes, StoredVectors(lambda: (IDS[rows], vectors_ND)))


def found(num_shards: int, output_dtype: str, multiplier: int, k: int = 7) -> Run:
    shards = [index(slice(start, None, num_shards), output_dtype) for start in range(num_shards)]
    retriever = PlainRetriever("codes", lambda queries: QUERIES, shards, rescore_multiplier=multiplier)
    return retriever.retrieve(ASKED, k=k)


def test_bytes_and_bits_are_those_of_sentence_transformers() -> None:
    ranges_2D = np.stack([DOCUMENTS.min(axis=0), DOCUMENTS.max(axis=0)])
    int8, binary = index(slice(None), "int8").codes, index(slice(None), "binary").codes
    assert isinstance(int8, Int8Codes)
    assert isinstance(binary, BinaryCodes)

    assert (int8.codes_ND == quantize_embeddings(DOCUMENTS, "int8", ranges=ranges_2D)).all()
    # 20 components are 3 bytes; the rest of the word of 8 bytes is empty.
    bits_NB = binary.codes_NW.view(np.uint8)
    assert (bits_NB[:, :3] == quantize_embeddings(DOCUMENTS, "ubinary")).all()
    assert not bits_NB[:, 3:].any()


def test_codes_of_a_whole_corpus_are_those_of_mtebs_compression_wrapper() -> None:
    torch, models, types = (pytest.importorskip(name) for name in ("torch", "mteb.models", "mteb.types"))
    meta = pytest.importorskip("mteb.models.model_meta").ModelMeta.create_empty()

    class Model:
        mteb_model_meta = meta

    def theirs(output_dtype: str) -> FloatMatrix:
        wrapper = models.CompressionWrapper(Model(), types.OutputDType(output_dtype))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it would rather see 10,000 vectors
            values: FloatMatrix = wrapper._quantize_embeddings(torch.tensor(DOCUMENTS)).numpy()
        return values

    int8, binary = index(slice(None), "int8").codes, index(slice(None), "binary").codes
    assert isinstance(int8, Int8Codes)
    assert isinstance(binary, BinaryCodes)
    assert (int8.codes_ND == theirs("int8")).all()
    assert (np.unpackbits(binary.codes_NW.view(np.uint8), axis=1)[:, :20] == theirs("binary")).all()


def test_scores_of_bytes_are_products_with_the_values_that_they_stand_for() -> None:
    ranges_2D = np.stack([DOCUMENTS.min(axis=0), DOCUMENTS.max(axis=0)])
    codes = index(slice(None), "int8").codes
    assert isinstance(codes, Int8Codes)

    values_ND = _dequantize_embeddings(codes.codes_ND, "int8", ranges_2D)

    np.testing.assert_allclose(list(codes.scores(QUERIES)), QUERIES.astype(np.float64) @ values_ND.T, atol=1e-6)


def test_scores_of_bits_count_the_components_with_the_same_sign() -> None:
    [scores_N] = BinaryCodes(np.array([[1, -1, 1], [-1, 1, -1]], np.float32)).scores(np.float32([[0.5, 0.5, 0.0]]))

    # A zero counts as negative. The first document agrees in 1 of 3 signs and the second in 2: 1 − 2 and 2 − 1.
    assert scores_N.tolist() == [-1, 1]


@pytest.mark.parametrize("output_dtype", ["int8", "binary"])
@pytest.mark.parametrize("multiplier", [0, 1, 3])
def test_shards_change_no_id_and_no_bit(output_dtype: str, multiplier: int) -> None:
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
    codes = Int8Codes(vectors, ranges_of(iter([vectors])))

    # Its range is empty; its value stands for itself. The other component's ends are the first and the last byte.
    assert codes.codes_ND.tolist() == [[-128, 127], [-128, -128]]
    assert [scores.tolist() for scores in codes.scores(np.float32([[4, 0]]))] == [[1, 1]]


def test_bytes_of_a_document_are_those_of_its_code() -> None:
    assert Compression(None, "float32").num_bytes(384) == 1536
    assert Compression(100, "float32").num_bytes(384) == 400
    assert Compression(100, "int8").num_bytes(384) == 100
    assert Compression(100, "binary").num_bytes(384) == 13  # 12.5 bytes
