"""BM25 of one shard: its formula, its use of the whole corpus's statistics, and its hits."""

import itertools
import math
from collections import Counter
from collections.abc import Sequence

import bm25s
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from r2med_ray.errors import ConfigError, DataError
from r2med_ray.indexing.analysis import analyze
from r2med_ray.indexing.analyzers import ANALYZERS
from r2med_ray.indexing.bm25 import BM25_ROWS
from r2med_ray.indexing.bm25_index import BM25Index, TermWeights
from r2med_ray.indexing.statistics import CorpusStatistics, ShardTerms
from r2med_ray.ranking import merge
from r2med_ray.types import Ranking

F0 = ["cat sits mat", "dog barks loud", "bird flies high", "fish swims deep", "cow eats grass", "horse runs fast"]
WORDS = st.sampled_from(["cat", "dog", "bird", "fish", "zeta", "β", "the"])
TEXT = st.lists(WORDS, max_size=8).map(" ".join)


def ids(texts: Sequence[str]) -> list[str]:
    return [f"d{number}" for number in range(1, len(texts) + 1)]


def index_of(texts: Sequence[str], row: str = "bm25", doc_ids: Sequence[str] = (), **options: object) -> BM25Index:
    terms = ShardTerms.from_texts(texts, BM25_ROWS[row].analyzer)
    return BM25Index.build(terms, doc_ids or ids(texts), CorpusStatistics.of_shard(terms), BM25_ROWS[row], **options)


def search_shards(shards: Sequence[Sequence[str]], queries: Sequence[str], k: int, row: str) -> list[Ranking]:
    """Search shards, each of which is scored with the statistics of all shards."""
    terms = [ShardTerms.from_texts(shard, BM25_ROWS[row].analyzer) for shard in shards]
    statistics = CorpusStatistics.merge(map(CorpusStatistics.of_shard, terms))
    doc_ids = iter(ids([text for shard in shards for text in shard]))
    answers = [
        BM25Index.build(part, [next(doc_ids) for _ in range(part.num_documents)], statistics, BM25_ROWS[row]).search(
            queries, k
        )
        for part in terms
    ]
    return [merge(rankings, k) for rankings in zip(*answers, strict=True)]


def published_scores(texts: Sequence[str], query: str) -> list[float]:
    """Return scores by the formula of R2MED's BM25 in plain float64. A query is weighted as a document is."""
    bags = [Counter(analyze(text)) for text in texts]
    average = sum(bag.total() for bag in bags) / len(bags)
    frequencies = Counter(term for bag in bags for term in bag)

    def weights(bag: Counter[str]) -> dict[str, float]:
        length = sum(count for term, count in bag.items() if term in frequencies)
        return {
            term: (math.log(len(bags) + 1) - math.log(frequencies[term] + 0.5))
            * count
            / (count + 0.9 * (1 - 0.4 + 0.4 * length / average))
            for term, count in bag.items()
            if term in frequencies
        }

    asked = weights(Counter(analyze(query)))
    return [sum(asked.get(term, 0.0) * weight for term, weight in weights(bag).items()) for bag in bags]


@pytest.fixture(scope="module")
def zipf_texts() -> list[str]:
    """300 documents of 5 to 120 words whose frequency falls with their rank."""
    random = np.random.default_rng(5)
    words = np.array([f"word{rank}x" for rank in range(800)])
    weights = 1 / np.arange(1, len(words) + 1)
    return [" ".join(random.choice(words, random.integers(5, 121), p=weights / weights.sum())) for _ in range(300)]


