"""Reads models by name from YAML files. A new model is a row in such a file.

The files in `shipped/` come with the package. A user's file may hold the same sections: named sets of `instructions`,
and the rows of `SECTIONS`. A user's file may also hold `OTHER_SECTIONS`, which other parts of the package read.
"""

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from r2med_ray.errors import ConfigError
from r2med_ray.models.catalog.checkpoints import LateInteractionRow, SparseRow
from r2med_ray.models.catalog.encoders import EncoderRow
from r2med_ray.models.catalog.language_models import LanguageModelRow
from r2med_ray.models.catalog.listwise_encoders import ListwiseEncoderRow
from r2med_ray.models.catalog.llm_rerankers import LlmRerankerRow
from r2med_ray.models.catalog.parsing import parse_row, require_known
from r2med_ray.models.catalog.rerankers import RerankerRow
from r2med_ray.models.catalog.row import Row
from r2med_ray.models.catalog.services import ApiEncoderRow
from r2med_ray.settings.registry import Registry, nearest
from r2med_ray.settings.yaml_files import read_yaml

SHIPPED = Path(str(resources.files("r2med_ray.models.catalog"))) / "shipped"

INSTRUCTIONS = "instructions"

OTHER_SECTIONS = ("methods", "measures", "kinds")
"""Sections of a user's file that the catalogue doesn't read."""

T = TypeVar("T")


class Section(NamedTuple):
    """A section of a file: a list of rows of one class."""

    row_class: type[Row]
    noun: str
    """The word for one of its rows in messages, e.g. "encoder"."""


SECTIONS: dict[str, Section] = {
    "encoders": Section(EncoderRow, "encoder"),
    "sparse": Section(SparseRow, "sparse encoder"),
    "late_interaction": Section(LateInteractionRow, "late interaction encoder"),
    "api_encoders": Section(ApiEncoderRow, "API encoder"),
    "rerankers": Section(RerankerRow, "reranker"),
    "language_models": Section(LanguageModelRow, "language model"),
    "llm_rerankers": Section(LlmRerankerRow, "reranker"),
    "listwise_encoders": Section(ListwiseEncoderRow, "reranker"),
}
"""Section of a file → class and noun of its rows. `register_section` adds sections."""


def register_section(name: str, row_class: type[Row], noun: str) -> None:
    """Add a section that models files may hold. `load_catalog` reads it from then on.

    Args:
        name: the section's key in a file, e.g. "toys".
        row_class: class of the section's rows.
        noun: the word for one row in messages, e.g. "toy".

    Raises:
        ConfigError: there is a section of that name already.
    """
    if name in (*SECTIONS, *OTHER_SECTIONS, INSTRUCTIONS):
        raise ConfigError(f"section {name!r} of models files is defined twice")
    SECTIONS[name] = Section(row_class, noun)


class Catalog:
    """The rows of all sections.

    Args:
        sections: name of a section → its rows.
    """

    def __init__(self, sections: Mapping[str, Registry[Any]]) -> None:
        self._sections = Registry("section of models", sections.items())

    @property
    def sections(self) -> Mapping[str, Registry[Any]]:
        """Name of a section → its rows, in the order of `SECTIONS`."""
        return self._sections

    def section(self, name: str) -> Registry[Any]:
        """Return the rows of a section by name.

        Raises:
            ConfigError: there is no such section; gives the nearest name.
        """
        return self._sections[name]

    @property
    def encoders(self) -> Registry[EncoderRow]:
        return self.section("encoders")

    @property
    def sparse(self) -> Registry[SparseRow]:
        return self.section("sparse")

    @property
    def late_interaction(self) -> Registry[LateInteractionRow]:
        return self.section("late_interaction")

    @property
    def api_encoders(self) -> Registry[ApiEncoderRow]:
        return self.section("api_encoders")

    @property
    def rerankers(self) -> Registry[RerankerRow]:
        return self.section("rerankers")

    @property
    def language_models(self) -> Registry[LanguageModelRow]:
        return self.section("language_models")

    @property
    def llm_rerankers(self) -> Registry[LlmRerankerRow]:
        return self.section("llm_rerankers")

    @property
    def listwise_encoders(self) -> Registry[ListwiseEncoderRow]:
        return self.section("listwise_encoders")

    def reranker(self, name: str) -> RerankerRow | LlmRerankerRow | ListwiseEncoderRow:
        """Return the row of a reranker, from one of the three sections of rerankers.

        Raises:
            ConfigError: no section has the name; gives the nearest name.
        """
        sections: tuple[Registry[Any], ...] = (self.llm_rerankers, self.rerankers, self.listwise_encoders)
        for rows in sections:
            if name in rows:
                found: RerankerRow | LlmRerankerRow | ListwiseEncoderRow = rows[name]
                return found
        known = [known for rows in sections for known in rows]
        raise ConfigError(f"unknown reranker {name!r}.{nearest(name, known)} Known: {', '.join(known)}")


def load_catalog(extra: Path | None = None) -> Catalog:
    """Read the shipped rows, and the rows of a user's file.

    Raises:
        ConfigError: a file can't be read, a key or value is wrong, or a name comes twice; names the file.
    """
    files = [(path, _read(path)) for path in [*sorted(SHIPPED.glob("*.yaml")), *([extra] if extra else [])]]
    sets: dict[str, Any] = {}
    for path, values in files:
        for name, texts in values[INSTRUCTIONS].items():
            _add(sets, name, texts, path)
    rows: dict[str, dict[str, Row]] = {name: {} for name in SECTIONS}
    read: list[tuple[Path, Row]] = []
    for path, values in files:
        for name, section in SECTIONS.items():
            for given in values[name]:
                row = parse_row(section.row_class, given, sets, path)
                _add(rows[name], row.name, row, path)
                read.append((path, row))
    for path, row in read:
        for section_name, name in row.named_rows.items():
            require_known(name, rows[section_name], SECTIONS[section_name].noun, path)
    return Catalog({name: Registry(SECTIONS[name].noun, entries.items()) for name, entries in rows.items()})


def _read(path: Path) -> dict[str, Any]:
    """Return a file's `instructions` and `SECTIONS`. `OTHER_SECTIONS` are left out."""
    kinds = {INSTRUCTIONS: dict, **dict.fromkeys(SECTIONS, list)}
    known = {**kinds, **dict.fromkeys(OTHER_SECTIONS, object)}
    values = read_yaml(path)
    if not isinstance(values, dict):
        raise ConfigError(f"{path}: expected the keys {', '.join(known)}, got {values!r}")
    for key, value in values.items():
        require_known(str(key), known, "key", path)
        if not isinstance(value, known[key]):
            raise ConfigError(f"{path}: {key} must be a {known[key].__name__}, got {value!r}")
    return {key: values.get(key, kind()) for key, kind in kinds.items()}


def _add(rows: dict[str, T], name: str, row: T, path: Path) -> None:
    if name in rows:
        raise ConfigError(f"{path}: {name!r} is defined twice; give yours another name")
    rows[name] = row
