from pathlib import Path

from typer.testing import CliRunner

from r2med_ray.cli.main import app
from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.models.catalog.table import models_table


def cells(table: str) -> dict[str, dict[str, str]]:
    """Return name of a model → column → text."""
    lines = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()]
    return {line[1]: dict(zip(lines[0], line, strict=True)) for line in lines[2:]}


def test_every_row_of_the_catalogue_has_a_line_of_as_many_cells_as_the_head() -> None:
    catalog = load_catalog()
    table = cells(models_table(catalog))

    assert set(table) >= {*catalog.encoders, *catalog.rerankers}
    assert table["medcpt"] == {
        "kind": "encoder",
        "name": "medcpt",
        "model": "ncbi/MedCPT-Query-Encoder",
        "how": "cls, two checkpoints",
        "tokens": "64 / 512",
        "prompts": "",
        "licence": "public domain",
        "memory": "2 GB",
        "published as": "medcpt",
        "revision": "d83a36cc6b8e",
    }
    assert table["gritlm-7b"]["how"] == "mean, bidirectional, prompt left out"
    assert table["bmretriever-2b"]["prompts"] == "query, document"
    assert table["monobert-large"]["how"] == "cross-encoder"


def test_a_commit_that_is_missing_is_the_users_to_pin_unless_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "models.yaml").write_text(
        "encoders:\n"
        "  - {name: loose, model: o/m, pooling: cls, max_length: 9}\n"
        "  - {name: folder, model: ./weights, pooling: cls, max_length: 9}\n"
    )
    table = cells(models_table(load_catalog(tmp_path / "models.yaml")))

    revisions = [table[name]["revision"] for name in ("loose", "folder", "all-MiniLM-L6-v2")]
    assert revisions == ["yours to pin", "", ""]


def test_the_command_line_prints_it() -> None:
    printed = CliRunner().invoke(app, ["models", "--markdown"])

    assert printed.output == models_table(load_catalog()) + "\n"
