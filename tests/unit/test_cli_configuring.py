"""`r2med config` and `r2med init`: what a user needs to write a benchmark file, from the models that check it."""

import json
from pathlib import Path

import jsonschema
import pytest
import yaml
from pydantic import BaseModel
from typer.testing import CliRunner

from r2med_ray.cli.main import app
from r2med_ray.errors import ConfigError
from r2med_ray.models.catalog.load import SECTIONS, SHIPPED
from r2med_ray.rewriting.own_methods import MethodRow
from r2med_ray.settings.config import BenchmarkConfig
from r2med_ray.settings.config_files import load_config
from r2med_ray.settings.describing import models_in
from tests.unit.corpus_files import BENCHMARK_FILES, write_r2med
from tests.unit.tasks import beir_folder

ROWS = [BenchmarkConfig, MethodRow, *(section.row_class for section in SECTIONS.values())]


def keys_of(model: type[BaseModel], known: set[type[BaseModel]]) -> list[tuple[str, str | None]]:
    """Return `Model.key` and meaning of every key of a model and of the models inside of it."""
    known.add(model)
    keys = [(f"{model.__name__}.{name}", field.description) for name, field in model.model_fields.items()]
    inner = {found for field in model.model_fields.values() for found, _ in models_in(field.annotation)}
    return keys + [key for each in sorted(inner - known, key=str) for key in keys_of(each, known)]


def config(*options: str) -> str:
    shown = CliRunner().invoke(app, ["config", *options])
    assert shown.exit_code == 0, shown.exception
    return shown.stdout


@pytest.mark.parametrize("model", ROWS, ids=lambda model: model.__name__)
def test_every_key_has_a_meaning(model: type[BaseModel]) -> None:
    assert [key for key, meaning in keys_of(model, set()) if not meaning] == []


def test_every_key_is_shown_with_kind_default_and_meaning() -> None:
    lines = config().splitlines()

    at = lines.index("systems[].rewriter.samples: whole number ≥ 1, default 1")
    assert lines[at + 1] == "    Texts per query, with the seeds `seed`, `seed` + 1, ..."
    assert "resources.rerank.timeout_s: number > 0, default 600.0" in lines
    assert "resources.encode.cpus: number > 0 or `auto`, default 'auto'" in lines
    assert "measures[].class: text, needed" in lines
    assert "name: text, needed" in lines
    at = lines.index("systems[].rewriter.agent.retriever: keys and values, needed")
    assert lines[at + 2] == "    Its keys are those of systems[].retriever."


def test_every_section_of_a_models_file_is_shown() -> None:
    lines = config("--models").splitlines()

    for section in (*SECTIONS, "methods"):
        assert any(line.startswith(f"{section}[].name: text, needed") for line in lines), section


@pytest.mark.parametrize("path", BENCHMARK_FILES, ids=lambda path: path.name)
def test_every_benchmark_file_of_the_package_fits_the_schema(path: Path) -> None:
    jsonschema.validate(yaml.safe_load(path.read_text(encoding="utf-8")), json.loads(config("--json-schema")))


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.yaml")), ids=lambda path: path.name)
def test_every_shipped_models_file_fits_the_schema(path: Path) -> None:
    schema = json.loads(config("--models", "--json-schema"))

    jsonschema.validate(yaml.safe_load(path.read_text(encoding="utf-8")), schema)


@pytest.mark.parametrize(
    "changes",
    [
        {"nmae": "typo"},
        {"systems": [{"name": "a", "retriever": {"k1": 1}}]},
        {"systems": [{"name": "a", "retriever": "bm25", "rewriter": {"method": "hyde", "samples": 0}}]},
    ],
)
def test_the_schema_refuses_what_the_file_would_be_refused_for(changes: dict[str, object]) -> None:
    good = {"name": "a", "tasks": ["Demo-*"], "systems": [{"name": "a", "retriever": {"candidates": "bm25"}}]}
    schema = json.loads(config("--json-schema"))

    jsonschema.validate(good, schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(good | changes, schema)


def collection(folder: Path, layout: str) -> Path:
    """Write a small collection."""
    return write_r2med(folder).folder if layout == "r2med" else beir_folder(folder)


@pytest.mark.parametrize("layout", ["r2med", "beir"])
def test_a_new_file_for_a_folder_can_be_planned_from_anywhere(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = collection(tmp_path / "data" / "my notes", layout)
    file = tmp_path / "benchmarks" / "mine.yaml"
    file.parent.mkdir()

    written = CliRunner().invoke(app, ["init", str(folder), "--output", str(file)])
    assert written.stdout.splitlines() == [str(file), f"next: r2med plan {file}"]
    assert yaml.safe_load(file.read_text())["tasks"][0]["path"] == "../data/my notes"
    monkeypatch.chdir(tmp_path)
    planned = CliRunner().invoke(app, ["plan", str(file), "--store", str(tmp_path / "store")])
    assert planned.exit_code == 0, planned.exception
    assert "my-notes" in planned.stdout


def test_a_file_that_is_there_is_not_replaced(tmp_path: Path) -> None:
    folder = collection(tmp_path / "data", "r2med")
    (tmp_path / "mine.yaml").write_text("mine")

    refused = CliRunner().invoke(app, ["init", str(folder), "--output", str(tmp_path / "mine.yaml")])
    assert isinstance(refused.exception, ConfigError)
    assert "File exists" in str(refused.exception)
    assert (tmp_path / "mine.yaml").read_text() == "mine"


def test_a_folder_of_no_layout_is_told_what_each_layout_needs(tmp_path: Path) -> None:
    caught = CliRunner().invoke(app, ["init", str(tmp_path), "--output", str(tmp_path / "mine.yaml")]).exception

    assert "has the files of no layout" in str(caught)
    assert "no query.jsonl or" not in str(caught)  # the corpus is looked for first
    assert "no corpus.jsonl or corpus.jsonl.gz, which the layout 'beir' needs" in str(caught)
    assert not (tmp_path / "mine.yaml").exists()


@pytest.mark.parametrize("name", ["2024", "true", "1e3", "null"])
def test_a_folder_whose_name_yaml_would_read_as_something_else_keeps_its_name(name: str, tmp_path: Path) -> None:
    collection(tmp_path / name, "r2med")
    file = tmp_path / "mine.yaml"

    assert CliRunner().invoke(app, ["init", str(tmp_path / name), "--output", str(file)]).exit_code == 0
    assert (load_config(file).name, load_config(file).tasks[0].name) == (name, name)  # type: ignore[union-attr]
