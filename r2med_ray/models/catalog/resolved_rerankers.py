"""A reranker of a system with the rows that do its work."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self, cast

from r2med_ray.first_stage import FirstStage, ShardedFirstStage
from r2med_ray.models.catalog.language_models import LanguageModelRow
from r2med_ray.models.catalog.listwise_encoders import ListwiseEncoderRow
from r2med_ray.models.catalog.llm_rerankers import LlmRerankerRow, require_heeded
from r2med_ray.models.catalog.load import Catalog
from r2med_ray.models.catalog.rerankers import RerankerRow
from r2med_ray.settings.config import RerankerConfig
from r2med_ray.types import Compat


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedReranker:
    """A reranker of a system, with its rows."""

    config: RerankerConfig
    row: RerankerRow | LlmRerankerRow | ListwiseEncoderRow
    model: LanguageModelRow | None = None
    """The language model of an `LlmRerankerRow`, as the row asks it."""

    second_search: ShardedFirstStage | None = None
    """What embeds the prompts of a `ListwiseEncoderRow`, and scores candidates by their vectors."""

    def with_first_stages(self, change: Callable[[FirstStage], FirstStage]) -> Self:
        """Return the reranker with its second search changed, if it has one."""
        second = self.second_search
        return replace(self, second_search=cast(ShardedFirstStage, change(second))) if second else self

    @property
    def answers_per_candidate(self) -> int | None:
        """How many answers there are about each candidate; None if an answer is about several, or none is written."""
        return self.row.answers_per_candidate if isinstance(self.row, LlmRerankerRow) else None

    @property
    def scorer(self) -> RerankerRow | None:
        """The row where it scores pairs."""
        return self.row if isinstance(self.row, RerankerRow) else None


def resolve_reranker(config: RerankerConfig, catalog: Catalog, compat: Compat) -> ResolvedReranker:
    """Look up a reranker's rows, as a system of that `compat` uses them. A second search is left to the caller.

    Raises:
        ConfigError: there is no such reranker, or it doesn't use a setting that is given.
    """
    row = catalog.reranker(config.model)
    require_heeded(config, row)
    if isinstance(row, RerankerRow):
        return ResolvedReranker(config=config, row=row.under(compat))
    if isinstance(row, ListwiseEncoderRow):
        return ResolvedReranker(config=config, row=row)
    row = row.sampled(config.samples)
    return ResolvedReranker(config=config, row=row, model=row.asked(catalog.language_models[row.language_model]))
