"""Launcher files, pins and page of `cluster/`: Ray takes them, an idle cluster costs its head, no file has a key."""

import re
import shlex
import sys
from typing import Any

import click
import jsonschema
import pytest
import yaml
from ray.autoscaler._private.providers import _get_default_config
from ray.autoscaler._private.util import prepare_config, validate_config
from ray.scripts.scripts import cli as ray_cli

from jobs.full_benchmark import arguments
from tests.unit.cluster_files import (
    CLUSTER,
    FILES,
    LAUNCHER_FILES,
    PIN,
    PROJECT,
    REPOSITORY,
    commands,
    documents,
    pins,
    text_of,
)  # fmt: skip

SECRETS = (
    r"\bAKIA[0-9A-Z]{16}\b",  # AWS
    r"\bAIza[\w-]{30}",  # Google
    r"\bhf_[A-Za-z0-9]{20}",  # Hugging Face
    r"\bsk-[A-Za-z0-9_-]{20}",  # OpenAI
    r"-----BEGIN [A-Z ]*PRIVATE KEY",
    r"(?i)password\s*[:=]",
    r"://[^/\s@]+:[^/\s@]+@",  # a URL with a user and a password
)
FLOPS_OF_AN_H100 = 400e12
"""The rate that README.md takes: about half of the 798 TFLOP/s of a large matrix product."""


def launcher(name: str) -> dict[str, Any]:
    (config,) = documents(name)
    return config


def words(lines: list[str]) -> list[list[str]]:
    """Return commands as words: how a line is broken doesn't matter."""
    return [line.split() for line in lines]


@pytest.mark.parametrize("name", LAUNCHER_FILES)
def test_a_launcher_file_fits_rays_own_schema(name: str) -> None:
    validate_config(prepare_config(launcher(name)))


@pytest.mark.parametrize("name", LAUNCHER_FILES)
def test_a_misspelled_key_of_a_node_type_is_refused_by_rays_schema(name: str) -> None:
    config = launcher(name)
    config["available_node_types"]["gpu"]["max_worker"] = 2

    with pytest.raises(jsonschema.ValidationError, match="max_worker"):
        validate_config(prepare_config(config))


@pytest.mark.parametrize("name", LAUNCHER_FILES)
def test_all_nodes_of_all_types_may_run_at_once(name: str) -> None:
    config = launcher(name)

    # Ray's schema doesn't compare these numbers: above the cluster's ceiling, a type's own ceiling would be a lie
    assert config["max_workers"] == sum(kind["max_workers"] for kind in config["available_node_types"].values())


@pytest.mark.parametrize("name", LAUNCHER_FILES)
def test_an_idle_cluster_of_the_launcher_costs_its_head_alone(name: str) -> None:
    config = launcher(name)
    kinds = config["available_node_types"]

    assert {kind["min_workers"] for kind in kinds.values()} == {0}
    assert 0 < config["idle_timeout_minutes"] <= 5
    assert config["provider"]["cache_stopped_nodes"] is False
    head = kinds[config["head_node_type"]]
    assert head["resources"] == {"CPU": 0}
    assert "guestAccelerators" not in head["node_config"]


def is_spot(node_config: dict[str, Any]) -> bool:
    aws = node_config.get("InstanceMarketOptions", {}).get("MarketType") == "spot"
    gcp = any(entry.get("provisioningModel") == "SPOT" for entry in node_config.get("scheduling", []))
    return aws or gcp


@pytest.mark.parametrize("name", LAUNCHER_FILES)
def test_gpu_nodes_are_spot_nodes_first_and_on_demand_where_there_are_none(name: str) -> None:
    kinds = launcher(name)["available_node_types"]

    with_gpus = {key for key, kind in kinds.items() if kind["resources"].get("GPU")}
    spot = {key for key, kind in kinds.items() if is_spot(kind["node_config"])}
    assert with_gpus == {"gpu", "gpu_spot"}
    assert spot == {"gpu_spot"}
    assert kinds["gpu_spot"]["priority"] > kinds["gpu"].get("priority", 0)  # a higher number comes first
    assert kinds["gpu_spot"]["resources"] == kinds["gpu"]["resources"]
    assert {key: kinds[key]["labels"]["ray.io/market-type"] for key in with_gpus} == {
        "gpu": "on-demand",
        "gpu_spot": "spot",
    }


