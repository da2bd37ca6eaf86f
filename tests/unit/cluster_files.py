"""Reads the files of `cluster/` and the pins of `pyproject.toml` for the tests of both."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).parents[2]
CLUSTER = REPOSITORY / "cluster"
LAUNCHER_FILES = ("aws.yaml", "gcp.yaml")
KUBERAY_FILES = ("raycluster.yaml", "rayjob.yaml", "rayservice.yaml")
FILES = (*LAUNCHER_FILES, *KUBERAY_FILES, "Dockerfile", "README.md")
PROJECT: dict[str, Any] = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PIN = re.compile(r"([A-Za-z][\w.-]*)(?:\[[\w,-]*\])?==(\d+(?:\.\d+)*)")
"""A package and its exact version, as pip reads them."""


def text_of(name: str) -> str:
    return (CLUSTER / name).read_text(encoding="utf-8")


def documents(name: str) -> list[dict[str, Any]]:
    """Return the objects of a YAML file."""
    return [document for document in yaml.safe_load_all(text_of(name)) if document is not None]


def pins() -> dict[str, str]:
    """Return the exact versions that the package and its extras ask for."""
    extras = PROJECT["optional-dependencies"].values()
    requirements = [*PROJECT["dependencies"], *(line for extra in extras for line in extra)]
    return dict(pin for line in requirements for pin in PIN.findall(line))


def ray_object(name: str) -> dict[str, Any]:
    """Return KubeRay's object of a file."""
    (found,) = [document for document in documents(name) if document["apiVersion"] == "ray.io/v1"]
    return found


def cluster_spec(name: str) -> dict[str, Any]:
    """Return the specification of the cluster in KubeRay's object of a file."""
    spec = ray_object(name)["spec"]
    within = {"RayCluster": spec, "RayJob": spec.get("rayClusterSpec"), "RayService": spec.get("rayClusterConfig")}
    found: dict[str, Any] = within[ray_object(name)["kind"]]
    return found


def pods(name: str) -> Iterator[dict[str, Any]]:
    """Yield the specifications of the pods: the head's, then those of the groups."""
    spec = cluster_spec(name)
    for group in (spec["headGroupSpec"], *spec["workerGroupSpecs"]):
        yield group["template"]["spec"]


def commands(markdown: str) -> list[str]:
    """Return the lines of the shell blocks of a page."""
    blocks = re.findall(r"```sh\n(.*?)```", markdown, re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.strip()]
