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
from r2med_ray.models.catalog.api_rows import ApiEncoderRow
from r2med_ray.models.catalog.checkpoint_rows import LateInteractionRow, SparseRow
from r2med_ray.models.catalog.llm_reranker_rows import LlmRerankerRow
from r2med_ray.models.catalog.llm_rows import LanguageModelRow
from r2med_ray.models.catalog.reranker_rows import RerankerRow
from r2med_ray.models.catalog.rows import EncoderRow, Row
from r2med_ray.models.catalog.sources import is_folder
from r2med_ray.settings.registry import Registry, nearest

SHIPPED = Path(str(resources.files("r2med_ray.models.catalog"))) / "shipped"

SECTIONS: Mapping[str, type[Row]] = {
    "encoders": EncoderRow,
    "sparse": SparseRow,
    "late_interaction": LateInteractionRow,
    "api_encoders": ApiEncoderRow,
    "rerankers": RerankerRow,
    "language_models": LanguageModelRow,
    "llm_rerankers": LlmRerankerRow,
}
"""Section of a file → what its rows are."""

_PLACES = ("model", "document_model", "tokenizer")
"""Keys of rows that may name a folder, relative to the file."""

R = TypeVar("R", bound=Row)
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    encoders: Registry[EncoderRow]
    sparse: Registry[SparseRow]
    late_interaction: Registry[LateInteractionRow]
    api_encoders: Registry[ApiEncoderRow]
    rerankers: Registry[RerankerRow]
    language_models: Registry[LanguageModelRow]
    llm_rerankers: Registry[LlmRerankerRow]

    def reranker(self, name: str) -> RerankerRow | LlmRerankerRow:
        """Return a reranker of either kind."""
        if name in self.llm_rerankers:
            return self.llm_rerankers[name]
        if name in self.rerankers:
            return self.rerankers[name]
        known = [*self.rerankers, *self.llm_rerankers]
        raise ConfigError(f"unknown reranker {name!r}.{nearest(name, known)} Known: {', '.join(known)}")


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
                if isinstance(row, LlmRerankerRow):
                    _require(row.language_model, rows["language_models"], "language model", path)
                _add(rows[section], row.name, row, path)
    return Catalog(
        encoders=_registry("encoder", EncoderRow, rows["encoders"]),
        sparse=_registry("sparse encoder", SparseRow, rows["sparse"]),
        late_interaction=_registry("late interaction encoder", LateInteractionRow, rows["late_interaction"]),
        api_encoders=_registry("API encoder", ApiEncoderRow, rows["api_encoders"]),
        rerankers=_registry("reranker", RerankerRow, rows["rerankers"]),
        language_models=_registry("language model", LanguageModelRow, rows["language_models"]),
        llm_rerankers=_registry("reranker", LlmRerankerRow, rows["llm_rerankers"]),
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
    """Replace the names of instruction sets by the sets."""
    if not isinstance(row, dict):
        return row
    named = {key: row[key] for key in ("instructions", "document_instructions") if isinstance(row.get(key), str)}
    for name in named.values():
        _require(name, sets, "instructions", path)
    return row | {key: sets[name] for key, name in named.items()}


def _parse(kind: type[R], values: Any, path: Path) -> R:
    if isinstance(values, dict):
        folders = {key: values[key] for key in _PLACES if is_folder(str(values.get(key, "")))}
        values = values | {key: str((path.parent / Path(f).expanduser()).absolute()) for key, f in folders.items()}
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
    if problem["type"] == "missing":  # its input is the whole row, which may hold a key by mistake
        return f"{where}: {message}"
    return f"{where}: {message}, got {problem['input']!r}" if where else message


def _require(name: str, known: Mapping[str, Any], kind: str, path: Path) -> None:
    if name not in known:
        raise ConfigError(f"{path}: unknown {kind} {name!r}.{nearest(name, known)} Known: {', '.join(known)}")


def _add(rows: dict[str, T], name: str, row: T, path: Path) -> None:
    if name in rows:
        raise ConfigError(f"{path}: {name!r} is defined twice; give yours another name")
    rows[name] = row
