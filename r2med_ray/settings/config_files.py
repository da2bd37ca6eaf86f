"""Reads benchmark files, with overrides from the command line, and names every problem with its place."""

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, NamedTuple, TypeAlias, TypeGuard, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from r2med_ray.errors import ConfigError
from r2med_ray.settings.config import BenchmarkConfig
from r2med_ray.settings.file_paths import FOLDER
from r2med_ray.settings.registry import nearest
from r2med_ray.settings.yaml_files import read_yaml

Place: TypeAlias = tuple[int | str, ...]
"""Keys and positions that lead to a value."""

T = TypeVar("T")
ModelT = TypeVar("ModelT", bound=BaseModel)

Kind: TypeAlias = Any
"""A kind of value that an annotation allows: `int`, a model, a tuple of models, ..."""


class Checked(NamedTuple):
    """A benchmark file after a check of its keys and values."""

    problems: list[str]
    config: BenchmarkConfig | None
    """The file. If it has problems: what is left of it without the entries that have them; None if too little is."""


def load_config(path: Path, overrides: Iterable[str] = ()) -> BenchmarkConfig:
    """Read a benchmark file and apply `key=value` overrides (dotted keys, YAML values, list positions).

    Relative paths start at the folder of the file, those of overrides too.

    Raises:
        ConfigError: the file can't be read, or a key or value is wrong; lists every problem.
    """
    return load_with(lambda config: config, path, overrides)


def load_with(look_up: Callable[[BenchmarkConfig], T], path: Path, overrides: Iterable[str] = ()) -> T:
    """Return what a look-up of names makes of a benchmark file.

    Raises:
        ConfigError: as of `load_config`. What the look-up refuses in the rest of the file is listed too.
    """
    checked = _check(_read(path, overrides), path.parent)
    if checked.problems and checked.config:
        try:
            look_up(checked.config)
        except ConfigError as error:
            checked.problems.append(str(error))
    return look_up(_faultless(checked, str(path)))


def load_settings(model: type[ModelT], path: Path, overrides: Iterable[str] = ()) -> ModelT:
    """Read the settings of another job than a benchmark, with overrides and paths as in `load_config`.

    Raises:
        ConfigError: the file can't be read, or a key or value is wrong; lists every problem.
    """
    try:
        return model.model_validate(_read(path, overrides), context={FOLDER: path.parent})
    except ValidationError as error:
        raise ConfigError("\n  ".join([f"{path}:", *_problems(error, model)])) from error


def _read(path: Path, overrides: Iterable[str]) -> dict[str, Any]:
    values = read_yaml(path)
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: expected keys like `name:`, got {type(values).__name__}")
    for override in overrides:
        _override(values, override)
    return values


def parse_config(values: Mapping[str, Any], *, source: str = "config") -> BenchmarkConfig:
    """Check a benchmark that is given as plain values.

    Args:
        values: keys and values, as in a file.
        source: what errors call the values.

    Raises:
        ConfigError: a key or value is wrong; lists every problem.
    """
    return _faultless(_check(values, None), source)


def _faultless(checked: Checked, source: str) -> BenchmarkConfig:
    if checked.problems or checked.config is None:
        raise ConfigError("\n  ".join([f"{source}:", *checked.problems]))
    return checked.config


def _check(values: Mapping[str, Any], folder: Path | None) -> Checked:
    context = {FOLDER: folder}
    try:
        return Checked([], BenchmarkConfig.model_validate(values, context=context))
    except ValidationError as error:
        rest: BenchmarkConfig | None = None
        with contextlib.suppress(ValidationError):
            rest = BenchmarkConfig.model_validate(_without_faults(values, error), context=context)
        return Checked(_problems(error, BenchmarkConfig), rest)


def _without_faults(values: Mapping[str, Any], error: ValidationError) -> dict[str, Any]:
    """Return the values without the keys, and without the items of lists, that have a problem."""
    faults = {problem["loc"][:2] for problem in error.errors()}
    naming = {"baseline", "main_measure", "hard_negatives", "queries"}  # these name items of lists, which may be gone
    keys = {fault[0] for fault in faults if fault} | naming
    return {
        key: [item for number, item in enumerate(value) if (key, number) not in faults]
        if isinstance(value, list)
        else value
        for key, value in values.items()
        if key not in keys or (isinstance(value, list) and key not in naming)
    }


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


def _problems(error: ValidationError, model: type[BaseModel]) -> list[str]:
    """Return one line per place. If a part of a place is wrong, only that part has a line."""
    at: dict[Place, list[ErrorDetails]] = {}
    for problem in error.errors():
        place, _ = find_place(model, problem["loc"])
        at.setdefault(place, []).append(problem)
    return [
        ": ".join(filter(None, [".".join(map(str, place)), _describe(place, problems, model)]))
        for place, problems in at.items()
        if not any(len(other) > len(place) and other[: len(place)] == place for other in at)
    ]


