"""The names of a benchmark file turned into rows, before anything starts; and what names the results they lead to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Literal, Self

from r2med_ray.corpus.catalog import TaskRow, require_folder, select_tasks
from r2med_ray.corpus.query_subsets import choices_of
from r2med_ray.errors import ConfigError
from r2med_ray.evaluation.measure_entries import read_measures
from r2med_ray.evaluation.measures import Measure
from r2med_ray.evaluation.published import mteb_models
from r2med_ray.first_stage import FirstStage
from r2med_ray.first_stages.common import Defaults
from r2med_ray.first_stages.kinds import resolve_first_stage
from r2med_ray.first_stages.own_kinds import load_kinds
from r2med_ray.first_stages.second_search import SecondSearch
from r2med_ray.models.catalog.language_models import LanguageModelRow
from r2med_ray.models.catalog.listwise_encoders import ListwiseEncoderRow
from r2med_ray.models.catalog.load import Catalog, load_catalog
from r2med_ray.models.catalog.rerankers import RerankerRow
from r2med_ray.models.catalog.resolved_rerankers import ResolvedReranker, resolve_reranker
from r2med_ray.rewriting.methods import Method, spelled
from r2med_ray.rewriting.own_methods import load_methods
from r2med_ray.settings.compat import Difference, Part, Rules, in_force
from r2med_ray.settings.config import BenchmarkConfig, RerankerConfig, SystemConfig, TaskConfig
from r2med_ray.settings.faults import Faults
from r2med_ray.settings.hard_negatives import require_tasks
from r2med_ray.settings.query_choice import QueryChoice
from r2med_ray.settings.registry import Registry
from r2med_ray.settings.retriever import RetrieverConfig
from r2med_ray.settings.rewriter import RewriterConfig
from r2med_ray.storage.keys import Json
from r2med_ray.types import Combine, Compat

_PARTS: Mapping[str, set[Part]] = {"terms": {"bm25"}, "vectors": {"dense"}}
"""What a first stage's artefacts hold → its part in the table of differences; other kinds were never published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedSystem:
    """A system whose names are all known: plain values, from which `pipeline.rank` makes its steps."""

    config: SystemConfig
    rules: Rules
    depth: int
    first_stages: tuple[FirstStage, ...]
    rerankers: tuple[ResolvedReranker, ...] = ()
    """What reorders the head, one after the other."""

    corpus_compat: Compat = "none"
    """The `compat` of the whole benchmark, by which corpora are read."""

    method: Method | None = None
    """How its rewriter changes a query."""

    language_model: LanguageModelRow | None = None
    """The model that writes its rewriter's texts, with the rewriter's own sampling and address."""

    tool: FirstStage | None = None
    """The retriever that the rewriter's language model searches with, or is shown the finds of."""

    def with_first_stages(self, change: Callable[[FirstStage], FirstStage]) -> Self:
        """Return the system with every first stage that searches for it changed."""
        return replace(
            self,
            first_stages=tuple(map(change, self.first_stages)),
            tool=change(self.tool) if self.tool else None,
            rerankers=tuple(each.with_first_stages(change) for each in self.rerankers),
        )

    @property
    def scorers(self) -> tuple[RerankerRow, ...]:
        """The rerankers that score pairs."""
        return tuple(each.scorer for each in self.rerankers if each.scorer)

    @property
    def reranking_models(self) -> tuple[LanguageModelRow, ...]:
        """The language models that rerank."""
        return tuple(each.model for each in self.rerankers if each.model)

    @property
    def searched_with(self) -> tuple[FirstStage, ...]:
        """Every first stage that searches for it: its own, its rewriter's tool, and those of its rerankers."""
        others = (self.tool, *(each.second_search for each in self.rerankers))
        return (*self.first_stages, *(each for each in others if each))

    @property
    def combine(self) -> Combine:
        """How the searches with several texts of a query become one; without a rewriter there is only one search."""
        return self.config.rewriter.combine if self.config.rewriter else "mean"

    @property
    def rows(self) -> tuple[object, ...]:
        """The rows of everything that works for it."""
        writer = (self.language_model,) if self.language_model else ()
        reranking = (*(each.row for each in self.rerankers), *self.reranking_models)
        return (*(first_stage.row for first_stage in self.searched_with), *writer, *reranking)

    @property
    def differences(self) -> tuple[Difference, ...]:
        """What it does as published and not by the right way, because of its `compat`."""
        parts: set[Part] = set()
        for first_stage in self.searched_with:
            parts |= _PARTS.get(first_stage.artifact_label, set()) | (
                {"api"} if first_stage.work == "ask a service" else set()
            )
        parts |= {"rewriter"} if self.method else set()
        parts |= {"reranker"} if self.rerankers else set()
        said = {"identical-ids"} if self.rules.ignore_identical_ids is not None else set()
        said |= {"conflicting-texts"} if self.corpus_compat == "none" else set()
        return tuple(row for row in in_force(self.rules.compat, parts) if row.id not in said)

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def published_key(self) -> Mapping[str, Json] | None:
        """What names the published record to compare with; None where nothing comparable was published.

        Under `r2med` that is R2MED's of the same system, else MTEB's of the same checkpoint. Replayed texts are the
        published ones; newly written ones are not.
        """
        first_stage, config, retriever = self.first_stages[0], self.config, self.config.first_stages[0]
        rewriter, reranker = config.rewriter, self.scorers[0].published if self.scorers else None
        changed = retriever.model_dump(
            include={"k1", "b", "max_length", "embed_dim", "output_dtype"}, exclude_none=True
        )
        if config.fusion or changed or retriever.index not in (None, "Flat"):
            return None
        if len(self.rerankers) > 1 or any(each.config.blend for each in self.rerankers):
            return None
        if self.rules.compat != "r2med":
            model = getattr(first_stage.row, "model", None)
            is_known = model in mteb_models() and not rewriter and not self.rerankers
            return {"retriever": model} if is_known else None
        if not first_stage.published or (self.rerankers and not reranker) or (rewriter and not rewriter.generations):
            return None
        return {
            "method": spelled(rewriter.method) if rewriter else None,
            "llm": spelled(rewriter.generations or "") if rewriter else None,
            "retriever": first_stage.published,
            "reranker": reranker,
            "depth": self.rerankers[0].config.depth if self.rerankers else None,
        }

    def describe(self) -> str:
        """Return the system as one line in the order of the flow."""
        config, labels = self.config, [first_stage.label for first_stage in self.first_stages]
        rewriter = config.rewriter
        parts = ["/".join(part for part in (rewriter.method, rewriter.writer) if part)] if rewriter else []
        parts.append(f"{config.fusion.method}({', '.join(labels)})" if config.fusion else labels[0])
        for reranker in config.reranking:
            blend = f" blended {reranker.blend.describe()}" if reranker.blend else ""
            samples = f"×{reranker.samples}" if reranker.samples else ""
            parts.append(f"{reranker.model}@{reranker.depth}{samples}{blend}")
        return " → ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedBenchmark:
    """A benchmark whose names are all known."""

    config: BenchmarkConfig
    names: "Names"
    measures: tuple[Measure, ...]
    tasks: tuple[TaskRow | TaskConfig, ...]
    systems: tuple[ResolvedSystem, ...]
    choices: Mapping[str, QueryChoice] = field(default_factory=dict)
    """Task → the queries that are asked, for tasks of which only some are."""

    @property
    def on_conflict(self) -> Literal["error", "last"]:
        """What happens to two texts under one id; R2MED's loader keeps the last."""
        return "last" if Rules.of(self.config.compat).conflicting_texts else "error"