@pytest.mark.parametrize(
    ("row", "query", "expected"),
    [
        # N = 6, df = 1: idf = ln(1 + 5.5 / 1.5) = 1.5404450. Every document has the average 3 terms, so a term that
        # is once in it weighs idf · 1 / (1 + 0.9) = 0.8107605.
        pytest.param("bm25", "cat", {"d1": 0.8107605}, id="one-term"),
        pytest.param("bm25", "dog cats dog", {"d2": 1.6215211, "d1": 0.8107605}, id="repeated-term"),
        # The query has one term: idf · 1 / (1 + 0.9 · (0.6 + 0.4 / 3)) = 1.5404450 / 1.66 = 0.9279789, times
        # 0.8107605.
        pytest.param("bm25-r2med", "cat", {"d1": 0.7523687}, id="published-one-term"),
        # The query has three known terms (zzz is unknown), which is the average.
        # cat weighs idf · 2 / 2.9 = 1.0623758, dog weighs 0.8107605.
        pytest.param("bm25-r2med", "cat dog zzz cat", {"d1": 0.8613324, "d2": 0.6573326}, id="published-repeated"),
        # One of six documents of average length has each term: idf = ln(5.5 / 1.5) = 1.2992830, and the tf part is
        # 1 / (1 + 1.5) = 0.4. So a term weighs 0.5197132 for each time that it is in the query.
        pytest.param("bm25-nano", "cat dog zzz cat", {"d1": 1.0394264, "d2": 0.5197132}, id="nano-repeated"),
    ],
)
def test_scores_by_hand(row: str, query: str, expected: dict[str, float]) -> None:
    [ranking] = index_of(F0, row).search([query], 10)

    assert [hit.doc_id for hit in ranking] == list(expected)
    assert [hit.score for hit in ranking] == pytest.approx(list(expected.values()), abs=2e-7)


def test_scores_are_those_of_bm25s(zipf_texts: list[str]) -> None:
    theirs = bm25s.BM25(k1=0.9, b=0.4, method="lucene", backend="numpy")
    theirs.index([analyze(text) for text in zipf_texts], show_progress=False)
    queries = zipf_texts[:20]

    for query, ranking in zip(queries, index_of(zipf_texts).search(queries, len(zipf_texts)), strict=True):
        expected = dict(zip(ids(zipf_texts), theirs.get_scores(analyze(query)).tolist(), strict=True))
        assert [hit.score for hit in ranking] == pytest.approx([expected[hit.doc_id] for hit in ranking], abs=1e-4)
        assert {hit.doc_id for hit in ranking} == {doc_id for doc_id, score in expected.items() if score > 0}


@pytest.mark.parametrize("row", ["bm25-nano", "bm25-nano-plain"])
def test_nano_scores_are_those_of_bm25s(row: str, zipf_texts: list[str]) -> None:
    analyze_nano = ANALYZERS[BM25_ROWS[row].analyzer].analyze
    theirs = bm25s.BM25(k1=1.5, b=0.75, method="robertson", backend="numpy")
    theirs.index([analyze_nano(text) for text in zipf_texts], show_progress=False)
    queries = zipf_texts[:20]

    found = index_of(zipf_texts, row, keep_zero_scores=True).search(queries, len(zipf_texts))
    for query, ranking in zip(queries, found, strict=True):
        expected = dict(zip(ids(zipf_texts), theirs.get_scores(analyze_nano(query)).tolist(), strict=True))
        assert len(ranking) == len(zipf_texts)
        assert [hit.score for hit in ranking] == pytest.approx([expected[hit.doc_id] for hit in ranking], abs=1e-4)


def test_a_term_of_more_than_half_of_the_documents_weighs_nothing_in_the_nano_variant() -> None:
    # cat is in 3 of 4 documents: (4 - 3 + 0.5) / (3 + 0.5) < 1, so ln is below 0 and counts 0. Lucene's idf is
    # ln(1 + 1.5 / 3.5) > 0.
    texts = ["cat", "cat dog", "cat bird", "fish"]

    assert index_of(texts, "bm25-nano").search(["cat"], 4) == [()]
    assert len(index_of(texts, "bm25").search(["cat"], 4)[0]) == 3


def test_terms_of_another_analyzer_are_refused() -> None:
    terms = ShardTerms.from_texts(["cat"])

    with pytest.raises(DataError, match="bm25-nano needs terms of english-porter-stop-1, these were made by lucene-"):
        BM25Index.build(terms, ["a"], CorpusStatistics.of_shard(terms), BM25_ROWS["bm25-nano"])


def test_published_scores_are_those_of_the_formula(zipf_texts: list[str]) -> None:
    queries = [f"{text} unheard-of" for text in zipf_texts[:20]]
    rankings = index_of(zipf_texts, "bm25-r2med").search(queries, len(zipf_texts))

    for query, ranking in zip(queries, rankings, strict=True):
        expected = dict(zip(ids(zipf_texts), published_scores(zipf_texts, query), strict=True))
        assert [hit.score for hit in ranking] == pytest.approx([expected[hit.doc_id] for hit in ranking], rel=1e-6)


