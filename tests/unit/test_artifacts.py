"""An artefact is named by its inputs, is whole or absent, and never changes unnoticed."""

import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from r2med_ray.errors import ArtifactError
from r2med_ray.storage.artifact import Artifact
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.garbage import collect_garbage
from r2med_ray.storage.keys import ArtifactKey, fingerprint, fingerprint_queries
from r2med_ray.storage.manifests import manifest_path
from r2med_ray.types import Expansion, Query

KEY = ArtifactKey("vectors", {"model": "m", "max_length": 256})
TEXT = ArtifactKey("generation", {"model": "m", "seed": 1}, is_text=True)
TABLE = pa.table({"row": [0, 1], "doc_id": ["a", "b"]})


def write(store: ArtifactStore, key: ArtifactKey = KEY) -> Path:
    """Store TABLE under a key, and return the file that holds it."""
    with store.create(key) as writer:
        writer.write_table("t.parquet", TABLE)
        writer.attributes["documents"] = 2
    return Path(store.get(key).path("t.parquet"))


def write_text(store: ArtifactStore, content: bytes = b'{"text": "rash"}') -> Path:
    """Store a text, and return its file."""
    with store.create(TEXT) as writer:
        writer.write("t.json", content)
        writer.attributes["unit"] = "query 'q1'"
    return Path(store.root) / f"{TEXT.name}.manifest.json"


def test_what_was_written_is_read_with_its_attributes(store: ArtifactStore) -> None:
    write(store)

    assert store.get(KEY).table("t.parquet") == TABLE
    assert store.get(KEY).attributes == {"documents": 2}
    assert store.names() == [KEY.name]


def test_a_table_is_read_in_parts_of_which_one_is_in_memory(store: ArtifactStore) -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(2**22, dtype=np.float32)), 256)
    table = pa.table({"row": range(2**14), "vector": vectors})
    with store.create(KEY) as writer:
        writer.write_table("t.parquet", table)
    del vectors
    pool = pa.system_memory_pool()

    held, parts = [], []
    for part in store.get(KEY).in_parts("t.parquet", 1000):
        held.append(pool.bytes_allocated())
        parts.append(part["row"].to_numpy().copy())

    assert [len(part) for part in parts] == [1000] * 16 + [384]
    assert np.concatenate(parts).tolist() == list(range(2**14))
    # The table is of 16 MiB, and a part of 1 MiB.
    assert 2**20 < max(held) < 2**22 + 2**22


def test_parts_of_an_unknown_file_are_refused(store: ArtifactStore) -> None:
    write(store)

    with pytest.raises(ArtifactError, match=r"has no file 'u\.parquet': t\.parquet"):
        next(store.get(KEY).in_parts("u.parquet", 1))


def test_a_table_is_read_without_a_scanner_that_may_outlive_python(store: ArtifactStore) -> None:
    # Arrow's scanner may give up a table's bytes in a thread of its own while Python ends. Then the process aborts
    # with exit code 134, although all work is done. `pyarrow.parquet.read_table` imports the scanner.
    write(store)
    program = f"""
import sys
from r2med_ray.storage.artifacts import ArtifactStore
[artifact] = ArtifactStore({store.uri!r}).all()
print(artifact.table("t.parquet").num_rows, "pyarrow.dataset" in sys.modules)
"""

    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)

    assert done.stdout == "2 False\n"


@pytest.mark.parametrize("change", [{"model": "n"}, {"max_length": 255}, {"max_length": 256.0}, {"prompt": ""}])
def test_en11_every_input_is_part_of_the_name(store: ArtifactStore, change: dict[str, object]) -> None:
    write(store)

    assert store.find(ArtifactKey("vectors", {**KEY.inputs, **change})) is None


def test_the_order_of_inputs_is_not_part_of_the_name() -> None:
    assert fingerprint({"a": 1, "b": [2, "é"]}) == fingerprint({"b": [2, "é"], "a": 1})


def test_an_expansion_is_part_of_what_is_asked() -> None:
    plain = Query(query_id="q", text="rash")
    expanded = Query(query_id="q", text="rash", expansions=(Expansion(text="measles", method="hyde"),))

    assert fingerprint_queries([plain]) != fingerprint_queries([expanded])


