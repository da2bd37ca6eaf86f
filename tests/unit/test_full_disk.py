"""A disk that is full, or a store that fails at any call, leaves nothing half made, and the next run goes on."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from r2med_ray.errors import R2MedError
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Run
from r2med_ray.workbench.bench import Workbench, open_workbench
from tests.object_store import Failing, watch

LOAD = """
import resource, sys
from r2med_ray.cli.main import exit_on_user_error
from r2med_ray.workbench.bench import open_workbench

limit = int(sys.argv[2])
if limit:
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
def load():
    with open_workbench(sys.argv[1]) as bench:
        bench.task("Demo-Cases")
exit_on_user_error(load)
"""


def load(store: Path, *, longest_file: int = 0) -> "subprocess.CompletedProcess[str]":
    """Load a task in a process of its own, which may have a limit on the bytes of a file."""
    return subprocess.run(
        [sys.executable, "-c", LOAD, str(store), str(longest_file)], capture_output=True, text=True, check=False
    )


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 KiB, of which 8 KiB are free."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        (tmp_path / "full").write_bytes(bytes(56 * 1024))
        yield tmp_path
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_a_full_disk_ends_loading_with_the_folder_the_file_and_the_room(tiny_disk: Path) -> None:
    failed = load(tiny_disk / "store")

    # The only shard of Demo-Cases has more than 20,000 bytes. Two pages of 4 KiB are free.
    [error] = failed.stderr.splitlines()
    assert failed.returncode == 2
    assert error.startswith(f"error: store '{tiny_disk / 'store'}' can't be written to: [Errno 28] ")
    assert "No space left on device (corpus/" in error
    assert "/00000.parquet, " in error
    assert error.endswith(" bytes are free there)")
    assert [path for path in (tiny_disk / "store").rglob("*") if path.is_file()] == []

    (tiny_disk / "full").unlink()
    assert load(tiny_disk / "store").returncode == 0
    assert list(ArtifactStore(str(tiny_disk / "store")).problems()) == []


def test_a_file_that_grows_too_large_ends_loading_and_leaves_no_half_of_it(tmp_path: Path) -> None:
    failed = load(tmp_path / "store", longest_file=4096)

    [error] = failed.stderr.splitlines()
    assert failed.returncode == 2
    assert "File too large (corpus/" in error
    assert [path for path in (tmp_path / "store").rglob("*") if path.is_file()] == []


def rank(bench: Workbench) -> Run:
    task = bench.task(
        "mine", documents={f"d{n}": f"fever number {n % 5}" for n in range(20)}, queries={"q": "number 3"}
    )
    return bench.rank(task, {"retriever": "bm25"}).run


def rank_in(folder: Path, failing: Failing | None = None) -> Run:
    """Rank in a store of its own, whose file system may fail."""
    with open_workbench(folder) as bench:
        if failing is not None:
            watch(bench.store, failing)
        return rank(bench)


def stored(folder: Path) -> dict[str, list[str]]:
    """Return the name of every artefact → the digests of its files."""
    return {one.name: sorted(file.sha256 for file in one.files.values()) for one in ArtifactStore(str(folder)).all()}


# The corpus, the survey of its texts and the terms of its shard have two files each; their weights and the run have
# one. Each file and each manifest is a put and a write, and a manifest also is a move: 7 + 7 + 7 + 5 + 5 calls. Terms
# are made again if the store fails only once.
@pytest.mark.parametrize(
    ("dead", "failing_calls"), [(False, 7 + 7 + 5 + 5), (True, 7 + 7 + 7 + 5 + 5)], ids=["once", "from then on"]
)
def test_work_whose_store_fails_at_any_call_is_finished_by_the_next_with_the_same_bytes(
    tmp_path: Path, dead: bool, failing_calls: int
) -> None:
    undisturbed = rank_in(tmp_path / "undisturbed")
    wanted = stored(tmp_path / "undisturbed")
    failures: list[str] = []
    for n in range(1, 200):
        folder, failing = tmp_path / str(n), Failing(n, dead=dead)
        try:
            rank_in(folder, failing)
        except R2MedError as error:
            failures.append(str(error))
        assert list(ArtifactStore(str(folder)).problems()) == []
        assert rank_in(folder) == undisturbed
        assert stored(folder) == wanted
        if failing.left > 0:  # the work needs fewer calls than n
            break

    assert len(failures) == failing_calls
    assert all("can't be written to: the connection broke" in failure for failure in failures)
