"""Shards end after a number of documents, or earlier where their texts are huge."""

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from r2med_ray.corpus import shard_bounds
from r2med_ray.corpus.convert import convert_corpus, convert_documents, corpus_key, load_corpus
from r2med_ray.corpus.layouts import LAYOUTS
from r2med_ray.corpus.loading import fetch_documents, read_shard
from r2med_ray.errors import DataError
from r2med_ray.types import Document
from tests.unit.corpus_files import DOCUMENTS, write_r2med

# Each id has 2 bytes. With their texts the documents have 14, 16, 17, 17, 16 and 17 bytes: "d1" + "cat sits mat" etc.
SIZES = [14, 16, 17, 17, 16, 17]


def sizes_of(corpus):
    return [shard.num_rows for shard in corpus.shards]


def convert(source, store, documents_per_shard=4, **options):
    return load_corpus(convert_corpus(source, store, documents_per_shard=documents_per_shard, **options))


def test_the_sizes_of_the_collection_are_these():
    assert [len(doc_id) + len(text) for doc_id, text in DOCUMENTS.items()] == SIZES


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (64, [4, 2]),  # the first four have 64 bytes, so nothing changes
        (63, [3, 3]),  # 47 bytes, then 17 + 16 + 17 = 50
        (33, [2, 1, 2, 1]),  # 30, then 17, for 17 + 17 is too much, then 17 + 16 = 33, then 17
        (5, [1] * 6),  # a document that is longer than a shard is a shard of its own
    ],
)
def test_a_shard_ends_before_its_texts_have_more_bytes_than_it_may_hold(tmp_path, store, monkeypatch, most, expected):
    monkeypatch.setattr(shard_bounds, "BYTES_PER_SHARD", most)
    corpus = convert(write_r2med(tmp_path / "a"), store)
    in_memory = load_corpus(
        convert_documents(
            [Document(doc_id=doc_id, text=text) for doc_id, text in DOCUMENTS.items()],
            store,
            name="mine",
            documents_per_shard=4,
        )
    )

    assert sizes_of(corpus) == sizes_of(in_memory) == expected
    assert [shard.start_row for shard in corpus.shards] == [sum(expected[:index]) for index in range(len(expected))]
    rows = [row for shard in corpus.shards for row in read_shard(store, shard).rows.tolist()]
    assert rows == list(range(6))
    assert {key: value.text for key, value in fetch_documents(store, corpus, DOCUMENTS).items()} == DOCUMENTS


@pytest.mark.parametrize("packed", [False, True])
def test_the_key_names_the_bytes_of_a_shard_only_where_they_decide(tmp_path, monkeypatch, packed):
    source = write_r2med(tmp_path / "a")
    if packed:
        plain = source.folder / "corpus.jsonl"
        (source.folder / "corpus.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes()))
        plain.unlink()

    def inputs(most: int) -> dict[str, object]:
        monkeypatch.setattr(shard_bounds, "BYTES_PER_SHARD", most)
        return dict(corpus_key(source, documents_per_shard=4, shards=None, on_conflict="error").inputs)

    # The four lines of the first shard have more than 64 bytes, but their texts have not.
    unbound = inputs(1 << 30)
    assert list(unbound) == ["file", "layout", "converter", "documents_per_shard", "on_conflict"]
    assert inputs(64) == unbound
    assert inputs(63) == {**unbound, "bytes_per_shard": 63}


def test_the_texts_of_a_parquet_file_are_measured_unpacked(tmp_path, monkeypatch):
    path = tmp_path / "corpus.parquet"
    pq.write_table(pa.table({"_id": ["a", "b"], "text": ["x" * 5000, "x" * 5000]}), path)

    def cut_at(most: int) -> bool:
        monkeypatch.setattr(shard_bounds, "BYTES_PER_SHARD", most)
        return shard_bounds.is_cut_by_bytes(path, LAYOUTS["nano"], 10)

    assert path.stat().st_size < 5000
    assert [cut_at(10_002), cut_at(10_001)] == [False, True]


def test_bytes_are_counted_in_utf8():
    # "é" has two bytes, "🫀" has four.
    [document] = [Document(doc_id="d", title="é", text="🫀")]
    assert next(shard_bounds.cut([document], 1)) == [document]
    assert shard_bounds._num_bytes(document) == 1 + 2 + 4


def test_repeated_rows_are_found_across_shards_of_unequal_length(tmp_path, store, monkeypatch):
    monkeypatch.setattr(shard_bounds, "BYTES_PER_SHARD", 33)
    pairs = [*DOCUMENTS.items(), ("d2", DOCUMENTS["d2"])]
    corpus = convert(write_r2med(tmp_path / "a", corpus=pairs), store)

    assert sizes_of(corpus) == [2, 1, 2, 2]  # the last: 17 + 16
    assert corpus.duplicate_rows == (6,)


def test_a_document_that_no_shard_can_hold_is_named(monkeypatch, tmp_path, store):
    monkeypatch.setattr(shard_bounds, "GREATEST_TEXT", 16)

    with pytest.raises(DataError, match="document 'd3' has 17 bytes; a shard takes at most 16: cut it"):
        convert(write_r2med(tmp_path / "a"), store)

    assert store.names() == []


def test_a_text_column_of_a_shard_is_within_what_arrow_counts_in_31_bits():
    assert shard_bounds.BYTES_PER_SHARD < shard_bounds.GREATEST_TEXT == 2**31 - 1
