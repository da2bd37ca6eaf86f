"""The names of a benchmark file turned into rows, before anything starts; and what names the results they lead to."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from r2med_ray.corpus.catalog import TASKS, TaskRow, select_tasks
from r2med_ray.errors import ConfigError
from r2med_ray.evaluation.measures import Measure
from r2med_ray.evaluation.published import mteb_models
from r2med_ray.models.catalog.catalog import Catalog, load_catalog
from r2med_ray.models.catalog.llm_reranker_rows import LlmRerankerRow, require_heeded
from r2med_ray.models.catalog.llm_rows import LanguageModelRow
from r2med_ray.models.catalog.reranker_rows import RerankerRow
from r2med_ray.rewriting.methods import METHODS, spelled
from r2med_ray.rewriting.prompts import PromptTask
from r2med_ray.settings.config import (
    BenchmarkConfig,
    RerankerConfig,
    RetrieverConfig,
    RewriterConfig,
    SystemConfig,
    TaskConfig,
)
from r2med_ray.stages.first_stage import Choice, FirstStage
from r2med_ray.stages.kinds import resolve_stage
from r2med_ray.storage.artifacts import Json
from r2med_ray.types import Compat


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedSystem:
    """A system whose names are all known."""

    config: SystemConfig
    compat: Compat
    first_stages: tuple[FirstStage, ...]
    reranker: RerankerRow | LlmRerankerRow | None
    language_model: LanguageModelRow | None = None
    """What writes the texts of its rewriter, with the rewriter's own sampling and address."""

    tool: FirstStage | None = None
    """What the rewriter's language model looks things up with, or is shown the finds of."""

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def published_key(self) -> Mapping[str, Json] | None:
        """What names the published record to compare with; None where nothing comparable was published.

        Under `r2med` that is R2MED's of the same system, else MTEB's of the same checkpoint. Replayed texts are the
        published ones; newly written ones are not.
        """
        stage, config, retriever = self.first_stages[0], self.config, self.config.first_stages[0]
        rewriter, reranker = config.rewriter, self.reranker.published if self.reranker else None
        changed = retriever.model_dump(include={"k1", "b", "max_length"}, exclude_none=True)
        if config.fusion or changed or retriever.index not in (None, "Flat"):
            return None
        if self.compat != "r2med":
            model = getattr(stage.row, "model", None)
            is_known = model in mteb_models() and not rewriter and not self.reranker
            return {"retriever": model} if is_known else None
        if not stage.published or (self.reranker and not reranker) or (rewriter and not rewriter.generations):
            return None
        return {
            "method": spelled(rewriter.method) if rewriter else None,
            "llm": spelled(rewriter.generations or "") if rewriter else None,
            "retriever": stage.published,
            "reranker": reranker,
            "depth": config.reranker.depth if config.reranker else None,
        }

    def describe(self) -> str:
        """Return the system as one line in the order of the flow."""
        config, labels = self.config, [stage.label for stage in self.first_stages]
        parts = [f"{config.rewriter.method}/{config.rewriter.writer}"] if config.rewriter else []
        parts.append(f"{config.fusion.method}({', '.join(labels)})" if config.fusion else labels[0])
        if config.reranker:
            parts.append(f"{config.reranker.model}@{config.reranker.depth}")
        return " → ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedBenchmark:
    config: BenchmarkConfig
    catalog: Catalog
    measures: tuple[Measure, ...]
    tasks: tuple[TaskRow | TaskConfig, ...]
    systems: tuple[ResolvedSystem, ...]

    @property
    def on_conflict(self) -> Literal["error", "last"]:
        """What happens to two texts under one id; R2MED's loader keeps the last."""
        return "last" if self.config.compat == "r2med" else "error"


def resolve(config: BenchmarkConfig) -> ResolvedBenchmark:
    """Look up every name that a benchmark file uses.

    Raises:
        ConfigError: a task, model, measure or setting is unknown or doesn't fit; gives the nearest valid one.
    """
    catalog = load_catalog(Path(config.models) if config.models else None)
    return ResolvedBenchmark(
        config=config,
        catalog=catalog,
        measures=tuple(Measure.parse(name) for name in config.measures),
        tasks=tuple(select_tasks(config.tasks)),
        systems=tuple(_named(system, config, catalog) for system in config.systems),
    )


def prompt_task(name: str) -> PromptTask:
    """Return what the choice of a prompt needs to know of a task; one outside the catalogue has but its name."""
    if name not in TASKS:
        return PromptTask(names=(name,))
    row = TASKS[name]
    return PromptTask(names=(row.name, *row.aliases), family=row.family)


def _named(system: SystemConfig, config: BenchmarkConfig, catalog: Catalog) -> ResolvedSystem:
    try:
        return _system(system, config, catalog)
    except ConfigError as error:
        raise ConfigError(f"system {system.name!r}: {error}") from error


def _system(system: SystemConfig, config: BenchmarkConfig, catalog: Catalog) -> ResolvedSystem:
    compat = system.compat or config.compat
    rewriter = system.rewriter
    if rewriter:
        METHODS[spelled(rewriter.method)]  # refuses an unknown name
    tool = (rewriter.candidates or rewriter.agent) if rewriter else None
    return ResolvedSystem(
        config=system,
        compat=compat,
        first_stages=tuple(_first_stage(stage, compat, config, catalog) for stage in system.first_stages),
        reranker=_reranker(system.reranker, compat, catalog) if system.reranker else None,
        language_model=_language_model(rewriter, catalog) if rewriter else None,
        tool=_first_stage(tool.retriever, compat, config, catalog) if tool else None,
    )


def _reranker(reranker: RerankerConfig, compat: Compat, catalog: Catalog) -> RerankerRow | LlmRerankerRow:
    row = catalog.reranker(reranker.model)
    require_heeded(reranker, row)
    return row.under(compat)


def _language_model(rewriter: RewriterConfig, catalog: Catalog) -> LanguageModelRow | None:
    """Return the row as the rewriter uses it."""
    if rewriter.llm is None:
        return None
    row = catalog.language_models[rewriter.llm]
    row = row.with_sampling(temperature=rewriter.temperature, max_tokens=rewriter.max_tokens)
    return row.model_copy(update={"base_url": rewriter.base_url}) if rewriter.base_url else row


def _first_stage(retriever: RetrieverConfig, compat: Compat, config: BenchmarkConfig, catalog: Catalog) -> FirstStage:
    dtype = config.resources.encode.dtype
    choice = Choice(
        retriever=retriever,
        compat=compat,
        ignore_identical_ids=config.ignore_identical_ids,
        dtype=None if dtype == "auto" else dtype,
    )
    return resolve_stage(choice, catalog)
