"""The commands of the README, one after the other, as a newcomer runs them; and the figures that the demo gives."""

import csv
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from r2med_ray.reporting.write import load_results
from tests.integration.jobs import REPOSITORY, environment
from tests.unit.test_readme import README, commands

pytestmark = [pytest.mark.ray, pytest.mark.serve, pytest.mark.timeout(1800)]

COMMANDS = [command for command in commands() if not command.startswith(("make ", "ray job submit"))]
"""`make demo` runs the first of them; CI runs `make test`; submission has a test of its own."""

GOLDEN = REPOSITORY / "tests" / "golden" / "demo.csv"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory, address: str) -> Path:
    """A folder that looks like the repository, so that results of a user's own are left alone.

    The first command, which is the demo, starts a cluster of its own; the others join the one of the tests.
    """
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("jobs", "r2med_ray"):
        (folder / name).symlink_to(REPOSITORY / name)
    for command in COMMANDS:
        where = {} if command is COMMANDS[0] else {"RAY_ADDRESS": address}
        finished = subprocess.run(
            ["bash", "-c", command], cwd=folder, env=environment(**where), capture_output=True, text=True, timeout=580
        )
        assert finished.returncode == 0, f"{command}\n{finished.stdout}\n{finished.stderr}"
    return folder


def test_every_command_ends_well(checkout: Path) -> None:
    assert {path.name for path in (checkout / "results").iterdir()} == {"demo", "posts"}
    assert shutil.which("python", path=environment()["PATH"])


def test_the_demo_gives_the_figures_that_are_kept_and_shown(checkout: Path) -> None:
    record = load_results(checkout / "results" / "demo")
    ours = {(result.system, result.task): result.evaluation.means["nDCG@10"] for result in record.results}
    with GOLDEN.open() as stream:
        rows = list(csv.DictReader(stream))

    assert {(row["system"], row["task"]) for row in rows} == ours.keys()
    for row in rows:
        # BM25 is exact; a vector's last bits depend on the processor, which can swap neighbours.
        tolerance = 1e-9 if row["system"].startswith("bm25") else 0.02
        assert ours[row["system"], row["task"]] == pytest.approx(float(row["nDCG@10"]), abs=tolerance), row
    for system in {row["system"] for row in rows}:
        assert re.search(rf"^\| \**{re.escape(system)}\** ", README, re.MULTILINE), f"README.md lacks {system}"


def test_the_demo_shows_that_reasoning_helps_where_words_do_not(checkout: Path) -> None:
    record = load_results(checkout / "results" / "demo")
    for task in ("Demo-Posts", "Demo-Evidence", "Demo-Cases"):
        ndcg = {r.system: r.evaluation.means["nDCG@10"] for r in record.results if r.task == task}
        assert ndcg["bm25"] < ndcg["bm25+hyde"]
