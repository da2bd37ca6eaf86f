"""The command that serves the search page: it ends when it is interrupted, or with an error at once."""

import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tests.integration.jobs import REPOSITORY, environment

pytestmark = [pytest.mark.ray, pytest.mark.serve, pytest.mark.timeout(1200)]

R2MED = str(Path(sys.executable).parent / "r2med")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_until_it_is_interrupted(tmp_path: Path, number: int) -> None:
    (tmp_path / "jobs").symlink_to(REPOSITORY / "jobs")
    command = [R2MED, "serve", "jobs/full_benchmark.yaml", "--system", "bm25", "--task", "Demo-Posts", "--port", "0"]
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment(), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        found = re.search(r"http://\S+/", process.stdout.readline())
        assert found, process.communicate()
        with urllib.request.urlopen(f"{found[0]}api/search?question=fever&k=1", timeout=120) as answer:
            assert len(json.load(answer)["retrieved"][0]["passages"]) == 1
        process.send_signal(number)
        _, said = process.communicate(timeout=300)

    assert process.returncode == 0, said
    assert "interrupted: the search page ends, and what is stored stays" in said
    assert "Traceback" not in said


def refused(folder: Path, *options: str) -> str:
    command = [R2MED, "serve", *options]
    ended = subprocess.run(command, cwd=folder, env=environment(), text=True, capture_output=True, timeout=300)
    assert ended.returncode == 2, ended.stderr
    return ended.stderr


def test_a_port_in_use_is_named_before_anything_starts(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        said = refused(tmp_path, str(REPOSITORY / "jobs" / "full_benchmark.yaml"), "--port", str(port))

    assert said == (
        f"error: 127.0.0.1:{port} can't be served at: Address already in use. Name another port with `--port`, 0 for "
        "a free one\n"
    )


def test_a_name_that_the_benchmark_lacks_is_told_before_anything_starts(tmp_path: Path) -> None:
    said = refused(tmp_path, str(REPOSITORY / "jobs" / "full_benchmark.yaml"), "--port", "0", "--system", "mini")

    assert said.startswith("error: the benchmark has no system 'mini'. Did you mean 'minilm'? Known: bm25, ")


def test_a_benchmark_file_without_a_task_is_refused(tmp_path: Path) -> None:
    (tmp_path / "none.yaml").write_text("{name: none, tasks: [], systems: [{name: bm25, retriever: bm25}]}")

    assert "tasks" in refused(tmp_path, "none.yaml", "--port", "0")