@settings(max_examples=50)
@given(
    texts=st.lists(TEXT, max_size=20),
    queries=st.lists(TEXT, min_size=1, max_size=3),
    num_shards=st.sampled_from([1, 2, 3, 7]),
    k=st.integers(1, 8),
    row=st.sampled_from(sorted(BM25_ROWS)),
)
def test_shards_never_change_a_ranking(
    texts: list[str], queries: list[str], num_shards: int, k: int, row: str
) -> None:
    cuts = np.linspace(0, len(texts), num_shards + 1).astype(int)
    shards = [texts[start:end] for start, end in itertools.pairwise(cuts)]

    assert search_shards([*shards, []], queries, k, row) == index_of(texts, row).search(queries, k)


@pytest.mark.parametrize("cuts", [(0, 81), (0, 80, 81), (0, 50, 51, 81), (0, 1, 2, 50, 51, 52, 70, 81)])
@pytest.mark.parametrize("row", sorted(BM25_ROWS))
def test_bm05_skewed_shards_are_scored_like_one(cuts: tuple[int, ...], row: str) -> None:
    texts = [*(f"common word{number}" for number in range(50)), "rare common zeta", *["zeta x"] * 30]
    shards = [texts[start:end] for start, end in itertools.pairwise(cuts)]

    found = search_shards(shards, ["zeta common"], 81, row)

    assert found == index_of(texts, row).search(["zeta common"], 81)
    # "common" is in 51 of 81 documents. So it weighs nothing in the nano variants, and the shorter "zeta x" come
    # first.
    assert found[0][0].doc_id == ("d81" if row.startswith("bm25-nano") else "d51")


@pytest.mark.parametrize("row", sorted(BM25_ROWS))
@pytest.mark.parametrize("query", ["zzz", "", "the of", "!!", "漢字"])
def test_bm01_a_query_without_a_known_term_finds_nothing(query: str, row: str) -> None:
    assert index_of(F0, row).search([query, "cat"], 3)[0] == ()
    assert len(index_of(F0, row).search([query, "cat"], 3)[1]) == 1


def test_bm01_documents_without_a_matching_term_are_found_only_on_demand() -> None:
    [ranking] = index_of(["cat", "dog"], keep_zero_scores=True).search(["cat"], 5)

    assert [hit.doc_id for hit in ranking] == ["d1", "d2"]
    assert ranking[1].score == 0


@pytest.mark.parametrize("row", sorted(BM25_ROWS))
@pytest.mark.parametrize("texts", [[], [""], ["", "the of", "!!"]], ids=["no-document", "one-empty", "all-empty"])
def test_bm03_a_shard_without_terms_answers_with_nothing(texts: list[str], row: str) -> None:
    assert index_of(texts, row).search(["cat", ""], 3) == [(), ()]
    assert search_shards([texts, F0], ["cat"], 3, row)[0][0].doc_id == f"d{len(texts) + 1}"


def test_a_ranking_is_no_longer_than_its_hits() -> None:
    assert [len(ranking) for ranking in index_of(F0).search(["cat dog", "cat"], 100)] == [2, 1]


def test_ties_at_the_cut_are_broken_by_id() -> None:
    [ranking] = index_of(["cat"] * 20).search(["cat"], 3)

    # d1 ... d20 score the same; by code point d9 > d8 > d7 > ... > d20.
    assert [hit.doc_id for hit in ranking] == ["d9", "d8", "d7"]


def test_the_last_document_of_an_id_answers_for_it() -> None:
    texts = ["cat cat cat", "cat dog", "cat dog dog dog"]
    [once] = index_of(texts).search(["cat"], 3)
    [twice] = index_of(texts, doc_ids=["a", "b", "a"]).search(["cat"], 3)

    # All three documents count in the statistics. The first, which has the most cats, is not a hit any more.
    assert [hit.doc_id for hit in twice] == ["b", "a"]
    assert [hit.score for hit in twice] == [hit.score for hit in once[1:]]