@pytest.mark.parametrize("name", LAUNCHER_FILES)
def test_the_start_commands_are_rays_own_but_for_a_dashboard_on_loopback(name: str) -> None:
    config = launcher(name)
    rays = _get_default_config(config["provider"])

    assert words(config["worker_start_ray_commands"]) == words(rays["worker_start_ray_commands"])
    wanted = [line.replace("0.0.0.0", "127.0.0.1") for line in rays["head_start_ray_commands"]]
    assert words(config["head_start_ray_commands"]) == words(wanted)
    assert "--dashboard-host=127.0.0.1" in wanted[-1]


@pytest.mark.parametrize("name", LAUNCHER_FILES)
def test_jobs_are_taken_only_with_a_token_that_lies_outside_the_file(name: str) -> None:
    config = launcher(name)

    given = {line.removeprefix("--env ") for line in config["docker"]["run_options"] if line.startswith("--env ")}
    assert given == {"RAY_AUTH_MODE=token", "RAY_AUTH_TOKEN_PATH=/home/ray/r2med_auth_token"}
    assert config["file_mounts"]["/home/ray/r2med_auth_token"] == "~/.ray/auth_token"


@pytest.mark.parametrize("name", LAUNCHER_FILES)
def test_every_node_installs_the_wheel_of_this_version_under_the_heads_versions(name: str) -> None:
    config = launcher(name)
    [wheel] = [line for line in config["setup_commands"] if ".whl" in line]

    assert wheel.startswith("pip install --constraint /home/ray/r2med/versions.txt ")
    assert wheel.endswith(f"'/home/ray/r2med/r2med_ray-{PROJECT['version']}-py3-none-any.whl[llm]'")
    assert "llm" in PROJECT["optional-dependencies"]
    assert config["file_mounts"]["/home/ray/r2med"] == "dist"
    assert config["head_setup_commands"][-1].endswith("> /home/ray/r2med/versions.txt")
    assert config["worker_setup_commands"] == []


@pytest.mark.parametrize("name", FILES)
def test_a_pin_of_a_file_is_the_pin_of_the_project(name: str) -> None:
    rays_own = {pin for kind in ("aws", "gcp") for line in _default_setup(kind) for pin in PIN.findall(line)}

    named = set(PIN.findall(text_of(name))) - rays_own
    assert named <= set(pins().items())
    assert ("ray", pins()["ray"]) in named


def _default_setup(kind: str) -> list[str]:
    """Return what Ray itself installs on a head, so that the head can start nodes."""
    commands: list[str] = _get_default_config({"type": kind})["head_setup_commands"]
    return commands


@pytest.mark.parametrize("name", [name for name in FILES if name != "README.md"])
def test_torch_is_installed_by_its_pin_before_anything_that_needs_it(name: str) -> None:
    installs = [line for line in text_of(name).splitlines() if "pip install" in line and "boto3" not in line]
    installs = [line for line in installs if "google-api" not in line]

    for first, second in zip(
        installs[::2], installs[1::2], strict=True
    ):  # a pair in each launcher file and each target
        assert first.endswith(f"torch=={pins()['torch']}")
        assert "[llm" in second


@pytest.mark.parametrize("name", FILES)
def test_every_file_names_one_version_of_ray_of_python_and_of_this_package(name: str) -> None:
    text = text_of(name)

    rays = re.findall(r"rayproject/ray:([\d.]+)|rayVersion: \"([\d.]+)\"|ray\.__version__ == \"([\d.]+)\"", text)
    assert {version for found in rays for version in found if version} <= {pins()["ray"]}
    pythons = re.findall(r"-py(\d)(\d+)-|FROM python:(\d)\.(\d+)\.|Python (\d)\.(\d+)", text)
    assert {".".join(part for part in found if part) for found in pythons} <= {"3.11"}
    own = re.findall(r"r2med-ray:([\d.]+)-|r2med_ray-([\d.]+)-py3|r2med_ray (\d[\d.]*\d)", text)
    assert {version for found in own for version in found if version} <= {PROJECT["version"]}


@pytest.mark.parametrize("name", FILES)
def test_no_file_holds_a_secret(name: str) -> None:
    for pattern in SECRETS:
        assert re.search(pattern, text_of(name)) is None, pattern


def test_the_patterns_of_secrets_find_secrets() -> None:
    made_up = (
        "AKIA" + "A" * 16, "AIza" + "x" * 35, "hf_" + "x" * 34, "sk-" + "x" * 40,
        "-----BEGIN RSA PRIVATE KEY-----", "Password: x", "s3://user:word@bucket",
    )  # fmt: skip

    for pattern, secret in zip(SECRETS, made_up, strict=True):
        assert re.search(pattern, secret), pattern


