"""Runs the commands of README.md and docs/ one after the other, as a newcomer does, and checks the demo's figures."""

import csv
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from r2med_ray.reporting.write import load_results
from tests.integration.jobs import REPOSITORY, environment

pytestmark = [pytest.mark.ray, pytest.mark.serve, pytest.mark.timeout(1800)]

DEMO = "python jobs/full_benchmark.py"
COMMANDS = [
    "mkdir -p mine",
    """echo '{"id": "d1", "text": "Rubella in pregnancy harms the heart of the child."}' > mine/corpus.jsonl""",
    """echo '{"id": "d2", "text": "Asthma narrows the airways."}' >> mine/corpus.jsonl""",
    """echo '{"id": "q1", "text": "Which infection of the mother causes a heart defect?"}' > mine/query.jsonl""",
    """echo '{"q_id": "q1", "p_id": "d1", "score": 1}' > mine/qrels.jsonl""",
    "r2med init mine",
    "r2med plan mine.yaml",
    "r2med run mine.yaml",
    DEMO,
    "r2med run jobs/full_benchmark.yaml --set 'tasks=[Demo-Posts]' --output results/posts",
    "r2med config",
    "r2med plan jobs/full_benchmark.yaml",
    "r2med show jobs/full_benchmark.yaml --task Demo-Posts --system hybrid+maxsim --query 1",
    "r2med tasks --generations",
    "r2med models",
    "r2med evaluate --run results/demo/runs/bm25/Demo-Posts.trec"
    " --qrels r2med_ray/corpus/demo/Demo-Posts/qrels.jsonl",
    "r2med compare results/demo --system bm25 --system minilm",
    "r2med compare results/demo --format latex",
    "r2med plot results/demo demo.svg",
    "r2med report results/demo",
    "r2med artifacts ls",
    "r2med status store",
    "r2med run jobs/hard_negatives.yaml",
    "python jobs/mine_hard_negatives.py",
    "python jobs/generate_hard_negatives.py --dry-run",
    "r2med nano build Demo-Posts --output nano",
    "python jobs/full_benchmark.py jobs/r2med.yaml --dry-run",
    "r2med plan jobs/reproduce_r2med.yaml",
    "r2med explain compat",
    "r2med compare results/demo --published",
]
"""The commands in the shell blocks of README.md and docs/, in order. `tests/unit/test_readme.py` compares both."""


class Elsewhere(NamedTuple):
    """A place that runs a command of README.md or docs/ which the tests of this file can't run."""

    why: str
    file: str
    """The path of the place in the repository."""

    words: str
    """Text that is in that file because the file runs the command."""


AUDIT = "python jobs/generate_hard_negatives.py --audit hard_negatives/demo_negatives/Demo-Evidence/round-1/audit.csv"

ELSEWHERE = {
    "make demo": Elsewhere(
        "installs everything into an environment of its own, and then runs the demo",
        "Makefile",
        f"$(BIN)/{DEMO}\n",
    ),
    "make test": Elsewhere("runs these tests", ".ci/run", "\nmake test\n"),
    "r2med serve jobs/full_benchmark.yaml": Elsewhere(
        "serves until it is interrupted",
        "tests/integration/test_serve_command.py",
        'command = [R2MED, "serve", "jobs/full_benchmark.yaml", ',
    ),
    "ray job submit --working-dir . -- python jobs/full_benchmark.py": Elsewhere(
        "needs a cluster that takes jobs",
        "tests/integration/test_job_submission.py",
        'RAY, "job", "submit", "--working-dir", REPOSITORY, "--", "python", "jobs/full_benchmark.py",',
    ),
    "python jobs/generate_hard_negatives.py": Elsewhere(
        "needs vLLM and a model",
        "tests/integration/test_generate_hard_negatives_job.py",
        'GENERATE = "python jobs/generate_hard_negatives.py"\n',
    ),
    AUDIT: Elsewhere(
        "needs a pack with a sheet that a person has filled in",
        "tests/integration/test_generate_hard_negatives_job.py",
        '"--audit"',
    ),
}

GOLDEN = REPOSITORY / "tests" / "golden" / "demo.csv"
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory, address: str) -> Path:
    """A folder that looks like the repository, so that the results of a user are left alone.

    The demo starts a cluster of its own. The other commands join the cluster of the tests.
    """
    folder = tmp_path_factory.mktemp("checkout")
    for name in ("jobs", "r2med_ray"):
        (folder / name).symlink_to(REPOSITORY / name)
    for command in COMMANDS:
        where = {} if command == DEMO else {"RAY_ADDRESS": address}
        finished = subprocess.run(
            ["bash", "-c", command], cwd=folder, env=environment(**where), capture_output=True, text=True, timeout=580
        )
        assert finished.returncode == 0, f"{command}\n{finished.stdout}\n{finished.stderr}"
    return folder


def test_every_command_ends_well(checkout: Path) -> None:
    assert {path.name for path in (checkout / "results").iterdir()} == {"mine", "demo", "posts", "hard_negatives"}
    assert shutil.which("python", path=environment()["PATH"])


def test_the_demo_gives_the_figures_that_are_kept_and_shown(checkout: Path) -> None:
    record = load_results(checkout / "results" / "demo")
    ours = {(result.system, result.task): result.evaluation.means["nDCG@10"] for result in record.results}
    with GOLDEN.open() as stream:
        rows = list(csv.DictReader(stream))

    assert {(row["system"], row["task"]) for row in rows} == ours.keys()
    for row in rows:
        # BM25 is exact. The last bits of a vector depend on the processor, which can swap two neighbours.
        tolerance = 1e-9 if row["system"].startswith("bm25") else 0.02
        assert ours[row["system"], row["task"]] == pytest.approx(float(row["nDCG@10"]), abs=tolerance), row
    for system in {row["system"] for row in rows}:
        assert re.search(rf"^\| \**{re.escape(system)}\** ", README, re.MULTILINE), f"README.md lacks {system}"


def test_the_demo_shows_that_reasoning_helps_where_words_do_not(checkout: Path) -> None:
    record = load_results(checkout / "results" / "demo")
    for task in ("Demo-Posts", "Demo-Evidence", "Demo-Cases"):
        ndcg = {r.system: r.evaluation.means["nDCG@10"] for r in record.results if r.task == task}
        assert ndcg["bm25"] < ndcg["bm25+hyde"]
