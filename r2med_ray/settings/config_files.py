"""Reads benchmark files, with overrides from the command line; every problem is named where it stands."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from r2med_ray.errors import ConfigError
from r2med_ray.settings.config import (
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
from r2med_ray.settings.registry import nearest
from r2med_ray.settings.resources import (
    EncodeResources,
    Frozen,
    LanguageModelResources,
    RerankResources,
    ResourcesConfig,
    SearchResources,
)

Place: TypeAlias = tuple[int | str, ...]
"""Keys and positions that lead to a value."""


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
        raise ConfigError("\n  ".join([f"{source}:", *_problems(error)])) from error


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


def _problems(error: ValidationError) -> list[str]:
    """Return one line per place; where a part of a place is wrong, only that part has one."""
    at: dict[Place, list[ErrorDetails]] = {}
    for problem in error.errors():
        place = tuple(step for step in problem["loc"] if not _is_union_branch(step))
        at.setdefault(place, []).append(problem)
    return [
        ": ".join(filter(None, [".".join(map(str, place)), _describe(place, problems)]))
        for place, problems in at.items()
        if not any(len(other) > len(place) and other[: len(place)] == place for other in at)
    ]


def _describe(place: Place, problems: Sequence[ErrorDetails]) -> str:
    """Say what a value is, and what would be right."""
    if problems[0]["type"] == "extra_forbidden":
        known = sorted(_known_keys(place))
        return f"unknown key.{nearest(str(place[-1]), known)} Known: {', '.join(known)}"
    first, *others = dict.fromkeys(map(_in_words, problems))
    right = " or ".join([first, *(words.removeprefix("should be ") for words in others)])
    value, kinds = problems[0]["input"], {problem["type"] for problem in problems}
    if kinds & {"missing", "too_short"} or (kinds == {"value_error"} and isinstance(value, dict | list | tuple)):
        return right
    allowed = [name for problem in problems for name in _quoted(problem) if problem["type"] == "literal_error"]
    hint = nearest(str(value), allowed)
    return f"{right}, got {_shown(value)}{f'.{hint}' if hint else ''}"


def _in_words(problem: ErrorDetails) -> str:
    kind, context = problem["type"], problem.get("ctx", {})
    match kind:
        case "too_short":
            return f"should name at least {'one' if context['min_length'] == 1 else context['min_length']}"
        case "string_pattern_mismatch" if context["pattern"] in _PATTERNS:
            return _PATTERNS[context["pattern"]]
        case "model_type" if context["class_name"] in _MODEL_OF_NAME:
            first = next(iter(_MODEL_OF_NAME[context["class_name"]].model_fields))
            return f"should be keys and values, e.g. `{first}: ...`"
    return _IN_WORDS.get(kind, problem["msg"].removeprefix("Value error, ").removeprefix("Input "))


def _quoted(problem: ErrorDetails) -> list[str]:
    return re.findall(r"'([^']*)'", problem["msg"])


def _shown(value: object) -> str:
    return _CONTAINERS.get(type(value), repr(value))


def _is_union_branch(step: object) -> bool:
    return isinstance(step, str) and (step.startswith(("function-", "literal[", "constrained-")) or step in _BRANCHES)


_IN_WORDS = {
    "missing": "is missing",
    "tuple_type": "should be a list",
    "string_type": "should be a text",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "should be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "should be a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "should be true or false"),
}
"""What pydantic finds wrong (https://docs.pydantic.dev/latest/errors/validation_errors) → what would be right."""

_CONTAINERS: Mapping[type, str] = {dict: "keys and values", list: "a list", type(None): "nothing"}

_PATTERNS = {
    r"^\S+$": "should be a text without white space",
    r"^[\w.-]+$": "should be letters, digits, `_`, `.` and `-`",
    r"^https?://": "should be an address, http://... or https://...",
}

_MODELS: tuple[type[Frozen], ...] = (
    BenchmarkConfig, SystemConfig, TaskConfig, RetrieverConfig, FusionConfig, CandidatesConfig,
    SearchAgentConfig, RewriterConfig, RerankerConfig, ResourcesConfig, EncodeResources, SearchResources,
    RerankResources, LanguageModelResources,
)  # fmt: skip
_MODEL_OF_NAME = {model.__name__: model for model in _MODELS}
_BRANCHES = {"str", "int", "float", *_MODEL_OF_NAME}

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
