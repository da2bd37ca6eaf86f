"""README and docs tell the truth about the tree and the models, and every command in them is run by a test."""

import ast
import re
import subprocess
import textwrap
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from r2med_ray import open_workbench
from r2med_ray.cli.main import app
from r2med_ray.distributed.ceilings import named_by
from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.models.catalog.table import models_table
from r2med_ray.settings.config_files import parse_config
from r2med_ray.systems import resolve
from tests.integration.test_readme_commands import COMMANDS, ELSEWHERE

REPOSITORY = Path(__file__).parents[2]
PAGES = {
    path: path.read_text(encoding="utf-8")
    for path in (REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md")))
}
README = PAGES[REPOSITORY / "README.md"]
TEXT = "\n".join(PAGES.values())
"""README.md and then every page of docs/, by name."""

MAP = (REPOSITORY / "r2med_ray" / "MAP.md").read_text(encoding="utf-8")
FLOW = ("demands", "pipeline", "first_runs", "systems", "recording", "results", "benchmark")
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
    "ranking_arrays",
    "vectors",
    "sentences",
    "blame",
    "waiting",
    "activity",
    "errors",
    "secrets",
)
WIDTH = 30


def blocks(language: str) -> list[str]:
    """Return the blocks of a language, in order and without the indent of the list that they stand in."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^\1```", TEXT, re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(block) for _, block in found]


PYTHON = blocks("python")
"""The public door, and a class that rewrites."""

OWN = next(block for block in blocks("yaml") if "\nname:" in block)
"""The complete benchmark file."""


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


def between(marker: str, text: str = TEXT) -> str:
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
    """Return the lines of the shell blocks without their comments."""
    lines = [re.split(r"\s#", line)[0].strip() for block in blocks("sh") for line in block.splitlines()]
    return [line for line in lines if line]


def test_every_command_of_the_pages_is_run_somewhere() -> None:
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
    [row] = re.findall(r"`(\{name: first-passage, .*?\})`", TEXT)
    (tmp_path / "models.yaml").write_text(f"methods: [{row.replace('my_module', 'readme_rewriter')}]")
    [rewriter] = re.findall(r"`rewriter: (\{method: first-passage, .*?\}\})`", TEXT)

    with open_workbench(tmp_path / "store", models=tmp_path / "models.yaml") as bench:
        task = bench.task("t", documents={"d1": "acute pain", "d2": "chronic cough"}, queries={"q1": "a cough"})
        ranked = bench.rank(task, {"retriever": "bm25", "rewriter": yaml.safe_load(rewriter)})

    [expansion] = ranked.rewriting.queries[0].expansions
    assert (expansion.text, expansion.use) == ("chronic cough", "joined")


def anchors(page: Path) -> set[str]:
    """Return what a link to a section of a page may end in, as GitHub makes it of a heading."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [*PAGES, REPOSITORY / "CONTRIBUTING.md"], ids=lambda page: page.name)
def test_every_file_and_every_section_that_a_page_links_to_is_there(page: Path) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)", page.read_text(encoding="utf-8")):
        there = page.parent / target if target else page
        assert there.exists(), target
        assert not anchor or anchor in anchors(there), (target, anchor)


def test_the_readme_leads_to_every_page_of_docs() -> None:
    for page in PAGES.keys() - {REPOSITORY / "README.md"}:
        assert f"](docs/{page.name})" in README, page.name


def test_the_benchmark_file_that_the_readme_shows_is_the_one_that_its_commands_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    start, end = COMMANDS.index("mkdir -p mine"), COMMANDS.index("r2med init mine")
    subprocess.run(["bash", "-ec", "\n".join(COMMANDS[start:end])], check=True)

    assert CliRunner().invoke(app, COMMANDS[end].split()[1:]).exit_code == 0
    assert (tmp_path / "mine.yaml").read_text() == OWN
    assert [system.name for system in resolve(parse_config(yaml.safe_load(OWN))).systems] == [
        "bm25",
        "minilm",
        "hybrid",
    ]


def test_every_system_that_the_pages_show_can_be_resolved() -> None:
    shown = [yaml.safe_load(block) for block in blocks("yaml") if block.startswith("systems:")]

    assert shown
    for block in shown:
        assert resolve(parse_config({"name": "readme", "tasks": ["Demo-*"], **block})).systems


def test_the_nodes_of_a_cluster_that_the_readme_shows_are_understood() -> None:
    [block] = [block for block in blocks("yaml") if block.startswith("cluster:")]
    values = {"name": "readme", "tasks": ["Demo-*"], "systems": [{"name": "bm25", "retriever": "bm25"}]}

    assert named_by(parse_config(values | yaml.safe_load(block)).cluster).describe() == (
        "up to 10 node(s), 144 CPUs, 8 GPUs"
    )


def test_every_row_of_a_model_that_the_pages_show_is_one_of_a_catalogue(tmp_path: Path) -> None:
    rows: dict[str, list[object]] = {}
    for block in blocks("yaml"):
        if block != OWN and not block.startswith(("systems:", "cluster:")):
            for section, listed in yaml.safe_load(block).items():
                rows.setdefault(section, []).extend(listed)

    (tmp_path / "models.yaml").write_text(yaml.safe_dump(rows))
    catalog = load_catalog(tmp_path / "models.yaml")
    assert "my-encoder" in catalog.encoders
    assert catalog.encoders["qwen3-embedding-8b-vllm"].engine == "vllm"
    assert not catalog.language_models["my-qwen"].is_served
    assert catalog.llm_rerankers["my-listwise"].language_model == "my-qwen"