def test_a_writer_that_fails_leaves_nothing(store: ArtifactStore, tmp_path: Path) -> None:
    def fail() -> None:
        with store.create(KEY) as writer:
            writer.write_table("t.parquet", TABLE)
            raise RuntimeError("full disk")

    with pytest.raises(RuntimeError, match="full disk"):
        fail()

    assert store.find(KEY) is None
    assert not list((tmp_path / "store").rglob("*.parquet"))


def test_a_killed_writer_leaves_nothing_that_is_read(store: ArtifactStore, tmp_path: Path) -> None:
    attempt = tmp_path / "store" / KEY.name / "attempt-of-a-killed-process"
    attempt.mkdir(parents=True)
    (attempt / "t.parquet").write_bytes(b"half")

    assert store.find(KEY) is None
    assert store.names() == []
    write(store)
    assert store.get(KEY).table("t.parquet") == TABLE


def test_garbage_is_what_no_manifest_names(store: ArtifactStore, tmp_path: Path) -> None:
    kept = write(store)
    attempt = tmp_path / "store" / KEY.name / "attempt-of-a-killed-process"
    attempt.mkdir()
    (attempt / "t.parquet").write_bytes(b"half")
    now = (attempt / "t.parquet").stat().st_mtime

    assert collect_garbage(store, older_than_s=60, now=now) == []
    assert collect_garbage(store, older_than_s=60, now=now + 61, dry_run=True) == [str(attempt)]
    assert attempt.exists()
    assert collect_garbage(store, older_than_s=60, now=now + 61) == [str(attempt)]
    assert not attempt.exists()
    assert kept.exists()


@pytest.mark.parametrize("position", [0, 40, -1])
def test_a_changed_byte_is_detected_and_named(store: ArtifactStore, position: int) -> None:
    path = write(store)
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)

    with pytest.raises(ArtifactError, match=rf"artefact {KEY.name}, file 't.parquet': .* SHA-256"):
        store.get(KEY).table("t.parquet")
    with pytest.raises(ArtifactError, match=rf"artefact {KEY.name}, file 't.parquet': .* SHA-256"):
        next(store.get(KEY).in_parts("t.parquet", 1))
    assert [name for name, _ in store.problems()] == [KEY.name]
    assert collect_garbage(store, older_than_s=0, now=0, damaged=True) == [KEY.name]
    assert store.find(KEY) is None


def test_a_shortened_file_and_a_missing_one_are_named(store: ArtifactStore) -> None:
    path = write(store)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ArtifactError, match=r"bytes, its manifest says"):
        store.get(KEY).read("t.parquet")
    with pytest.raises(ArtifactError, match=r"bytes, its manifest says"):
        next(store.get(KEY).in_parts("t.parquet", 1))
    path.unlink()
    with pytest.raises(ArtifactError, match="is missing"):
        store.get(KEY).read("t.parquet")
    with pytest.raises(ArtifactError, match="is missing"):
        next(store.get(KEY).in_parts("t.parquet", 1))


def test_a_damaged_manifest_is_an_error_and_not_an_absence(store: ArtifactStore, tmp_path: Path) -> None:
    write(store)
    manifest = tmp_path / "store" / KEY.name / "manifest.json"
    manifest.write_text(manifest.read_text()[:-20])

    with pytest.raises(ArtifactError, match="manifest can't be read"):
        store.find(KEY)
    assert len(list(store.problems())) == 1


@pytest.mark.parametrize("key", [KEY, TEXT], ids=["table", "text"])
def test_a_flipped_bit_anywhere_in_a_manifest_is_noticed(store: ArtifactStore, key: ArtifactKey) -> None:
    write(store)
    write_text(store)
    manifest = Path(manifest_path(f"{store.root}/{key.name}", is_text=key.is_text))
    content = manifest.read_bytes()
    there, errors = store.get(key), []
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= 1 << position % 8
        manifest.write_bytes(changed)
        try:  # a blank between two values may become another blank
            assert store.get(key) == there, changed
        except ArtifactError as error:
            errors.append(str(error))

    assert len(errors) > len(content) / 2
    assert all(error.startswith(f"artefact {key.name}") for error in errors)


