"""Lengths as Lucene stores them: by a table worked out by hand, by Lucene's own steps, and in the scores of BM25."""

import math
from pathlib import Path

import numpy as np
import pytest

from r2med_ray import open_workbench
from r2med_ray.indexing.bm25 import BM25_ROWS
from r2med_ray.indexing.bm25_index import BM25Index
from r2med_ray.indexing.lucene_lengths import as_lucene_stores
from r2med_ray.indexing.statistics import CorpusStatistics, ShardTerms, num_empty
from r2med_ray.settings.resources import ResourcesConfig


def stored(length: int) -> int:
    return int(as_lucene_stores(np.array([length], np.int64))[0])


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        # below 24, and 24 + up to four bits: exact
        (0, 0), (1, 1), (23, 23), (24, 24), (39, 39),
        # 24 + 16 = 24 + 10000b is exact; 24 + 17 = 24 + 10001b loses its last bit
        (40, 40), (41, 40), (42, 42),
        # 24 + 31 = 24 + 11111b keeps 11110b = 30
        (55, 54),
        # 24 + 32 = 24 + 100000b; the next step is 24 + 100100b = 24 + 36, two bits are lost
        (56, 56), (59, 56), (60, 60),
        # 24 + 76 = 24 + 1001100b keeps 1001000b = 72
        (100, 96),
        # 24 + 276 = 24 + 100010100b keeps 100000000b = 256
        (300, 280),
        # 24 + 976 = 24 + 1111010000b keeps 1111000000b = 960
        (1000, 984),
        # 2^31 - 1 = 24 + 2147483623, whose 31 bits begin with 1111: it keeps 15 · 2^27
        (2**31 - 1, 24 + 15 * 2**27),
    ],
)  # fmt: skip
def test_a_length_is_what_lucene_reads_back(length: int, expected: int) -> None:
    assert stored(length) == expected


def int_to_byte4_and_back(length: int) -> int:
    """Follow `SmallFloat.intToByte4` and `byte4ToInt` step by step, over the code in between."""

    def encode(number: int) -> int:
        shift = number.bit_length() - 4
        return number if shift < 0 else (number >> shift & 0b111) | (shift + 1) << 3

    def decode(code: int) -> int:
        shift = (code >> 3) - 1
        return code if shift == -1 else (code & 0b111 | 0b1000) << shift

    free = 255 - encode(2**31 - 1)
    code = length if length < free else free + encode(length - free)
    assert 0 <= code < 256
    return code if code < free else free + decode(code - free)


def test_every_length_agrees_with_the_steps_through_the_byte() -> None:
    lengths = [*range(5000), *(2**power + step for power in range(5, 31) for step in (-1, 0, 1))]

    assert as_lucene_stores(np.array(lengths, np.int64)).tolist() == [*map(int_to_byte4_and_back, lengths)]


def test_a_score_has_the_stored_length_and_counts_no_empty_document() -> None:
    # 41 terms are stored as 40; the second document has only stop words, and no term.
    texts = ["cat " + "dog " * 40, "the of", "bird"]
    terms = ShardTerms.from_texts(texts)
    assert (terms.num_documents, num_empty(terms.to_table())) == (3, 1)
    counted = CorpusStatistics(num_documents=2, num_terms=42, document_frequencies={"cat": 1, "dog": 1, "bird": 1})

    [[hit]] = BM25Index.build(terms, ["a", "b", "c"], counted, BM25_ROWS["bm25-lucene"]).search(["cat"], k=3)
    # N = 2, df = 1: idf = ln(1 + 1.5 / 1.5). The average length is 42 / 2 = 21, of the exact lengths, as in Lucene.
    expected = math.log(2) * 1 / (1 + 0.9 * (1 - 0.4 + 0.4 * 40 / 21))
    assert hit.score == pytest.approx(expected, rel=1e-6)


def test_an_empty_document_of_any_shard_is_left_out_of_the_statistics_of_lucene_only(tmp_path: Path) -> None:
    documents = {"a": "cat dog", "b": "the of", "c": "bird", "d": "and"}
    with open_workbench(tmp_path / "store", resources=ResourcesConfig(documents_per_shard=2)) as bench:
        task = bench.task("mine", documents=documents, queries={"q": "cat"})
        ranked = {name: bench.rank(task, {"retriever": name}) for name in ("bm25", "bm25-lucene")}
    scores = {name: found.run.rankings["q"][0].score for name, found in ranked.items()}

    def score(num_documents: int) -> float:
        """BM25 of a term of one document, whose length is 2 of 3 terms in all."""
        idf = math.log(1 + (num_documents - 1 + 0.5) / 1.5)
        return idf / (1 + 0.9 * (1 - 0.4 + 0.4 * 2 / (3 / num_documents)))

    assert scores == {"bm25": pytest.approx(score(4), rel=1e-6), "bm25-lucene": pytest.approx(score(2), rel=1e-6)}


def test_the_variants_that_were_there_keep_their_keys() -> None:
    assert "counts" not in BM25_ROWS["bm25"].inputs()
    assert BM25_ROWS["bm25-lucene"].inputs() == {**BM25_ROWS["bm25"].inputs(), "counts": "lucene"}
