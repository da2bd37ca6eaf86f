import io
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from r2med_ray.corpora import Corpus, CorpusShard
from r2med_ray.corpus.shards import (
    SCHEMA,
    from_table,
    ids_digest,
    locate,
    read_ids,
    read_table,
    require_digest,
    table_digest,
    to_table,
)
from r2med_ray.errors import ArtifactError
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Document

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
DOCUMENTS = st.lists(st.builds(Document, doc_id=WORDS, title=WORDS, text=WORDS), min_size=1, max_size=6)


def stored(tmp_path, documents, start_row=0, index=0):
    """Write one shard to a file and describe it."""
    table = to_table(documents, start_row=start_row)
    path = tmp_path / f"{index}.parquet"
    pq.write_table(table, path)
    return CorpusShard(
        index=index,
        path=str(path),
        start_row=start_row,
        num_rows=len(documents),
        digest=table_digest(table),
        ids_digest=ids_digest(table["doc_id"]),
    )


@settings(max_examples=40)
@given(documents=DOCUMENTS, start_row=st.integers(0, 2**40))
def test_documents_survive_the_table_and_parquet_with_their_digest(documents, start_row):
    table = to_table(documents, start_row=start_row)
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=2)
    again = pq.read_table(sink)

    assert table.schema == SCHEMA
    assert from_table(again) == documents
    assert again["row"].to_pylist() == list(range(start_row, start_row + len(documents)))
    assert table_digest(again) == table_digest(table)


@settings(max_examples=40)
@given(documents=DOCUMENTS, others=DOCUMENTS)
def test_two_shards_have_one_digest_only_if_they_are_equal(documents, others):
    same = table_digest(to_table(documents, start_row=0)) == table_digest(to_table(others, start_row=0))

    assert same == (documents == others)


@pytest.mark.parametrize(
    "other",
    [
        [Document(doc_id="a", title="b", text="cd")],
        [Document(doc_id="ab", title="c", text="d")],
        [Document(doc_id="a", title="bc", text="d"), Document(doc_id="", text="")],
        [Document(doc_id="a", title="bcd", text="")],
    ],
)
def test_the_digest_frames_its_fields(other):
    document = [Document(doc_id="a", title="bc", text="d")]

    assert table_digest(to_table(other, start_row=0)) != table_digest(to_table(document, start_row=0))


def test_the_digest_holds_the_rows():
    document = [Document(doc_id="a", text="b")]

    assert table_digest(to_table(document, start_row=0)) != table_digest(to_table(document, start_row=1))


def test_the_digest_is_that_of_the_values_not_of_their_chunks():
    table = to_table([Document(doc_id=str(row), text="x" * row) for row in range(5)], start_row=0)

    in_chunks = pa.concat_tables([table.slice(0, 2), table.slice(2, 0), table.slice(2, 3)])

    assert table_digest(in_chunks) == table_digest(table)


def test_a_table_with_other_content_than_the_digest_says_is_refused(tmp_path):
    shard = stored(tmp_path, [Document(doc_id="a", text="b")])
    read_table(ArtifactStore(str(tmp_path)), shard)

    with pytest.raises(ArtifactError, match=r"corpus shard 0, .*0\.parquet: its content is not what its digest says"):
        require_digest(to_table([Document(doc_id="a", text="B")], start_row=0), shard)


@pytest.mark.parametrize("damage", ["truncated", "missing"])
def test_a_shard_that_cannot_be_read_is_named(tmp_path, damage):
    shard = stored(tmp_path, [Document(doc_id="a", text="b")])
    path = tmp_path / "0.parquet"
    if damage == "truncated":
        path.write_bytes(path.read_bytes()[:-20])
    else:
        path.unlink()

    with pytest.raises(ArtifactError, match=r"corpus shard 0, .*0\.parquet: can't be read"):
        read_table(ArtifactStore(str(tmp_path)), shard)


@pytest.mark.parametrize("has_digest_of_ids", [True, False], ids=["with a digest of ids", "stored without one"])
def test_a_flipped_bit_anywhere_in_a_shard_never_gives_other_ids_or_texts(tmp_path, has_digest_of_ids):
    documents = [Document(doc_id=f"d{number}", title=f"t{number}", text=f"x{number}") for number in range(5)]
    shard = stored(tmp_path, documents)
    shard = shard if has_digest_of_ids else replace(shard, ids_digest="")
    store, path = ArtifactStore(str(tmp_path)), Path(shard.path)
    content = path.read_bytes()
    noticed = 0
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= 1 << position % 8
        path.write_bytes(changed)
        for read, right in [
            (lambda: read_ids(store, shard).to_pylist(), [f"d{number}" for number in range(5)]),
            (lambda: from_table(read_table(store, shard)), documents),
        ]:
            try:
                assert read() == right, position
            except ArtifactError as error:
                noticed += str(error).endswith("it with `r2med artifacts gc --damaged` and run the job again.")

    assert noticed > 100


def test_ids_are_located_shard_by_shard(tmp_path):
    shards = (
        stored(tmp_path, [Document(doc_id="a", text="1"), Document(doc_id="b", text="2")], 0, 0),
        stored(tmp_path, [Document(doc_id="c", text="3")], 2, 1),
        stored(tmp_path, [Document(doc_id="B", text="4")], 3, 2),
    )
    corpus = Corpus(key="corpus/x", digest="x", shards=shards)

    found = [(shard.index, ids) for shard, ids in locate(ArtifactStore(str(tmp_path)), corpus, ["b", "B", "b", "z"])]

    assert found == [(0, ["b"]), (2, ["B"])]
