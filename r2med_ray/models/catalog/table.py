"""Shows the catalogue as a list and as a Markdown table, with one line per model."""

from collections.abc import Callable, Iterator, Mapping

from r2med_ray.models.catalog.load import Catalog
from r2med_ray.models.catalog.row import Row


def models_list(catalog: Catalog) -> list[str]:
    """Return one line per row, with the row's name, kind, model and commit."""
    return [
        f"{row.name:38} {kind:18} {' @ '.join(filter(None, (row.shown_model, row.shown_revision)))}"
        for kind, row in _rows(catalog)
    ]


def models_table(catalog: Catalog) -> str:
    """Return a table of all rows, in the catalogue's order. Cells that a kind of model lacks are empty."""
    rows = [[kind, *(cell(row) for cell in _CELLS.values())] for kind, row in _rows(catalog)]
    lines = [["kind", *_CELLS], ["---"] * (len(_CELLS) + 1), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


def _rows(catalog: Catalog) -> Iterator[tuple[str, Row]]:
    for section, rows in catalog.sections.items():
        kind = section.removesuffix("s").replace("_", " ")
        for row in rows.values():
            yield kind, row


_CELLS: Mapping[str, Callable[[Row], str]] = {
    "name": lambda row: row.name,
    "model": lambda row: row.shown_model,
    "how": lambda row: row.how,
    "tokens": lambda row: row.shown_length,
    "prompts": lambda row: row.shown_prompts,
    "licence": lambda row: row.shown_license,
    "memory": lambda row: row.shown_memory,
    "published as": lambda row: row.published or "",
    "revision": lambda row: row.shown_revision,
}
"""Column of the table → function that returns a row's text in it."""
