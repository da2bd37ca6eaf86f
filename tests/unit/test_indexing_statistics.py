"""Counts of terms in a shard and in a corpus."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from r2med_ray.indexing.statistics import CorpusStatistics, ShardTerms

TEXTS = ["cats sat, a cat", "", "the of", "dog cat"]
CORPUS = st.lists(
    st.lists(st.sampled_from(["cat", "dog", "the", "zeta", "β"]), max_size=6).map(" ".join), max_size=12
)


def through_parquet(table: pa.Table) -> pa.Table:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    return pq.read_table(pa.BufferReader(sink.getvalue()))


def test_a_shard_is_counted_by_term() -> None:
    shard = ShardTerms.from_texts(TEXTS)

    # Terms by document: cat sat cat | nothing | nothing | dog cat.
    assert shard.num_documents == 4
    assert shard.terms == ("cat", "dog", "sat")
    assert shard.offsets.tolist() == [0, 2, 3, 4]
    assert shard.rows.tolist() == [0, 3, 3, 0]
    assert shard.counts.tolist() == [2, 1, 1, 1]
    assert shard.lengths.tolist() == [3, 0, 0, 2]


def test_documents_without_terms_count_as_documents() -> None:
    statistics = CorpusStatistics.of_shard(ShardTerms.from_texts(TEXTS))

    # 5 terms in 4 documents.
    assert statistics.num_documents == 4
    assert statistics.num_terms == 5
    assert statistics.average_length == 1.25
    assert statistics.document_frequencies == {"cat": 2, "dog": 1, "sat": 1}


def test_an_empty_corpus_has_statistics() -> None:
    assert CorpusStatistics.merge([]).average_length == 0
    assert CorpusStatistics.of_shard(ShardTerms.from_texts([])) == CorpusStatistics.merge([])


@settings(max_examples=50)
@given(CORPUS, st.sampled_from([1, 2, 3, 7]))
def test_shards_add_up_to_the_corpus(texts: list[str], num_shards: int) -> None:
    parts = [
        CorpusStatistics.of_shard(ShardTerms.from_texts(texts[index::num_shards])) for index in range(num_shards)
    ]

    assert CorpusStatistics.merge(parts) == CorpusStatistics.of_shard(ShardTerms.from_texts(texts))


@pytest.mark.parametrize("texts", [TEXTS, ["", "the"], []], ids=["terms", "no-terms", "no-documents"])
def test_both_come_back_from_parquet_as_they_were(texts: list[str]) -> None:
    shard = ShardTerms.from_texts(texts)
    statistics = CorpusStatistics.of_shard(shard)

    again = ShardTerms.from_table(through_parquet(shard.to_table()))

    assert CorpusStatistics.from_table(through_parquet(statistics.to_table())) == statistics
    assert (again.num_documents, again.terms) == (shard.num_documents, shard.terms)
    for name in ("offsets", "rows", "counts"):
        assert getattr(again, name).dtype == getattr(shard, name).dtype
        np.testing.assert_array_equal(getattr(again, name), getattr(shard, name))
