"""The catalogue as a Markdown table, one line per model."""

from collections.abc import Callable, Mapping

from r2med_ray.models.catalog.catalog import SECTIONS, Catalog
from r2med_ray.models.catalog.rows import Row
from r2med_ray.models.catalog.sources import PACKAGE, is_folder


def models_list(catalog: Catalog) -> list[str]:
    """Return one line per row: its name, its kind, what it asks, and the commit."""
    return [
        f"{row.name:38} {_kind(section):18} {' @ '.join(filter(None, (_model(row), _revision(row))))}"
        for section in SECTIONS
        for row in getattr(catalog, section).values()
    ]


def models_table(catalog: Catalog) -> str:
    """Return every row of every section, in the catalogue's order; cells that a kind of model lacks are empty."""
    rows = [
        [_kind(section), *(cell(row) for cell in _CELLS.values())]
        for section in SECTIONS
        for row in getattr(catalog, section).values()
    ]
    lines = [["kind", *_CELLS], ["---"] * (len(_CELLS) + 1), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


def _kind(section: str) -> str:
    return section.removesuffix("s").replace("_", " ")


def _model(row: Row) -> str:
    return next(filter(None, (getattr(row, key, "") for key in _NAMES)), "")


def _max_length(row: Row) -> str:
    of_query, of_document = getattr(row, "query_max_length", None), getattr(row, "max_length", "")
    return f"{of_query} / {of_document}" if of_query else str(of_document)


def _prompts(row: Row) -> str:
    sides = ("query", "document")
    return ", ".join(side for side in sides if getattr(row, f"{side}_prompt", None))


def _is_elsewhere(row: Row) -> bool:
    return bool(getattr(row, "base_url", None)) or hasattr(row, "language_model")


def _revision(row: Row) -> str:
    if getattr(row, "base_url", None):
        return "the service's"
    model = getattr(row, "model", "")
    if not model or is_folder(model) or model.startswith(PACKAGE):
        return ""
    return row.revision[:12] if row.revision else "yours to pin"


_NAMES = ("model", "encoder", "language_model")
"""Keys of rows that say what is asked."""

_CELLS: Mapping[str, Callable[[Row], str]] = {
    "name": lambda row: row.name,
    "model": _model,
    "how": lambda row: row.how,
    "tokens": _max_length,
    "prompts": _prompts,
    "licence": lambda row: "" if hasattr(row, "language_model") else row.license,
    "memory": lambda row: "" if _is_elsewhere(row) else f"{row.memory_gb:g} GB",
    "published as": lambda row: row.published or "",
    "revision": _revision,
}
"""Column → what stands in it."""
