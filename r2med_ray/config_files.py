"""Reads benchmark files, with overrides from the command line; every problem is named where it stands."""

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from r2med_ray.config import (
    BenchmarkConfig,
    CandidatesConfig,
    FusionConfig,
    RerankerConfig,
    RetrieverConfig,
    RewriterConfig,
    SearchAgentConfig,
    SystemConfig,
    TaskConfig,
)
from r2med_ray.errors import ConfigError
from r2med_ray.resources import (
    EncodeResources,
    Frozen,
    LanguageModelResources,
    RerankResources,
    ResourcesConfig,
    SearchResources,
)


def load_config(path: Path, overrides: Iterable[str] = ()) -> BenchmarkConfig:
    """Read a benchmark file and apply `key=value` overrides (dotted keys, YAML values, list positions).

    Raises:
        ConfigError: the file can't be read, or says something wrong; every problem is listed.
    """
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: expected keys like `name:` and `systems:`, got {type(values).__name__}")
    for override in overrides:
        _override(values, override)
    if values.get("models") is not None:
        values["models"] = str((path.parent / str(values["models"])).absolute())
    return parse_config(values, source=str(path))


def parse_config(values: Mapping[str, Any], *, source: str = "config") -> BenchmarkConfig:
    """Check a benchmark given as plain values."""
    try:
        return BenchmarkConfig.model_validate(values)
    except ValidationError as error:
        problems = "\n".join(f"  {_describe(problem)}" for problem in error.errors())
        raise ConfigError(f"{source}:\n{problems}") from error


def _override(values: dict[str, Any], override: str) -> None:
    dotted, equals, text = override.partition("=")
    if not equals or not dotted:
        raise ConfigError(f"--set {override!r}: expected key=value, e.g. resources.encode.actors=2")
    *parents, last = dotted.split(".")
    target: Any = values
    for step in parents:
        if isinstance(target, list):
            target = target[_position(step, target, override)]
        else:
            target = target.setdefault(step, {})
        if not isinstance(target, dict | list):
            raise ConfigError(f"--set {override!r}: {step!r} holds {target!r}, which has no keys")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"--set {override!r}: the value is no YAML: {error}") from error
    if isinstance(target, list):
        target[_position(last, target, override)] = value
    else:
        target[last] = value


def _position(step: str, items: list[Any], override: str) -> int:
    if not step.isdecimal() or int(step) >= len(items):
        raise ConfigError(f"--set {override!r}: {step!r} is no position in a list of {len(items)}")
    return int(step)


def _describe(problem: Any) -> str:
    """Say where a value is, what it is, and what would be right."""
    where = ".".join(str(step) for step in problem["loc"] if not _is_union_branch(step))
    if problem["type"] == "extra_forbidden":
        known = sorted(_known_keys(problem["loc"]))
        close = difflib.get_close_matches(str(problem["loc"][-1]), known, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        return f"{where}: unknown key.{hint} Known: {', '.join(known)}"
    message = problem["msg"].removeprefix("Value error, ")
    if isinstance(problem["input"], dict | list | tuple):
        return f"{where}: {message}" if where else message
    return f"{where}: {message}, got {problem['input']!r}"


def _is_union_branch(step: object) -> bool:
    return isinstance(step, str) and (step.startswith(("function-", "literal[")) or step in _BRANCHES)


_MODELS: tuple[type[Frozen], ...] = (
    BenchmarkConfig, SystemConfig, TaskConfig, RetrieverConfig, FusionConfig, CandidatesConfig,
    SearchAgentConfig, RewriterConfig, RerankerConfig, ResourcesConfig, EncodeResources, SearchResources,
    RerankResources, LanguageModelResources,
)  # fmt: skip
_BRANCHES = {"str", "int", "float", *(model.__name__ for model in _MODELS)}

_MODEL_OF_KEY: dict[str, type[Frozen]] = {
    "systems": SystemConfig, "tasks": TaskConfig, "retriever": RetrieverConfig, "retrievers": RetrieverConfig,
    "fusion": FusionConfig, "rewriter": RewriterConfig, "candidates": CandidatesConfig, "agent": SearchAgentConfig,
    "reranker": RerankerConfig,
    "resources": ResourcesConfig, "encode": EncodeResources, "search": SearchResources,
    "rerank": RerankResources, "language_model": LanguageModelResources,
}  # fmt: skip


def _known_keys(location: tuple[Any, ...]) -> Iterable[str]:
    parents = [step for step in location[:-1] if step in _MODEL_OF_KEY]
    return (_MODEL_OF_KEY[parents[-1]] if parents else BenchmarkConfig).model_fields
