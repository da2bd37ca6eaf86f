"""The kinds of first stages in one table, and how a name of a benchmark file becomes one of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from r2med_ray.errors import ConfigError
from r2med_ray.indexing.bm25 import BM25_ROWS
from r2med_ray.models.catalog.catalog import Catalog
from r2med_ray.settings.config import CANDIDATES
from r2med_ray.settings.registry import nearest
from r2med_ray.stages.candidates import CandidatesStage
from r2med_ray.stages.checkpoints import LateInteractionStage, SparseStage
from r2med_ray.stages.first_stage import Choice, FirstStage
from r2med_ray.stages.lexical import LexicalStage
from r2med_ray.stages.vectors import ApiStage, DenseStage


@dataclass(frozen=True, slots=True, kw_only=True)
class StageKind:
    """How a kind of first stage is found by name and built."""

    noun: str
    rows: Callable[[Catalog], Mapping[str, Any]]
    settings: tuple[str, ...]
    """The keys beside `model` that it understands."""

    resolve: Callable[[Any, Choice], FirstStage]


KINDS: Sequence[StageKind] = (
    StageKind(noun="BM25", rows=lambda _: BM25_ROWS, settings=("k1", "b"), resolve=LexicalStage.resolve),
    StageKind(
        noun="a dense encoder",
        rows=lambda catalog: catalog.encoders,
        settings=("max_length", "dtype", "index"),
        resolve=DenseStage.resolve,
    ),
    StageKind(
        noun="an embedding service",
        rows=lambda catalog: catalog.api_encoders,
        settings=("max_length", "index"),
        resolve=lambda row, choice: ApiStage.resolve(row, replace(choice, dtype=None)),
    ),
    StageKind(
        noun="a sparse encoder",
        rows=lambda catalog: catalog.sparse,
        settings=("max_length", "dtype"),
        resolve=SparseStage.resolve,
    ),
    StageKind(
        noun="late interaction",
        rows=lambda catalog: catalog.late_interaction,
        settings=("max_length", "dtype"),
        resolve=LateInteractionStage.resolve,
    ),
    StageKind(
        noun="a list of candidates",
        rows=lambda _: {CANDIDATES: CANDIDATES},
        settings=("candidates", "safeguard"),
        resolve=CandidatesStage.resolve,
    ),
)


def resolve_stage(choice: Choice, catalog: Catalog) -> FirstStage:
    """Look up a retriever by name.

    Raises:
        ConfigError: no kind or several have the name, or a setting has no meaning for its kind.
    """
    name = choice.retriever.model
    found = [kind for kind in KINDS if name in kind.rows(catalog)]
    if not found:
        known = [known for kind in KINDS for known in kind.rows(catalog)]
        raise ConfigError(f"unknown retriever {name!r}.{nearest(name, known)} Known: {', '.join(known)}")
    if len(found) > 1:
        nouns = " and ".join(kind.noun for kind in found)
        raise ConfigError(f"retriever {name!r} is {nouns}; give your own row another name")
    [kind] = found
    for key in choice.retriever.model_dump(exclude={"model"}, exclude_none=True):
        if key not in kind.settings:
            raise ConfigError(
                f"retriever {name!r}: `{key}` has no meaning here, for {name!r} is {kind.noun}, which takes "
                f"{', '.join(kind.settings) or 'no settings'}"
            )
    return kind.resolve(kind.rows(catalog)[name], choice)
