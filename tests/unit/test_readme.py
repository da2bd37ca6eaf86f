"""The README tells the truth about the tree, and every command in it is run by a test."""

import ast
import re
import textwrap
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
FLOW = ("pipeline", "systems", "capacity", "plan", "assembly", "benchmark", "cli")
ROOMS = (
    "corpus",
    "models",
    "rewriting",
    "indexing",
    "retrieval",
    "evaluation",
    "reporting",
    "distributed",
    "serving",
)
CORE = ("types", "protocols", "config", "registry", "ranking", "artifacts", "jsonl", "errors")
WIDTH = 27


def summary(path: Path) -> str:
    """The first sentence of a module's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    assert text, f"{path} has no docstring"
    return text.split("\n\n")[0].replace("\n", " ").strip().rstrip(".").split(". ")[0]


def tree() -> str:
    """The package in the order of the flow, each module with its first sentence."""
    package = REPOSITORY / "r2med_ray"
    lines = ["r2med_ray/"]

    def add(indent: int, name: str, path: Path) -> None:
        lines.append(f"{' ' * indent}{name:{WIDTH - indent}}{summary(path)}")

    for name in FLOW:
        add(2, f"{name}.py", package / f"{name}.py")
    for room in ROOMS:
        lines.append("")
        add(2, f"{room}/", package / room / "__init__.py")
        for path in sorted((package / room).glob("*.py")):
            if path.name != "__init__.py":
                add(4, path.name, path)
    lines.append("")
    for name in CORE:
        add(2, f"{name}.py", package / f"{name}.py")
    return "\n".join(lines)


def between(marker: str) -> str:
    found = re.search(rf"<!-- {marker}:begin -->\n(.*?)\n?<!-- {marker}:end -->", README, re.DOTALL)
    assert found, f"README.md has no {marker} block"
    return found.group(1)


def test_the_readme_shows_the_tree_as_it_is() -> None:
    assert between("tree") == f"```\n{tree()}\n```", f"put this between the markers:\n\n{tree()}"


def test_no_module_is_missing_from_the_tree() -> None:
    package = REPOSITORY / "r2med_ray"

    assert {path.stem for path in package.glob("*.py")} == {*FLOW, *CORE, "__init__"}
    assert {path.parent.name for path in package.glob("*/__init__.py")} == set(ROOMS)


def commands() -> list[str]:
    """The lines of the README's shell blocks, without their comments."""
    blocks = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    lines = [line.split("  #")[0].strip() for block in blocks for line in textwrap.dedent(block).splitlines()]
    return [line for line in lines if line]


def test_every_command_of_the_readme_is_run_somewhere() -> None:
    run_elsewhere = {
        "make demo": "tests/integration/test_readme_commands.py",
        "make test": ".ci/run",
        "ray job submit --working-dir . -- python jobs/full_benchmark.py": "tests/integration/test_job_submission.py",
    }
    run_here = (REPOSITORY / "tests/integration/test_readme_commands.py").read_text()

    for command in commands():
        assert command in run_elsewhere or "COMMANDS" in run_here, command
    for path in run_elsewhere.values():
        assert (REPOSITORY / path).is_file()


def test_every_file_that_the_readme_links_to_is_there() -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (REPOSITORY / target).exists(), target
