"""The differences between the right way and R2MED's published protocol, and how one of the two is chosen.

Lines are those of `src/` in the repository R2MED/R2MED at commit 62b7074, or of the libraries that this code calls.
Differences of a single model are in the model's row of the catalogue, under `r2med`.
"""

from collections.abc import Set
from dataclasses import dataclass
from importlib import resources
from typing import Literal, Self, TypeAlias

import yaml

from r2med_ray.types import Compat

Part: TypeAlias = Literal["corpus", "bm25", "dense", "api", "rewriter", "reranker"]
"""A part that a system may have. A difference concerns a system that has all parts of the difference. Every system
has a corpus. An encoder behind an API is both `dense` and `api`."""

Chosen: TypeAlias = Literal["compat", "name", "never"]
"""How a side of a difference is chosen.

- `compat`: by the benchmark's or the system's `compat`.
- `name`: by the retriever's name in the file, under either `compat`.
- `never`: not at all, because the published behaviour is not offered.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One rule that has two sides."""

    id: str
    rule: str
    default: str
    r2med: str
    where: str
    """File and line of the published code."""

    effect: str
    """What the difference changes, or why the default is not the published way."""

    parts: frozenset[Part]
    chosen: Chosen = "compat"


def _read() -> tuple[Difference, ...]:
    text = resources.files("r2med_ray.settings").joinpath("differences.yaml").read_text(encoding="utf-8")
    return tuple(Difference(**row | {"parts": frozenset(row["parts"])}) for row in yaml.safe_load(text))


DIFFERENCES = _read()
"""All differences, in the order of the flow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The sides that a system takes, resolved once and given to its parts. True is a difference's published side.

    Each row of `DIFFERENCES` that is chosen by `compat` has a field here with the name of the row.
    """

    conflicting_texts: bool = False
    bm25_duplicate_rows: bool = False
    bm25_cut: bool = False
    bm25_zero_scores: bool = False
    cosine_for_all: bool = False
    model_settings: bool = False
    end_token: bool = False
    api_inputs: bool = False
    identical_ids: bool = False
    bm25_rewrite: bool = False
    dense_rewrite_join: bool = False
    dense_rewrite_prompt: bool = False
    dense_rewrite_mean: bool = False
    reasoning_writers: bool = False
    missing_marker: bool = False
    unusable_texts: bool = False
    rerank_rest: bool = False
    ignore_identical_ids: bool | None = None
    """What the benchmark file says about a document whose id is the query's; None leaves it to `identical_ids`."""

    @classmethod
    def of(cls, compat: Compat, ignore_identical_ids: bool | None = None) -> Self:
        """Return the rules of a `compat`."""
        chosen = {row.id.replace("-", "_"): compat == "r2med" for row in DIFFERENCES if row.chosen == "compat"}
        return cls(**chosen, ignore_identical_ids=ignore_identical_ids)

    @property
    def compat(self) -> Compat:
        """The name of this set of rules, which is part of artefact keys."""
        return "r2med" if self.conflicting_texts else "none"

    @property
    def vectors_drop_identical_ids(self) -> bool:
        """Whether vectors leave out a document whose id is the query's."""
        return self.identical_ids if self.ignore_identical_ids is None else self.ignore_identical_ids

    @property
    def terms_drop_identical_ids(self) -> bool:
        """Whether all other kinds of retrievers leave out such a document. The published BM25 keeps it."""
        return bool(self.ignore_identical_ids)


def in_force(compat: Compat, parts: Set[Part]) -> tuple[Difference, ...]:
    """Return the differences from the right way that a system has because of its `compat`.

    Args:
        compat: the system's `compat`.
        parts: the parts of the system.
    """
    if compat == "none":
        return ()
    return tuple(row for row in DIFFERENCES if row.chosen == "compat" and row.parts <= parts | {"corpus"})


def explain() -> str:
    """Return the whole table as text."""
    how = {
        "compat": "compat: r2med",
        "name": "the retriever's name, under either compat",
        "never": "nothing: not offered",
    }
    return "\n\n".join(
        f"{row.id}: {row.rule}\n"
        f"  default    {row.default}\n"
        f"  r2med      {row.r2med}\n"
        f"  in         {row.where}\n"
        f"  effect     {row.effect}\n"
        f"  chosen by  {how[row.chosen]}"
        for row in DIFFERENCES
    )
