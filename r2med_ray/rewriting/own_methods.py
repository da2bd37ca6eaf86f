"""Rewriting methods of the user's own: rows of the section `methods` of the user's models file.

    methods:
      - {name: simple-words, use: replaces, meaning: the question in the words of a layman}
      - {name: my-method, use: alone, class: my_module.MyMethod}

With a row without `class`, a language model writes texts. The benchmark file says where the prompts are: `prompts:
FOLDER`, which holds `<name>/default.txt`. A class is called like `methods.BuildRewriter`, and fulfils
`demands.QueryRewriter`. A class is imported because the file names it. Without a `class`, nothing is imported.
"""

import inspect
from pathlib import Path
from typing import Any, get_args

from pydantic import Field, ValidationError

from r2med_ray.errors import ConfigError
from r2med_ray.rewriting.methods import METHODS, Method
from r2med_ray.settings.frozen import Frozen
from r2med_ray.settings.own_code import import_named
from r2med_ray.settings.registry import Registry, nearest
from r2med_ray.settings.row_problems import row_problem
from r2med_ray.settings.yaml_files import read_list
from r2med_ray.types import Use

SECTION = "methods"


class MethodRow(Frozen):
    """The keys of a method in a file; see `Method`."""

    name: str = Field(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")
    """The method's name, which is also the name of its folder of prompts."""

    use: Use
    """How its text is used in a search."""

    meaning: str = ""
    """What the text is, in a few words."""

    source: str = ""
    """Where the method was published."""

    needs_candidates: bool = False
    """Whether the model has to be shown passages, as for `lamer`."""

    class_: str = Field(default="", alias="class")
    """The class that is the rewriter in place of `LiveRewriter`, e.g. `my_module.MyMethod`."""


def load_methods(path: Path | None) -> Registry[Method]:
    """Return the methods that come with the package, and those of a user's models file.

    Args:
        path: the file; None if there is none. Other sections of the file are not read.

    Raises:
        ConfigError: the file can't be read, a row is wrong, a name comes twice, or a class can't be imported or has
            no `rewrite`; names file, row and key.
    """
    rows = [] if path is None else [(row.name, _method(row, path)) for row in _read(path)]
    for name, _ in rows:
        if name in METHODS or [known for known, _ in rows].count(name) > 1:
            raise ConfigError(f"{path}: {SECTION}: {name}: there is a {METHODS.kind} of this name already")
    return Registry(METHODS.kind, [*METHODS.items(), *rows])


def _read(path: Path) -> list[MethodRow]:
    rows = read_list(path, SECTION, "rows")
    return [_parsed(row, path, number) for number, row in enumerate(rows, start=1)]


def _parsed(values: Any, path: Path, number: int) -> MethodRow:
    try:
        return MethodRow.model_validate(values)
    except ValidationError as error:
        name = values.get("name", f"row {number}") if isinstance(values, dict) else f"row {number}"
        problems = "\n".join(f"  {name}: {_problem(problem)}" for problem in error.errors())
        raise ConfigError(f"{path}: {SECTION}:\n{problems}") from error


def _problem(problem: Any) -> str:
    key, given, kind = ".".join(map(str, problem["loc"])), problem["input"], problem["type"]
    match kind:
        case "literal_error":
            uses = get_args(Use)
            return f"{key} should be one of {', '.join(uses)}, got {given!r}.{nearest(str(given), uses)}"
        case "string_pattern_mismatch":
            return f"{key} should be small letters and digits, with dashes between them, got {given!r}"
        case "model_type":
            return f"should be keys and values, e.g. `{{name: my-method, use: replaces}}`, got {given!r}"
    return row_problem(problem, MethodRow)


def _method(row: MethodRow, path: Path) -> Method:
    build = _imported(row.class_, f"{path}: {SECTION}: {row.name}: class {row.class_!r}") if row.class_ else None
    return Method(
        use=row.use,
        meaning=row.meaning,
        source=row.source,
        needs_candidates=row.needs_candidates,
        build=build,
    )


def _imported(name: str, where: str) -> Any:
    """Return the class of a dotted name."""
    found = import_named(name, where, "class", inspect.isclass, "my_module.MyMethod")
    if not callable(getattr(found, "rewrite", None)):
        raise ConfigError(f"{where}: it has no method `rewrite`; see `r2med_ray.demands.QueryRewriter`")
    return found