def resolve(config: BenchmarkConfig) -> ResolvedBenchmark:
    """Look up every name that a benchmark file uses.

    Raises:
        ConfigError: a task, model, measure or setting is unknown or doesn't fit, or a task's folder is not there;
            gives the nearest valid one. Lists every problem.
    """
    names = Names.load(Path(config.models) if config.models else None)
    dtype = config.resources.encode.dtype
    defaults = Defaults(
        compat=config.compat,
        ignore_identical_ids=config.ignore_identical_ids,
        dtype=None if dtype == "auto" else dtype,
        depth=config.depth,
        on_bad_document=config.on_bad_document,
    )
    faults = Faults()
    measures = faults.tried(lambda: read_measures(config.measures))
    tasks = faults.tried(lambda: select_tasks(config.tasks)) or []
    if tasks:
        faults.tried(lambda: require_tasks(config.hard_negatives, [task.name for task in tasks]))
    systems = [faults.tried(partial(names.system, system, defaults)) for system in config.systems]
    for entry in config.tasks:
        if isinstance(entry, TaskConfig) and entry.layout != "ir_datasets":
            faults.tried(partial(require_folder, entry))
    choices = faults.tried(lambda: choices_of(config.queries, [task.name for task in tasks])) if tasks else None
    faults.require_none()
    return ResolvedBenchmark(
        config=config,
        names=names,
        measures=measures or (),
        tasks=tuple(tasks),
        systems=tuple(system for system in systems if system),
        choices=choices or {},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """All names that a system can use: the shipped ones, and those of a file of the user's own."""

    catalog: Catalog
    methods: Registry[Method]

    @classmethod
    def load(cls, own: Path | None = None) -> Self:
        """Read the shipped rows, and the file of the user's own.

        Raises:
            ConfigError: a file can't be read, or a row is wrong; names file and row.
        """
        if own is not None:
            load_kinds(own)
        return cls(catalog=load_catalog(own), methods=load_methods(own))

    def system(self, system: SystemConfig, defaults: Defaults) -> ResolvedSystem:
        """Look up the names of a system.

        Raises:
            ConfigError: names the system, and what is wrong.
        """
        try:
            return self._system(system, defaults)
        except ConfigError as error:
            raise ConfigError(f"system {system.name!r}: {error}") from error

    def first_stage(self, retriever: RetrieverConfig, rules: Rules, defaults: Defaults) -> FirstStage:
        """Look up a retriever."""
        return resolve_first_stage(defaults.wanted(retriever, rules), self.catalog)

    def scorer(self, name: str) -> RerankerRow:
        """Look up a reranker that scores pairs.

        Raises:
            ConfigError: there is none of this name, or it scores no pairs.
        """
        row = self.catalog.reranker(name)
        if not isinstance(row, RerankerRow):
            raise ConfigError(f"reranker {name!r} scores no pairs; rank a system that has it as `reranker`")
        return row

    def _system(self, system: SystemConfig, defaults: Defaults) -> ResolvedSystem:
        rules = Rules.of(system.compat or defaults.compat, defaults.ignore_identical_ids)
        rewriter = system.rewriter
        tool = (rewriter.candidates or rewriter.agent) if rewriter else None
        return ResolvedSystem(
            config=system,
            rules=rules,
            depth=defaults.depth,
            corpus_compat=defaults.compat,
            first_stages=tuple(self.first_stage(first_stage, rules, defaults) for first_stage in system.first_stages),
            rerankers=tuple(self._reranker(each, rules, defaults) for each in system.reranking),
            method=self._method(rewriter) if rewriter else None,
            language_model=self._writer(rewriter) if rewriter else None,
            tool=self.first_stage(tool.retriever, rules, defaults) if tool else None,
        )

    def _reranker(self, reranker: RerankerConfig, rules: Rules, defaults: Defaults) -> ResolvedReranker:
        resolved = resolve_reranker(reranker, self.catalog, rules.compat)
        if not isinstance(resolved.row, ListwiseEncoderRow):
            return resolved
        encoder = self.catalog.encoders[resolved.row.encoder]
        wanted = defaults.wanted(RetrieverConfig(model=encoder.name), rules)
        return replace(resolved, second_search=SecondSearch.of(resolved.row, encoder, wanted))

    def _method(self, rewriter: RewriterConfig) -> Method:
        method = self.methods[spelled(rewriter.method)]
        if not rewriter.writer and method.build is None:
            raise ConfigError(f"rewriter {rewriter.method}: give either `llm: MODEL` or `generations: NAME`")
        return method

    def _writer(self, rewriter: RewriterConfig) -> LanguageModelRow | None:
        """Return the row of a rewriter's language model as the rewriter uses it."""
        if rewriter.llm is None:
            return None
        row = self.catalog.language_models[rewriter.llm]
        row = row.with_sampling(temperature=rewriter.temperature, max_tokens=rewriter.max_tokens)
        return row.model_copy(update={"base_url": rewriter.base_url}) if rewriter.base_url else row
