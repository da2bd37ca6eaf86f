"""A store by URI: never a secret in a message, never half a file, an error where there is nothing to reach."""

import pickle
import subprocess
import sys
import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

from r2med_ray.errors import ArtifactError, StoreError
from r2med_ray.storage import places
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.garbage import collect_garbage
from r2med_ray.storage.keys import ArtifactKey
from r2med_ray.storage.places import line_without_credentials, open_place, without_credentials
from tests.object_store import KEY_ID, SECRET, Failing, s3_server, s3_uri, watch

KEY = ArtifactKey("vectors", {"model": "m"})
TEXT = ArtifactKey("generation", {"model": "m"}, is_text=True)
TABLE = pa.table({"row": [0, 1]})
NOWHERE = "127.0.0.1:9"
"""Nobody listens on the port of the `discard` service."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    pytest.importorskip("moto", reason="the extra `dev` has a server for S3")
    with s3_server() as address:
        yield address


@pytest.fixture
def uri(server: str, request: pytest.FixtureRequest) -> str:
    return s3_uri(f"bucket/{abs(hash(request.node.name))}", server)


def write(store: ArtifactStore, key: ArtifactKey = KEY, table: pa.Table = TABLE) -> None:
    with store.create(key) as writer:
        writer.write_table("t.parquet", table)
        writer.attributes["documents"] = 2


def write_text(store: ArtifactStore) -> None:
    with store.create(TEXT) as writer:
        writer.write("t.txt", b"rash")


def r2med(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = "from r2med_ray.cli.main import main; main()"
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("s3://ID:SECRET@bucket/a?region=x", "s3://bucket/a?region=x"),
        ("s3://ID:SEC/RET@bucket/a", "s3://bucket/a"),  # a slash that should have been %2F
        ("s3://bucket/a@b", "s3://bucket/a@b"),
        ("s3://host:9000/a@b", "s3://host:9000/a@b"),
        ("abfs://c@account.dfs.core.windows.net/a?sas_token=SECRET&x=1", "abfs://account.dfs.core.windows.net/a?x=1"),
        ("gs://bucket/a?scheme=http", "gs://bucket/a?scheme=http"),
        ("results/a@b:c", "results/a@b:c"),
    ],
)
def test_a_uri_is_shown_without_credentials(uri: str, shown: str) -> None:
    assert without_credentials(uri) == shown


def test_a_secret_is_scrubbed_as_it_is_written_and_as_it_is_meant() -> None:
    # %2F is a slash.
    uri = "s3://AKID:ab%2Fcdef@bucket"

    assert line_without_credentials(f"{uri}: ab%2Fcdef,\n ab/cdef, AKID", uri) == "s3://bucket: ***, ***, ***"


def test_what_was_stored_in_s3_is_read_by_another_process_too(uri: str) -> None:
    store = ArtifactStore(uri)
    write(store)
    travelled = pickle.loads(pickle.dumps(store))

    assert travelled.get(KEY).table("t.parquet") == TABLE
    assert store.names() == store.names_of("vectors") == [KEY.name]
    assert store.names_of("vector") == []
    assert store.begun("vectors") == {KEY.digest}
    assert list(store.problems()) == []


def test_garbage_in_s3_goes_and_what_is_whole_stays(uri: str) -> None:
    store = ArtifactStore(uri)
    write(store)
    attempt = f"{store.root}/{KEY.name}/killed"
    store.place.write(f"{attempt}/t.parquet", b"half")

    assert collect_garbage(store, older_than_s=60, now=time.time()) == []
    assert collect_garbage(store, older_than_s=0, now=time.time() + 1) == [attempt]
    assert store.get(KEY).table("t.parquet") == TABLE
    store.place.write(store.get(KEY).path("t.parquet"), b"changed")
    assert collect_garbage(store, older_than_s=60, now=0, damaged=True) == [KEY.name]
    assert store.find(KEY) is None


@pytest.mark.parametrize("dead", [False, True])
@pytest.mark.parametrize("n", range(1, 8))
def test_a_write_that_fails_at_any_call_leaves_nothing_that_is_read(uri: str, n: int, dead: bool) -> None:
    # One artefact with one file is put and write of the file, put and write of the manifest, and a copy: 5 calls.
    # `delete` may be the sixth. Half of the file has gone when a write fails.
    store, healthy = ArtifactStore(uri), ArtifactStore(uri)
    watch(store, Failing(n, dead=dead))
    if n <= 5:
        with pytest.raises(StoreError, match="can't be written to: the connection broke"):
            write(store)
        assert healthy.find(KEY) is None
        assert healthy.names() == []
        assert list(healthy.problems()) == []
    else:
        write(store)
    write(healthy)
    assert healthy.get(KEY).table("t.parquet") == TABLE
    collect_garbage(healthy, older_than_s=0, now=time.time() + 1)
    assert healthy.get(KEY).table("t.parquet") == TABLE


def test_a_text_in_s3_is_one_object(uri: str) -> None:
    store = ArtifactStore(uri)
    write_text(store)

    there = store.place.listed(store.root, recursive=True)
    assert [info.path for info in there if info.is_file] == [f"{store.root}/{TEXT.name}.manifest.json"]
    assert ArtifactStore(uri).get(TEXT).read("t.txt").to_pybytes() == b"rash"


@pytest.mark.parametrize("dead", [False, True])
@pytest.mark.parametrize("n", range(1, 6))
def test_a_text_that_fails_at_any_call_is_whole_or_absent(uri: str, n: int, dead: bool) -> None:
    # Put and write, and a copy: 3 calls. Then the first object is deleted; what isn't deleted is garbage.
    store, healthy = ArtifactStore(uri), ArtifactStore(uri)
    watch(store, Failing(n, dead=dead))
    if n <= 3:
        with pytest.raises(StoreError, match="can't be written to: the connection broke"):
            write_text(store)
        assert healthy.find(TEXT) is None
        if not dead:  # what was begun is deleted at once
            assert not [info for info in healthy.place.listed(healthy.root, recursive=True) if info.is_file]
    else:
        write_text(store)
        assert healthy.get(TEXT).read("t.txt").to_pybytes() == b"rash"
    assert list(healthy.problems()) == []
    collect_garbage(healthy, older_than_s=0, now=time.time() + 1)
    there = [info.path for info in healthy.place.listed(healthy.root, recursive=True) if info.is_file]
    assert there == ([] if n <= 3 else [f"{store.root}/{TEXT.name}.manifest.json"])


@pytest.mark.parametrize("n", range(1, 6))
def test_a_second_write_that_fails_leaves_the_first(uri: str, n: int) -> None:
    store, healthy = ArtifactStore(uri), ArtifactStore(uri)
    write(healthy)
    watch(store, Failing(n, dead=True))
    with pytest.raises(StoreError):
        write(store)

    assert healthy.get(KEY).table("t.parquet") == TABLE


def test_a_store_that_does_not_answer_is_no_damage(uri: str) -> None:
    def broken(call: str, path: str) -> None:
        if call in ("head", "get"):
            raise OSError("timeout")

    store, healthy = ArtifactStore(uri), ArtifactStore(uri)
    write(store)
    watch(store, broken)
    with pytest.raises(StoreError, match="can't be read: timeout"):
        collect_garbage(store, older_than_s=0, now=time.time() + 1, damaged=True)
    with pytest.raises(StoreError):
        store.find(KEY)

    assert healthy.get(KEY).table("t.parquet") == TABLE


@pytest.mark.parametrize("command", ["ls", "verify", "gc"])
def test_a_bucket_that_is_not_there_is_an_error_and_not_nothing(server: str, command: str) -> None:
    said = r2med("artifacts", command, "--store", s3_uri("nobucket/a", server))

    assert said.returncode == 2
    assert "there is no bucket 'nobucket'" in said.stderr
    assert said.stderr.count("\n") == 1
    assert SECRET not in said.stderr + said.stdout
    assert KEY_ID not in said.stderr + said.stdout


def test_a_folder_that_is_not_in_the_bucket_is_an_error_too(uri: str) -> None:
    with pytest.raises(ArtifactError, match="there is no such folder"):
        ArtifactStore(uri).require_folder()


def test_an_endpoint_that_is_down_is_one_line_within_a_minute() -> None:
    began = time.monotonic()
    said = r2med("artifacts", "ls", "--store", s3_uri("bucket/a", NOWHERE))

    assert said.returncode == 2
    assert said.stderr.startswith("error: store 's3://bucket/a?scheme=http&endpoint_override=127.0.0.1:9")
    assert said.stderr.count("\n") == 1
    assert SECRET not in said.stderr
    assert time.monotonic() - began < 60


@pytest.mark.parametrize(
    "wrong", ["s4://AKID:hush-hush@bucket", "s3://AKID:hush-hush@bucket?what=1", "s3://AKID:hush/hush@b"]
)
def test_a_wrong_uri_is_refused_without_its_secret(wrong: str) -> None:
    with pytest.raises(ArtifactError) as refused:
        open_place(wrong)

    assert "hush" not in str(refused.value)
    assert "hush" not in repr(refused.value.__cause__)


def test_a_store_is_printed_without_its_secret(uri: str) -> None:
    store = ArtifactStore(uri)

    assert SECRET not in repr(store) + repr(store.place) + store.place.shown
    write(store)
    assert SECRET not in repr(store.get(KEY))
    with store.filesystem.open_input_stream(f"{store.root}/{KEY.name}/manifest.json") as stream:
        assert SECRET.encode() not in stream.read()


def test_a_google_store_that_is_down_is_given_up_after_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    # pyarrow would try for 15 minutes, and a store for 30 seconds; the test waits for one.
    assert places._DEFAULTS["gs"] == "retry_limit_seconds=30"
    monkeypatch.setitem(places._DEFAULTS, "gs", "retry_limit_seconds=1")
    began = time.monotonic()
    with pytest.raises(StoreError, match="can't be read"):
        ArtifactStore(f"gs://anonymous@bucket/a?scheme=http&endpoint_override={NOWHERE}").find(KEY)

    assert time.monotonic() - began < 20