def test_a_manifest_of_other_inputs_is_refused(store: ArtifactStore, tmp_path: Path) -> None:
    write(store)
    manifest = tmp_path / "store" / KEY.name / "manifest.json"
    values = json.loads(manifest.read_text())
    del values["digest"]
    manifest.write_text(json.dumps(values | {"inputs": {"model": "other"}}))

    with pytest.raises(ArtifactError, match="made from other inputs"):
        store.find(KEY)


def test_two_writers_of_one_artefact_leave_one_that_is_whole(store: ArtifactStore) -> None:
    with store.create(KEY) as slow:
        slow.write_table("t.parquet", TABLE)
        write(store)

    assert store.get(KEY).table("t.parquet") == TABLE
    assert list(store.problems()) == []


def test_a_store_travels_to_workers_as_its_uri(store: ArtifactStore) -> None:
    write(store)

    assert pickle.loads(pickle.dumps(store)).get(KEY).table("t.parquet") == TABLE


def test_a_store_may_be_any_file_system_uri(tmp_path: Path) -> None:
    store = ArtifactStore(f"file://{tmp_path}/by-uri")
    write(store)

    assert store.names() == [KEY.name]
    with pytest.raises(ArtifactError, match="no local path or file system URI"):
        ArtifactStore("ftp://nowhere/x")


@pytest.mark.parametrize("place", ["file", "file/store", "file/a/b"])
def test_a_store_at_or_below_a_file_is_refused(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(ArtifactError, match=r"file is a file; expected a folder"):
        ArtifactStore(str(tmp_path / place))


def test_a_store_that_can_not_be_written_to_is_named() -> None:
    # No user can make folders there, not even root.
    with pytest.raises(ArtifactError, match=r"store '/proc/sys/store' can't be written to: "):
        write(ArtifactStore("/proc/sys/store"))


def columns_of(artifact: Artifact) -> dict[str, pq.ColumnChunkMetaData]:
    group = pq.ParquetFile(pa.BufferReader(artifact.read("t.parquet"))).metadata.row_group(0)
    columns = [group.column(number) for number in range(group.num_columns)]
    return {column.path_in_schema: column for column in columns}


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_vectors_are_stored_as_their_bytes_and_read_as_they_were(
    store: ArtifactStore, dtype: type[np.floating]
) -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(480).astype(dtype)), 8)
    # The tokens of ten texts more are cut off on both sides, so offsets don't begin with 0.
    tokens = pa.ListArray.from_arrays(pa.array(range(61), pa.int32()), vectors)[5:55]
    table = pa.table({"id": [f"d{row}" for row in range(50)], "vector": vectors[3:53], "tokens": tokens})
    with store.create(KEY) as writer:
        writer.write_table("t.parquet", pa.concat_tables([table[:20], table[20:]]))

    artifact = store.get(KEY)
    assert artifact.table("t.parquet") == table
    assert artifact.table("t.parquet", columns=["tokens"]) == table.select(["tokens"])
    assert pa.concat_tables(artifact.in_parts("t.parquet", 7)) == table
    stored = columns_of(artifact)
    assert {path for path, column in stored.items() if column.physical_type == "FIXED_LEN_BYTE_ARRAY"} == {
        "vector", "tokens.list.element",
    }  # fmt: skip
    assert {path for path, column in stored.items() if column.has_dictionary_page} == {"id"}
    assert np.array(list(range(24, 424)), dtype).tobytes() in artifact.read("t.parquet").to_pybytes()


