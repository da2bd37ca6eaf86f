"""The kinds of first stages, and how a name of a benchmark file becomes a first stage."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from r2med_ray.errors import ConfigError
from r2med_ray.first_stage import FirstStage
from r2med_ray.first_stages.checkpoints import LateInteractionFirstStage, SparseFirstStage
from r2med_ray.first_stages.common import WantedRetriever
from r2med_ray.first_stages.lexical import LexicalFirstStage
from r2med_ray.first_stages.ranked_lists import ListFirstStage
from r2med_ray.first_stages.vectors import ApiFirstStage, DenseFirstStage
from r2med_ray.indexing.bm25 import BM25_ROWS
from r2med_ray.models.catalog.checkpoints import LateInteractionRow, SparseRow
from r2med_ray.models.catalog.encoders import EncoderRow
from r2med_ray.models.catalog.load import Catalog, register_section
from r2med_ray.models.catalog.row import Row
from r2med_ray.models.catalog.services import ApiEncoderRow
from r2med_ray.settings.registry import nearest
from r2med_ray.settings.retriever import CANDIDATES, RetrieverConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstStageKind:
    """A kind of first stage: what it is called, where its rows are, and what builds a first stage of a row.

    Its rows stand in a section of the models files, or, for a kind whose `section` is None, in `rows`.
    """

    noun: str
    """What errors call it, with its article, e.g. "a dense encoder"."""

    resolve: Callable[[Any, WantedRetriever], FirstStage]
    """Builds the first stage out of a row and what the benchmark file says about the retriever."""

    settings: tuple[str, ...] = ()
    """The keys of a retriever, beside `model`, that it understands; see `settings.retriever.RetrieverConfig`."""

    section: str | None = None
    """Section of the models files that holds its rows."""

    row_class: type[Row] | None = None
    """Class of the rows of that section."""

    rows: Mapping[str, Any] = field(default_factory=dict)
    """Name → row, for a kind without a section."""

    def rows_in(self, catalog: Catalog) -> Mapping[str, Any]:
        """Return its rows by name."""
        return self.rows if self.section is None else catalog.section(self.section)


VECTOR_SETTINGS = ("index", "embed_dim", "output_dtype", "rescore_multiplier", "clipping_margin")
"""The keys that say how stored vectors are searched."""

_SHIPPED = (
    FirstStageKind(noun="BM25", rows=BM25_ROWS, settings=("k1", "b"), resolve=LexicalFirstStage.resolve),
    FirstStageKind(
        noun="a dense encoder",
        section="encoders",
        row_class=EncoderRow,
        settings=("max_length", "dtype", *VECTOR_SETTINGS),
        resolve=DenseFirstStage.resolve,
    ),
    FirstStageKind(
        noun="an embedding service",
        section="api_encoders",
        row_class=ApiEncoderRow,
        settings=("max_length", *VECTOR_SETTINGS),
        resolve=lambda row, wanted: ApiFirstStage.resolve(row, replace(wanted, dtype=None)),
    ),
    FirstStageKind(
        noun="a sparse encoder",
        section="sparse",
        row_class=SparseRow,
        settings=("max_length", "dtype"),
        resolve=SparseFirstStage.resolve,
    ),
    FirstStageKind(
        noun="late interaction",
        section="late_interaction",
        row_class=LateInteractionRow,
        settings=("max_length", "dtype", "output_dtype", "rescore_multiplier"),
        resolve=LateInteractionFirstStage.resolve,
    ),
    FirstStageKind(
        noun="a list of candidates",
        rows={CANDIDATES: CANDIDATES},
        settings=("candidates", "safeguard"),
        resolve=ListFirstStage.resolve,
    ),
)
KINDS: dict[str, FirstStageKind] = {kind.noun: kind for kind in _SHIPPED}
"""Noun → kind. `register` adds to it."""


def register(kind: FirstStageKind) -> None:
    """Add a kind, so that benchmark files may name its rows as retrievers.

    To register the same kind once more changes nothing.

    Raises:
        ConfigError: another kind has its noun, its section or the name of a row, or no retriever can have one of its
            settings.
    """
    if KINDS.get(kind.noun) is kind:
        return
    if kind.noun in KINDS:
        raise ConfigError(f"a kind of first stage is called {kind.noun!r} already; give yours another `noun`")
    known = [key for key in RetrieverConfig.model_fields if key != "model"]
    for key in kind.settings:
        if key not in known:
            raise ConfigError(
                f"{kind.noun}: a retriever has no setting {key!r}.{nearest(key, known)} Known: {', '.join(known)}. "
                "Other settings of a kind are keys of its rows"
            )
    taken = {name: other.noun for other in KINDS.values() for name in other.rows}
    for name in kind.rows:
        if name in taken:
            raise ConfigError(f"{kind.noun}: the name {name!r} belongs to {taken[name]}; give your row another name")
    if (kind.section is None) != (kind.row_class is None):
        raise ConfigError(f"{kind.noun}: `section` and `row_class` go together; give both, or give `rows`")
    if kind.section is not None and kind.row_class is not None:
        register_section(kind.section, kind.row_class, kind.noun)
    KINDS[kind.noun] = kind


def resolve_first_stage(wanted: WantedRetriever, catalog: Catalog) -> FirstStage:
    """Look up a retriever by name.

    Raises:
        ConfigError: no kind or several have the name, or a setting has no meaning for its kind.
    """
    name = wanted.retriever.model
    found = [kind for kind in KINDS.values() if name in kind.rows_in(catalog)]
    if not found:
        known = [known for kind in KINDS.values() for known in kind.rows_in(catalog)]
        raise ConfigError(f"unknown retriever {name!r}.{nearest(name, known)} Known: {', '.join(known)}")
    if len(found) > 1:
        nouns = " and ".join(kind.noun for kind in found)
        raise ConfigError(f"retriever {name!r} is {nouns}; give your own row another name")
    [kind] = found
    for key in wanted.retriever.model_dump(exclude={"model"}, exclude_none=True):
        if key not in kind.settings:
            raise ConfigError(
                f"retriever {name!r}: leave out `{key}`. {name!r} is {kind.noun}, which takes "
                f"{', '.join(kind.settings) or 'no settings'}"
            )
    return kind.resolve(kind.rows_in(catalog)[name], wanted)
