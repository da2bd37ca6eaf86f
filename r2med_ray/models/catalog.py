"""Models by name. A new model is a row in a YAML file, not a class.

The shipped files stand in `shipped/`. A file of one's own may hold every section of theirs: named sets of
`instructions`, and the rows of `SECTIONS`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from r2med_ray.errors import ConfigError
from r2med_ray.models.rows import EncoderRow, RerankerRow, Row
from r2med_ray.models.sources import is_folder
from r2med_ray.registry import Registry, nearest

SHIPPED = Path(str(resources.files("r2med_ray.models"))) / "shipped"

SECTIONS: Mapping[str, type[Row]] = {"encoders": EncoderRow, "rerankers": RerankerRow}
"""Section of a file → what its rows are."""

R = TypeVar("R", bound=Row)
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    encoders: Registry[EncoderRow]
    rerankers: Registry[RerankerRow]


def load_catalog(extra: Path | None = None) -> Catalog:
    """Read the shipped rows, and those of a file of one's own.

    Raises:
        ConfigError: a file can't be read, a key or value is wrong, or a name is there twice; names the file.
    """
    instructions: dict[str, Any] = {}
    rows: dict[str, dict[str, Row]] = {section: {} for section in SECTIONS}
    files = [(path, _read(path)) for path in [*sorted(SHIPPED.glob("*.yaml")), *([extra] if extra else [])]]
    for path, values in files:
        for name, texts in values["instructions"].items():
            _add(instructions, name, texts, path)
    for path, values in files:
        for section, kind in SECTIONS.items():
            for given in values[section]:
                row = _parse(kind, _with_instructions(given, instructions, path), path)
                if isinstance(row, RerankerRow) and row.kind == "maxsim":
                    _require(row.encoder, rows["encoders"], "encoder", path)
                _add(rows[section], row.name, row, path)
    return Catalog(
        encoders=_registry("encoder", EncoderRow, rows["encoders"]),
        rerankers=_registry("reranker", RerankerRow, rows["rerankers"]),
    )


def _registry(name: str, kind: type[R], rows: Mapping[str, Row]) -> Registry[R]:
    return Registry(name, [(key, row) for key, row in rows.items() if isinstance(row, kind)])


def _read(path: Path) -> dict[str, Any]:
    known = {"instructions": dict, **dict.fromkeys(SECTIONS, list)}
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise ConfigError(f"{path}: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: expected the keys {', '.join(known)}, got {values!r}")
    for key, value in values.items():
        _require(key, known, "key", path)
        if not isinstance(value, known[key]):
            raise ConfigError(f"{path}: {key} must be a {known[key].__name__}, got {value!r}")
    return {key: values.get(key, kind()) for key, kind in known.items()}


def _with_instructions(row: Any, sets: Mapping[str, Any], path: Path) -> Any:
    """Replace the name of an instruction set by the set."""
    if not isinstance(row, dict) or not isinstance(row.get("instructions"), str):
        return row
    _require(row["instructions"], sets, "instructions", path)
    return row | {"instructions": sets[row["instructions"]]}


def _parse(kind: type[R], values: Any, path: Path) -> R:
    if isinstance(values, dict) and is_folder(str(values.get("model", ""))):
        values = values | {"model": str((path.parent / Path(values["model"]).expanduser()).absolute())}
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        name = values.get("name") if isinstance(values, dict) else values
        problems = "\n".join(f"  {name}: {_describe(problem, kind)}" for problem in error.errors())
        raise ConfigError(f"{path}:\n{problems}") from error


def _describe(problem: Any, kind: type[Row]) -> str:
    where = ".".join(str(step) for step in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"unknown key {where!r}.{nearest(where, kind.model_fields)} Known: {', '.join(kind.model_fields)}"
    message = problem["msg"].removeprefix("Value error, ")
    return f"{where}: {message}, got {problem['input']!r}" if where else message


def _require(name: str, known: Mapping[str, Any], kind: str, path: Path) -> None:
    if name not in known:
        raise ConfigError(f"{path}: unknown {kind} {name!r}.{nearest(name, known)} Known: {', '.join(known)}")


def _add(rows: dict[str, T], name: str, row: T, path: Path) -> None:
    if name in rows:
        raise ConfigError(f"{path}: {name!r} is defined twice; give yours another name")
    rows[name] = row
