"""Object stores for tests: servers for S3 and GCS, and file systems that count, or fail, requests."""

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
from pyarrow import fs

from r2med_ray.storage.artifacts import ArtifactStore

KEY_ID, SECRET = "AKIDEXAMPLE0001", "wJalrXUtnFEMI-K7MDENG"
PAGE = 1000
"""Names that S3 returns per request."""


_S3 = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""
_GCS = """
import sys
from gcp_storage_emulator.server import create_server
server = create_server("127.0.0.1", int(sys.argv[1]), in_memory=True, default_bucket="bucket")
server.start()
print(sys.argv[1], flush=True)
sys.stdin.read()
"""


@contextmanager
def s3_server() -> Iterator[str]:
    """Run moto's server with a bucket `bucket`, and yield its address."""
    with _running(_S3) as address:
        make, _ = fs.FileSystem.from_uri(s3_uri("bucket", address) + "&allow_bucket_creation=true")
        make.create_dir("bucket")
        yield address


@contextmanager
def gcs_server() -> Iterator[str]:
    """Run gcp-storage-emulator with a bucket `bucket`, and yield its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with _running(_GCS, str(port)) as address:
        yield address


@contextmanager
def _running(program: str, *arguments: str) -> Iterator[str]:
    """Run a server that prints its port, and yield its address.

    It has a process of its own: a file of pyarrow that is given up waits for the server while it holds Python's lock.
    """
    command = [sys.executable, "-c", program, *arguments]
    quiet = subprocess.DEVNULL
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=quiet) as server:
        try:
            assert server.stdout is not None
            lines = (line.strip() for line in server.stdout)
            yield f"127.0.0.1:{next(line for line in lines if line.isdigit()).decode()}"
        finally:
            server.kill()


def s3_uri(path: str, address: str) -> str:
    """Return the URI of a folder at a server, with credentials in it."""
    return f"s3://{KEY_ID}:{SECRET}@{path}?scheme=http&endpoint_override={address}&region=us-east-1"


class Requests(fs.FileSystemHandler):
    """Passes calls on to another file system, and is told of each before it is made.

    Args:
        inner: does the work.
        before: gets the name of the call and the path. It may raise.
    """

    def __init__(self, inner: fs.FileSystem, before: Callable[[str, str], None]) -> None:
        self._inner = inner
        self._before = before

    def get_type_name(self) -> str:
        return "requests"

    def normalize_path(self, path: str) -> str:
        return path

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        self._before("info", paths[0])
        return list(self._inner.get_file_info(paths))

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        found = self._inner.get_file_info(selector)
        for _ in range(max(1, -(-len(found) // PAGE))):
            self._before("list", selector.base_dir)
        return list(found)

    def create_dir(self, path: str, recursive: bool) -> None:
        self._before("create_dir", path)
        self._inner.create_dir(path, recursive=recursive)

    def delete_dir(self, path: str) -> None:
        self._before("delete", path)
        self._inner.delete_dir(path)

    def delete_dir_contents(self, path: str, missing_dir_ok: bool = False) -> None:
        raise NotImplementedError

    def delete_root_dir_contents(self) -> None:
        raise NotImplementedError

    def delete_file(self, path: str) -> None:
        self._before("delete", path)
        self._inner.delete_file(path)

    def move(self, src: str, dest: str) -> None:
        self._before("move", src)
        self._inner.move(src, dest)

    def copy_file(self, src: str, dest: str) -> None:
        self._before("copy", src)
        self._inner.copy_file(src, dest)

    def open_input_stream(self, path: str) -> Any:
        self._before("head", path)
        stream = self._inner.open_input_stream(path)
        self._before("get", path)
        return stream

    def open_input_file(self, path: str) -> Any:
        self._before("head", path)
        stream = self._inner.open_input_file(path)
        self._before("get", path)
        return stream

    def open_output_stream(self, path: str, metadata: Any) -> Any:
        self._before("put", path)
        return pa.PythonFile(_Sink(self._inner.open_output_stream(path), path, self._before), mode="w")

    def open_append_stream(self, path: str, metadata: Any) -> Any:
        raise NotImplementedError


class _Sink:
    """Stores on closing what it was given, as an object store does, even if writing has failed."""

    def __init__(self, stream: Any, path: str, before: Callable[[str, str], None]) -> None:
        self._stream, self._path, self._before = stream, path, before
        self.closed = False

    def write(self, content: Any) -> int:
        view = memoryview(content).cast("B")
        self._stream.write(view[: len(view) // 2])
        self._before("write", self._path)  # half of it has gone
        self._stream.write(view[len(view) // 2 :])
        return len(view)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._stream.close()


def watch(store: ArtifactStore, before: Callable[[str, str], None]) -> None:
    """Tell a function of each request of a store before it is made, as `Requests` does."""
    object.__setattr__(store.place, "filesystem", fs.PyFileSystem(Requests(store.filesystem, before)))


class Clock:
    """Counts the requests of a file system and how long they would take at 30 ms each; nothing waits.

    Requests of the main thread come one after the other, those of other threads `readers` at once.
    """

    def __init__(self, readers: int) -> None:
        self._readers = readers
        self._lock = threading.Lock()
        self.calls: list[tuple[str, str]] = []
        self.seconds = 0.0

    def __call__(self, call: str, path: str) -> None:
        alone = threading.current_thread() is threading.main_thread()
        with self._lock:
            if call not in ("create_dir", "write"):  # object stores have no folders; a small file is one request
                self.calls.append((call, path))
                self.seconds += 0.03 / (1 if alone else self._readers)


class Failing:
    """Fails the n-th call that changes something, as a broken connection does, and all after it if it is `dead`."""

    def __init__(self, n: int, *, dead: bool) -> None:
        self.left, self._dead = n, dead

    def __call__(self, call: str, path: str) -> None:
        if call in ("put", "write", "copy", "move", "delete"):
            self.left -= 1
            if self.left == 0 or (self._dead and self.left < 0):
                raise OSError(f"the connection broke at {call}")