def test_the_page_names_every_file_and_everything_that_has_to_be_changed() -> None:
    page = text_of("README.md")
    names = {path.name for path in CLUSTER.iterdir()} - {"README.md", "Dockerfile.dockerignore"}

    assert names == set(FILES) - {"README.md"}
    assert all(f"`{name}`" in page for name in names)
    table = page.split("| name | is |")[1].split("\n\n")[0]
    placeholder = re.compile(r"(?:ami-)?CHANGE-ME(?:-[a-z]+)?")
    used = {found for name in names for found in placeholder.findall(text_of(name))} - {"CHANGE-ME"}
    assert set(placeholder.findall(table)) - {"CHANGE-ME"} == used


def ray_commands() -> list[str]:
    return [line for line in commands(text_of("README.md")) if re.match(r"(\w+=\S+ )*ray ", line)]


@pytest.mark.parametrize("line", ray_commands())
def test_a_ray_command_of_the_page_is_one_that_ray_knows(line: str) -> None:
    given = shlex.split(line)
    given = given[given.index("ray") + 1 :]
    command: click.Command = ray_cli
    while isinstance(command, click.Group):
        name = given.pop(0)
        assert name in command.commands, f"ray has no command {name}"
        command = command.commands[name]

    command.make_context("ray", given)  # raises on an unknown option


def test_the_page_has_the_commands_of_a_cluster_from_its_start_to_its_end() -> None:
    begun = [" ".join(shlex.split(line)[:2]) for line in ray_commands() if line.startswith("ray ")]

    assert begun == [
        "ray start", "ray get-auth-token", "ray up", "ray dashboard", "ray job", "ray job", "ray rsync-down",
        "ray job", "ray down",
    ]  # fmt: skip


def benchmark_commands() -> list[str]:
    entrypoints = [document["spec"].get("entrypoint", "") for document in documents("rayjob.yaml")]
    return [line for line in (*commands(text_of("README.md")), *entrypoints) if "full_benchmark.py" in line]


@pytest.mark.parametrize("line", benchmark_commands())
def test_a_job_of_the_files_is_one_that_the_job_takes(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = shlex.split(line.split("python ")[1].replace("/opt/r2med/", ""))
    monkeypatch.setattr(sys, "argv", given)

    chosen = arguments()

    assert (REPOSITORY / given[0]).is_file()
    assert (REPOSITORY / chosen.config).is_file()
    assert chosen.store is None or chosen.store == "s3://CHANGE-ME-bucket/r2med"


def test_the_commands_for_one_machine_are_run_by_a_test() -> None:
    submitted = [line for line in commands(text_of("README.md")) if line.endswith("python jobs/full_benchmark.py")]
    tests = REPOSITORY / "tests" / "integration"
    nodes, tested = ((tests / name).read_text(encoding="utf-8") for name in ("nodes.py", "test_job_submission.py"))

    [line] = submitted
    assert line.endswith("ray job submit --working-dir . -- python jobs/full_benchmark.py")
    assert "nodes.start_head(" in tested
    assert 'RAY, "start", "--block"' in nodes
    assert '"--head"' in nodes
    assert '"job", "submit", "--working-dir", REPOSITORY, "--", "python", "jobs/full_benchmark.py"' in tested


def test_the_estimate_of_the_page_is_its_own_arithmetic() -> None:
    table = text_of("README.md").split("| work | GFLOP each |")[1].split("\n\n")[0]
    rows = re.findall(r"\| ([\d.]+) \| ([\d,]+) (?:tokens|pairs) \| ([\d.]+) \|", table)

    assert len(rows) == 5
    for gflop, times, minutes in rows:
        # e.g. bge-large: 0.60e9 FLOP × 82.5e6 tokens / 400e12 FLOP/s = 123.75 s = 2.1 minutes
        seconds = float(gflop) * 1e9 * int(times.replace(",", "")) / FLOPS_OF_AN_H100
        assert minutes == f"{seconds / 60:.1f}"
    assert 876 * 100 == 87_600  # queries × depth


def test_the_configuration_of_the_page_asks_the_service_of_the_file() -> None:
    (service,) = documents("rayservice.yaml")
    serve = yaml.safe_load(service["spec"]["serveConfigV2"])
    address = f"http://{service['metadata']['name']}-serve-svc:{serve['http_options']['port']}/v1"

    assert text_of("README.md").count(address) == 2
