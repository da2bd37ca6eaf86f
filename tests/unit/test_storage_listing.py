"""The list of a store says what each artefact is for, and artefacts are removed by name."""

import os
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from r2med_ray import open_workbench
from r2med_ray.cli.main import app
from r2med_ray.errors import ConfigError
from r2med_ray.storage.artifacts import ArtifactStore


@pytest.fixture
def searched(tmp_path: Path) -> str:
    """A store in which two tasks were searched by BM25, at a date that is known."""
    with open_workbench(tmp_path / "store") as bench:
        for name, text in (("eyes", "a red eye"), ("ears", "an ear rings")):
            task = bench.task(name, documents={"d1": text}, queries={"q1": text})
            bench.find(task, "bm25", k=1)
    for manifest in (tmp_path / "store").rglob("manifest.json"):
        os.utime(manifest, (86_400, 86_400))
    return str(tmp_path / "store")


def shown(store: str, *options: str) -> list[str]:
    """Return the lines of the list, with the digests and the sizes left out."""
    lines = CliRunner().invoke(app, ["artifacts", "ls", "--store", store, *options]).stdout.splitlines()
    return [re.sub(r"/\S+", "/…", " ".join(line.split()[1:])) for line in lines]


def test_the_list_says_date_task_and_model(searched: str) -> None:
    lines = shown(searched)

    assert lines[-1] == f"in {len(lines) - 1} artefacts"
    assert {line for line in lines if "terms/" in line} == {
        "1970-01-02 00:00 terms/… eyes, bm25",
        "1970-01-02 00:00 terms/… ears, bm25",
    }
    assert {line for line in lines if "corpus/" in line} == {
        "1970-01-02 00:00 corpus/… eyes",
        "1970-01-02 00:00 corpus/… ears",
    }


@pytest.mark.parametrize(
    ("options", "kinds"),
    [
        pytest.param(["--task", "ears", "--kind", "terms"], ["terms"], id="task-and-kind"),
        pytest.param(["--model", "bm*", "--task", "e*s"], ["bm25", "bm25", "terms", "terms"], id="globs"),
        pytest.param(["--model", "minilm"], [], id="nothing"),
    ],
)
def test_the_list_can_be_filtered(options: list[str], kinds: list[str], searched: str) -> None:
    names = [line.split()[2].split("/")[0] for line in shown(searched, *options)[:-1]]

    assert [name for name in names if name != "run"] == kinds


def test_what_is_named_is_removed_and_nothing_else(searched: str) -> None:
    store = ArtifactStore(searched)
    before = store.names()
    arguments = ["artifacts", "rm", "terms/*", "--store", searched]

    told = CliRunner().invoke(app, [*arguments, "--dry-run"]).stdout.splitlines()
    assert told == [f"would remove {name}" for name in before if name.startswith("terms/")]
    assert store.names() == before
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert store.names() == [name for name in before if not name.startswith("terms/")]


def test_a_name_that_is_none_removes_nothing(searched: str) -> None:
    before = ArtifactStore(searched).names()
    caught = CliRunner().invoke(app, ["artifacts", "rm", "terms/*", "vectors/*", "--store", searched]).exception

    assert isinstance(caught, ConfigError)
    assert str(caught) == f"no artefact 'vectors/*' is in {searched}; `r2med artifacts ls` lists all"
    assert ArtifactStore(searched).names() == before


def test_a_damaged_artefact_can_be_removed_by_its_name(searched: str) -> None:
    store = ArtifactStore(searched)
    [damaged, *_] = before = store.names()
    (Path(searched) / damaged / "manifest.json").write_text("{")

    assert CliRunner().invoke(app, ["artifacts", "rm", damaged, "--store", searched]).exit_code == 0
    assert store.names() == before[1:]