def _describe(place: Place, problems: Sequence[ErrorDetails], model: type[BaseModel]) -> str:
    """Return what a value is, and what would be right, as text."""
    if problems[0]["type"] == "extra_forbidden":
        known = sorted({key for problem in problems for key in _keys_at(model, problem["loc"][:-1])})
        return f"unknown key.{nearest(str(place[-1]), known)} Known: {', '.join(known)}"
    first, *others = dict.fromkeys(_in_words(problem, model) for problem in problems)
    right = " or ".join([first, *(words.removeprefix("should be ") for words in others)])
    value, kinds = problems[0]["input"], {problem["type"] for problem in problems}
    if kinds & {"missing", "too_short"} or (kinds == {"value_error"} and isinstance(value, dict | list | tuple)):
        return right
    allowed = [name for problem in problems for name in _quoted(problem) if problem["type"] == "literal_error"]
    hint = nearest(str(value), allowed)
    return f"{right}, got {_shown(value)}{f'.{hint}' if hint else ''}"


def _in_words(problem: ErrorDetails, model: type[BaseModel]) -> str:
    kind, context = problem["type"], problem.get("ctx", {})
    match kind:
        case "too_short":
            return f"should name at least {'one' if context['min_length'] == 1 else context['min_length']}"
        case "string_pattern_mismatch" if context["pattern"] in _PATTERNS:
            return _PATTERNS[context["pattern"]]
        case "model_type":
            return f"should be keys and values, e.g. `{_keys_at(model, problem['loc'])[0]}: ...`"
    return _IN_WORDS.get(kind, problem["msg"].removeprefix("Value error, ").removeprefix("Input "))


def _quoted(problem: ErrorDetails) -> list[str]:
    return re.findall(r"'([^']*)'", problem["msg"])


def _shown(value: object) -> str:
    return _CONTAINERS.get(type(value), repr(value))


def _keys_at(model: type[BaseModel], location: Place) -> list[str]:
    """Return the keys of the section at a location, in the order of its model."""
    _, kinds = find_place(model, location)
    return [key for kind in kinds if _is_model(kind) for key in kind.model_fields]


def find_place(model: type[BaseModel], location: Place) -> tuple[Place, list[Kind]]:
    """Follow an error's location through the annotations of a model.

    Args:
        model: the model of the whole file.
        location: the error's `loc`, which holds keys and positions. If a value may be of several kinds, pydantic puts
            the name of the kind that it tried behind the value's key.

    Returns:
        The location without the names of kinds; and the kinds that the value there may have. If pydantic named the
        class that it tried, this class is the only kind.
    """
    place: list[int | str] = []
    kinds: list[Kind] = [model]
    named = True
    for step in location:
        if named or len(kinds) < 2:
            place.append(step)
            kinds = [inner for kind in kinds for inner in _kinds_inside(kind, step)]
            named = False
        else:
            kinds = [kind for kind in kinds if getattr(kind, "__name__", None) == step] or kinds
            named = True
    return tuple(place), kinds


def _kinds_inside(kind: Kind, step: int | str) -> Iterator[Kind]:
    """Yield the kinds that a value may have. The value is under a key of a model or mapping, or in a list."""
    if _is_model(kind):
        if step in kind.model_fields:
            yield from _alternatives(kind.model_fields[str(step)].annotation)
    elif get_args(kind):
        *_, items = (argument for argument in get_args(kind) if argument is not Ellipsis)
        yield from _alternatives(items)


def _alternatives(annotation: Any) -> Iterator[Kind]:
    """Yield the kinds that an annotation joins with `|`. None is left out, because pydantic doesn't count it."""
    if get_origin(annotation) is Annotated:
        yield from _alternatives(get_args(annotation)[0])
    elif get_origin(annotation) in (Union, UnionType):
        for member in get_args(annotation):
            yield from _alternatives(member)
    elif annotation is not type(None):
        yield annotation


def _is_model(kind: Kind) -> TypeGuard[type[BaseModel]]:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


_IN_WORDS = {
    "missing": "is missing",
    "tuple_type": "should be a list",
    "string_type": "should be a text",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "should be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "should be a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "should be true or false"),
}
"""Type of pydantic's error (https://docs.pydantic.dev/latest/errors/validation_errors) → what would be right."""

_CONTAINERS: Mapping[type, str] = {dict: "keys and values", list: "a list", type(None): "nothing"}

_PATTERNS = {
    r"^\S+$": "should be a text without white space",
    r"^[\w.-]+$": "should be letters, digits, `_`, `.` and `-`",
    r"^https?://": "should be an address, http://... or https://...",
}