def test_other_lists_of_floats_are_stored_without_a_dictionary(store: ArtifactStore) -> None:
    lists = pa.ListArray.from_arrays(pa.array(range(0, 101, 2), pa.int32()), pa.array(np.arange(100.0)))
    columns = {"words": [["one", "two"]] * 50, "score": range(50), "values": lists}
    for name, holes in (
        ("vector", pa.array([[1.0, 2.0], None] * 25, pa.list_(pa.float64(), 2))),
        ("component", pa.array([[1.0, None]] * 50, pa.list_(pa.float64(), 2))),
        ("token", pa.array([[[1.0, 2.0], None]] * 50, pa.list_(pa.list_(pa.float64(), 2)))),
    ):
        columns[name] = holes
    table = pa.table(columns)
    with store.create(KEY) as writer:
        writer.write_table("t.parquet", table)

    assert store.get(KEY).table("t.parquet") == table
    stored = columns_of(store.get(KEY))
    split = {path for path, column in stored.items() if "BYTE_STREAM_SPLIT" in column.encodings}
    # What has holes is stored as lists.
    assert split == {
        "values.list.element", "vector.list.element", "component.list.element", "token.list.element.list.element",
    }  # fmt: skip
    coded = {path for path, column in stored.items() if column.has_dictionary_page}
    assert coded == {"words.list.element", "score"}


@pytest.mark.parametrize("count", [0, 3])
def test_vectors_that_were_stored_as_lists_are_read(store: ArtifactStore, count: int) -> None:
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(8 * count).astype(np.float16)), 8)
    table = pa.table({"row": range(count), "vector": vectors})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    with store.create(KEY) as writer:
        writer.write("old.parquet", sink.getvalue())
        writer.write_table("new.parquet", table)

    assert store.get(KEY).table("old.parquet") == store.get(KEY).table("new.parquet") == table
    assert pa.concat_tables([table[:0], *store.get(KEY).in_parts("old.parquet", 2)]) == table


def test_the_same_table_gives_the_same_bytes(store: ArtifactStore) -> None:
    first = write(store).read_bytes()
    other = ArtifactKey("vectors", {"model": "n"})

    assert write(store, other).read_bytes() == first


@pytest.mark.parametrize(
    "content",
    [b"", b"rash", "fièvre \N{FACE WITH THERMOMETER}".encode(), "\ud800 alone".encode(errors="surrogatepass")],
)
def test_a_text_is_one_file_that_holds_every_byte_of_it(store: ArtifactStore, content: bytes) -> None:
    file = write_text(store, content)

    assert [path for path in Path(store.root).rglob("*") if path.is_file()] == [file]
    assert store.get(TEXT).read("t.json").to_pybytes() == content
    assert store.get(TEXT).attributes == {"unit": "query 'q1'"}
    assert store.get(TEXT).num_bytes == len(content)
    assert store.names() == [TEXT.name]
    assert store.begun("generation") == {TEXT.digest}
    assert list(store.problems()) == []


def test_a_text_goes_with_its_file(store: ArtifactStore) -> None:
    file = write_text(store)
    store.remove(TEXT.name)

    assert not file.exists()
    assert store.find(TEXT) is None


def test_a_changed_text_is_named_and_removed_as_damaged(store: ArtifactStore) -> None:
    file = write_text(store)
    file.write_text(file.read_text().replace("rash", "rush"))

    assert [name for name, _ in store.problems()] == [TEXT.name]
    assert collect_garbage(store, older_than_s=0, now=0, damaged=True) == [TEXT.name]
    assert not file.exists()


def test_a_text_whose_writer_was_killed_is_absent_until_its_file_is_garbage(store: ArtifactStore) -> None:
    kept = write_text(store)
    killed = kept.with_name("0123456789abcdef.partial")
    killed.write_bytes(kept.read_bytes()[:20])
    now = killed.stat().st_mtime

    assert store.names() == [TEXT.name]
    assert collect_garbage(store, older_than_s=60, now=now + 1) == []
    assert collect_garbage(store, older_than_s=60, now=now + 61) == [str(killed)]
    assert not killed.exists()
    assert kept.exists()


def test_a_text_whose_writer_fails_is_absent(store: ArtifactStore) -> None:
    def fail() -> None:
        with store.create(TEXT) as writer:
            writer.write("t.json", b"rash")
            raise RuntimeError("full disk")

    with pytest.raises(RuntimeError, match="full disk"):
        fail()

    assert store.find(TEXT) is None
    assert not [path for path in Path(store.root).rglob("*") if path.is_file()]
