"""Scores that others have published. Our scores are compared with them and never mixed with them.

`published.csv` holds one row per (system, task, measure). Each row names the place and commit that it was taken from.
Systems are named by the keys of R2MED's repository (`bge`, `nv`, `hyde`, `gpt4`, ...). Systems of MTEB's results are
named by their Hugging Face name. Values are on the scale 0 to 1.

    family     systems
    base       a retriever alone
    gar        a retriever with generated texts
    reranker   a retriever and a reranker
    mteb       an encoder with MTEB's prompts, not those of R2MED
    nano       the profiles of NanoR2MED, on its corpora; its tables call `pooled_micro_recall@100` recall
"""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from r2med_ray.errors import ConfigError
from r2med_ray.settings.registry import nearest

TABLE = Path(__file__).with_name("published.csv")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedScore:
    """One published figure."""

    family: str
    method: str | None = None
    """`hyde`, `query2doc`, `lamer`, `search-o1` or `search-r1`; None if the query is not changed."""

    llm: str | None = None
    """The model that wrote the texts of `method`."""

    retriever: str
    reranker: str | None = None
    depth: int | None = None
    """The number of reranked documents; None if nothing was reranked or the number is not known."""

    task: str
    measure: str
    value: float
    source: str
    """The place that the figure was taken from: repository or site, `@`, commit."""

    @property
    def system(self) -> str:
        """The name of the system, e.g. `hyde/gpt4/nv` or `nv/rankllama@10`."""
        reranker = f"{self.reranker}@{self.depth}" if self.depth else self.reranker
        return "/".join(part for part in (self.method, self.llm, self.retriever, reranker) if part)


def published(
    *, system: str | None = None, task: str | None = None, measure: str | None = None, source: str | None = None
) -> tuple[PublishedScore, ...]:
    """Return the published scores that fit every filter, in the order of the table.

    Raises:
        ConfigError: the table has no such system, task, measure or source. The message gives the nearest name.
    """
    wanted = {"system": system, "task": task, "measure": measure, "source": source}
    rows = _table()
    for name, value in wanted.items():
        if value is not None:
            known = dict.fromkeys(getattr(row, name) for row in _table())
            if value not in known:
                raise ConfigError(f"nothing is published for the {name} {value!r}.{nearest(value, known)}")
            rows = tuple(row for row in rows if getattr(row, name) == value)
    return rows


def published_score(
    *,
    retriever: str,
    task: str,
    measure: str,
    method: str | None = None,
    llm: str | None = None,
    reranker: str | None = None,
    depth: int | None = None,
) -> PublishedScore | None:
    """Return the figure for exactly this system, or None if there is none."""
    return _by_system().get((method, llm, retriever, reranker, depth, task, measure))


@cache
def mteb_models() -> frozenset[str]:
    """Return the Hugging Face names of the models that MTEB has figures for."""
    return frozenset(row.retriever for row in _table() if row.family == "mteb")


@cache
def _table() -> tuple[PublishedScore, ...]:
    with TABLE.open(newline="", encoding="utf-8") as stream:
        return tuple(_row(cells) for cells in csv.DictReader(stream))


def _row(cells: dict[str, str]) -> PublishedScore:
    texts = {name: text or None for name, text in cells.items()}
    depth = int(cells["depth"]) if cells["depth"] else None
    return PublishedScore(**(texts | {"depth": depth, "value": float(cells["value"])}))  # type: ignore[arg-type]


@cache
def _by_system() -> dict[tuple[str | int | None, ...], PublishedScore]:
    return {
        (row.method, row.llm, row.retriever, row.reranker, row.depth, row.task, row.measure): row for row in _table()
    }
