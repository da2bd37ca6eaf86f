"""The README tells the truth about the tree, and every command in it is run by a test."""

import ast
import re
import textwrap
from pathlib import Path

import pytest
import yaml

from r2med_ray import open_workbench
from r2med_ray.distributed.ceilings import named_by
from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.models.catalog.table import models_table
from r2med_ray.settings.config_files import parse_config
from r2med_ray.systems import resolve
from tests.integration.test_readme_commands import COMMANDS, ELSEWHERE

REPOSITORY = Path(__file__).parents[2]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
MAP = (REPOSITORY / "r2med_ray" / "MAP.md").read_text(encoding="utf-8")
FLOW = ("demands", "pipeline", "systems", "recording", "results", "benchmark")
ROOMS = (
    "workbench",
    "corpus",
    "models",
    "rewriting",
    "indexing",
    "retrieval",
    "reranking",
    "evaluation",
    "reporting",
    "first_stages",
    "distributed",
    "serving",
    "live",
    "interop",
    "negatives",
    "cli",
    "settings",
    "storage",
)
CORE = (
    "types",
    "corpora",
    "approximations",
    "cuts",
    "readings",
    "first_stage",
    "protocols",
    "chat",
    "ranking",
    "vectors",
    "blame",
    "waiting",
    "activity",
    "errors",
    "secrets",
)
WIDTH = 30
PYTHON = [textwrap.dedent(block) for block in re.findall(r"```python\n(.*?)```", README, re.DOTALL)]
"""The README's blocks of Python: the public door, and a class that rewrites."""


def summary(path: Path) -> str:
    """Return the first sentence of a module's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert text, f"{path} has no docstring"
    return text.split("\n\n")[0].replace("\n", " ").strip().rstrip(".").split(". ")[0]


def tree(*, files: bool) -> str:
    """Return the tree of the package in the order of the flow. Each room and module has its first sentence.

    Args:
        files: whether the modules of the rooms are included.
    """
    package = REPOSITORY / "r2med_ray"
    lines = ["r2med_ray/"]

    def add(indent: int, name: str, path: Path) -> None:
        lines.append(f"{' ' * indent}{name:{WIDTH - indent}}{summary(path)}")

    def add_room(indent: int, folder: Path) -> None:
        add(indent, f"{folder.name}/", folder / "__init__.py")
        if not files:
            return
        for path in sorted(folder.glob("*.py")):
            if path.name != "__init__.py":
                add(indent + 2, path.name, path)
        for inner in sorted(path.parent for path in folder.glob("*/__init__.py")):
            add_room(indent + 2, inner)

    for name in FLOW:
        add(2, f"{name}.py", package / f"{name}.py")
    lines.append("")
    for room in ROOMS:
        add_room(2, package / room)
        if files:
            lines.append("")
    if not files:
        lines.append("")
    for name in CORE:
        add(2, f"{name}.py", package / f"{name}.py")
    return "\n".join(lines)


def between(marker: str, text: str = README) -> str:
    found = re.search(rf"<!-- {marker}:begin -->\n(.*?)\n?<!-- {marker}:end -->", text, re.DOTALL)
    assert found, f"there is no {marker} block"
    return found.group(1)


@pytest.mark.parametrize(
    ("text", "files"), [pytest.param(README, False, id="README"), pytest.param(MAP, True, id="MAP")]
)
def test_the_tree_is_shown_as_it_is(text: str, files: bool) -> None:
    expected = f"```\n{tree(files=files)}\n```"

    assert between("tree", text) == expected, f"put this between the markers:\n\n{expected}"


def test_the_table_of_models_is_the_catalogues() -> None:
    expected = models_table(load_catalog()).strip()

    assert between("models") == expected, f"put this between the markers:\n\n{expected}"


def test_no_module_is_missing_from_the_tree() -> None:
    package = REPOSITORY / "r2med_ray"

    assert {path.stem for path in package.glob("*.py")} == {*FLOW, *CORE, "__init__"}
    assert {path.parent.name for path in package.glob("*/__init__.py")} == set(ROOMS)


def commands() -> list[str]:
    """Return the lines of the README's shell blocks without their comments."""
    blocks = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    lines = [line.split("  #")[0].strip() for block in blocks for line in textwrap.dedent(block).splitlines()]
    return [line for line in lines if line]


def test_every_command_of_the_readme_is_run_somewhere() -> None:
    assert [command for command in commands() if command not in ELSEWHERE] == COMMANDS
    assert ELSEWHERE.keys() <= set(commands())
    for command, place in ELSEWHERE.items():
        assert place.words in (REPOSITORY / place.file).read_text(encoding="utf-8"), command


def test_the_lines_that_the_readme_shows_of_the_python_door_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    block, _ = PYTHON
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README.md", "exec"), {})

    # Both systems rank the only document about rubella first: 1 / log2(2) of an ideal 1 / log2(2).
    assert capsys.readouterr().out == "bm25 1.0\nhybrid 1.0\n"
    assert len(block.splitlines()) <= 12


def test_the_class_that_the_readme_shows_rewrites(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "readme_rewriter.py").write_text(PYTHON[1])
    monkeypatch.syspath_prepend(tmp_path)
    [row] = re.findall(r"`(\{name: first-passage, .*?\})`", README)
    (tmp_path / "models.yaml").write_text(f"methods: [{row.replace('my_module', 'readme_rewriter')}]")
    [rewriter] = re.findall(r"`rewriter: (\{method: first-passage, .*?\}\})`", README)

    with open_workbench(tmp_path / "store", models=tmp_path / "models.yaml") as bench:
        task = bench.task("t", documents={"d1": "acute pain", "d2": "chronic cough"}, queries={"q1": "a cough"})
        ranked = bench.rank(task, {"retriever": "bm25", "rewriter": yaml.safe_load(rewriter)})

    [expansion] = ranked.rewriting.queries[0].expansions
    assert (expansion.text, expansion.use) == ("chronic cough", "joined")


def test_every_file_that_the_readme_links_to_is_there() -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (REPOSITORY / target).exists(), target


def test_every_system_that_the_readme_shows_can_be_resolved() -> None:
    blocks = [yaml.safe_load(block) for block in re.findall(r"```yaml\n(systems:.*?)```", README, re.DOTALL)]

    assert blocks
    for block in blocks:
        assert resolve(parse_config({"name": "readme", "tasks": ["Demo-*"], **block})).systems


def test_the_nodes_of_a_cluster_that_the_readme_shows_are_understood() -> None:
    [block] = re.findall(r"```yaml\n(cluster:.*?)```", README, re.DOTALL)
    values = {"name": "readme", "tasks": ["Demo-*"], "systems": [{"name": "bm25", "retriever": "bm25"}]}

    assert named_by(parse_config(values | yaml.safe_load(block)).cluster).describe() == (
        "up to 10 node(s), 144 CPUs, 8 GPUs"
    )


def test_every_row_of_a_model_that_the_readme_shows_is_one_of_a_catalogue(tmp_path: Path) -> None:
    blocks = [textwrap.dedent(block) for block in re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)]
    rows = [block for block in blocks if not block.startswith(("systems:", "cluster:"))]

    (tmp_path / "models.yaml").write_text("".join(rows))
    catalog = load_catalog(tmp_path / "models.yaml")
    assert "my-encoder" in catalog.encoders
    assert not catalog.language_models["my-qwen"].is_served
    assert catalog.llm_rerankers["my-listwise"].language_model == "my-qwen"