def test_hidden_documents_count_and_are_never_hits() -> None:
    [all_hits] = index_of(["cat cat", "cat"]).search(["cat"], 3)

    assert index_of(["cat cat", "cat"], hidden=[0]).search(["cat"], 3) == [all_hits[1:]]


def test_statistics_of_other_documents_are_refused() -> None:
    terms = ShardTerms.from_texts(["cat", "cat dog"])
    others = CorpusStatistics.of_shard(ShardTerms.from_texts(["cat", "dog"]))

    with pytest.raises(DataError, match="'cat' is in 2 documents of the shard and in 1 of the corpus"):
        BM25Index.build(terms, ["a", "b"], others, BM25_ROWS["bm25"])


def test_ids_must_match_the_documents() -> None:
    with pytest.raises(DataError, match="1 ids for a shard of 6"):
        index_of(F0, doc_ids=["a"])


def test_bm07_a_row_tells_its_parameters() -> None:
    row = BM25_ROWS["bm25"].with_parameters(k1=1.2)

    assert (row.k1, row.b) == (1.2, 0.4)
    assert row.describe() == (
        "BM25, k1=1.2, b=0.4, idf=ln(1+(N-df+0.5)/(df+0.5)), query terms counted, analyzer lucene-english-1"
    )
    assert row.inputs() != BM25_ROWS["bm25"].inputs() != BM25_ROWS["bm25-r2med"].inputs()


def test_an_unknown_variant_gets_a_hint() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'bm25-r2med'"):
        BM25_ROWS["bm25-r2mde"]


def test_the_parts_of_a_score_are_those_of_the_shared_terms_and_add_up_to_it() -> None:
    index = index_of(["cat cat dog", "dog bird", "fish fish fish"])

    [first, third] = index.parts("dog cat zebra", ["d1", "d3"])
    [ranking] = index.search(["dog cat zebra"], k=1)

    # `cat` is in one document of three and twice in d1, `dog` in two documents and once in d1: `cat` adds more
    assert list(first) == ["cat", "dog"]
    assert sum(first.values()) == pytest.approx(ranking[0].score, rel=1e-6)
    assert third == {}


@settings(max_examples=50)
@given(texts=st.lists(TEXT, min_size=1, max_size=20), queries=st.lists(TEXT, min_size=1, max_size=40))
def test_scores_are_float32_sums_in_the_order_of_the_terms_however_many_queries_are_asked(
    texts: list[str], queries: list[str]
) -> None:
    terms = ShardTerms.from_texts(texts)
    made = TermWeights.of_terms(terms, CorpusStatistics.of_shard(terms), BM25_ROWS["bm25"])
    index = index_of(texts)

    for query, ranking in zip(queries, index.search(queries, 20), strict=True):
        scores = [np.float32(0)] * len(texts)
        counts = Counter(analyze(query))
        for position, term in enumerate(made.terms):
            for pair in range(made.offsets[position], made.offsets[position + 1]):
                scores[made.rows[pair]] += made.weights[pair] * np.float32(counts[term])
        assert dict(ranking) == {f"d{number}": score for number, score in enumerate(scores, start=1) if score > 0}
        assert index.search([query], 20) == [ranking]


@pytest.mark.parametrize("texts", [F0, ["", "the"], []], ids=["terms", "no-terms", "no-documents"])
@pytest.mark.parametrize("row", ["bm25", "bm25-lucene", "bm25-r2med"])
def test_stored_weights_give_the_scores_of_those_that_were_stored_to_the_last_bit(
    texts: Sequence[str], row: str
) -> None:
    variant = BM25_ROWS[row]
    terms = ShardTerms.from_texts(texts, variant.analyzer)
    counted = CorpusStatistics.of_shard(terms)
    weights = TermWeights.of_terms(terms, counted, variant)
    read = TermWeights.from_buffer(weights.to_buffer())
    queries = ["cat loud cat", "bird zeta", ""]

    assert read.terms == weights.terms
    assert read.weights.tobytes() == weights.weights.tobytes()
    assert BM25Index(read, ids(texts), counted, variant).search(queries, 5) == index_of(texts, row).search(queries, 5)
