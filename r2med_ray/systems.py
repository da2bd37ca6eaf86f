"""The names of a benchmark file turned into rows, before anything starts; and what names the results they lead to."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from r2med_ray.artifacts import Json
from r2med_ray.config import BenchmarkConfig, RetrieverConfig, SystemConfig, TaskConfig
from r2med_ray.corpus.catalog import TaskRow, select_tasks
from r2med_ray.errors import ConfigError
from r2med_ray.evaluation.measures import Measure
from r2med_ray.indexing.bm25 import BM25_ROWS, BM25Row
from r2med_ray.models.catalog import Catalog, load_catalog
from r2med_ray.models.rows import EncoderRow, RerankerRow
from r2med_ray.registry import nearest
from r2med_ray.types import Compat, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class LexicalStage:
    """BM25 as a first stage."""

    row: BM25Row
    compat: Compat
    drop_identical_ids: bool

    @property
    def label(self) -> str:
        return self.row.name

    @property
    def published(self) -> str | None:
        """The key of R2MED's published results."""
        return "bm25" if self.row.name == "bm25-r2med" else None

    def settings(self) -> Mapping[str, Json]:
        """Return what a reader of the report wants to know about it."""
        return {"variant": self.row.describe(), "drop_identical_ids": self.drop_identical_ids}

    @property
    def prepared_as(self) -> str:
        """What its terms depend on beside the corpus: stages that agree in it share them."""
        return self.compat

    def inputs(self, task: Task, device: str) -> Mapping[str, Json]:
        """Return everything about corpus and retriever that changes a run."""
        return {
            "corpus": task.corpus.digest,
            "bm25": self.row.inputs(),
            "compat": self.compat,
            "drop_identical_ids": self.drop_identical_ids,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class DenseStage:
    """An encoder and its vector index as a first stage."""

    row: EncoderRow
    index: str
    compat: Compat
    drop_identical_ids: bool

    @property
    def label(self) -> str:
        return self.row.name if self.index == "Flat" else f"{self.row.name}[{self.index}]"

    @property
    def published(self) -> str | None:
        """The key of R2MED's published results."""
        return self.row.published if self.index == "Flat" else None

    def settings(self) -> Mapping[str, Json]:
        """Return what a reader of the report wants to know about it."""
        return {
            **self.row.model_dump(mode="json", exclude_defaults=True),
            "index": self.index,
            "drop_identical_ids": self.drop_identical_ids,
        }

    @property
    def prepared_as(self) -> str:
        """What its vectors depend on beside the corpus: stages that agree in it share them."""
        return self.row.model_dump_json()

    def inputs(self, task: Task, device: str) -> Mapping[str, Json]:
        """Return everything about corpus and retriever that changes a run."""
        return {
            "corpus": task.corpus.digest,
            "shards": [shard.num_rows for shard in task.corpus.shards],
            "encoder": self.row.encoding_inputs(task.name, device=device),
            "expansion_prompt": self.row.expansion_prompt,
            "index": self.index,
            "compat": self.compat,
            "drop_identical_ids": self.drop_identical_ids,
        }


FirstStage: TypeAlias = LexicalStage | DenseStage


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedSystem:
    """A system whose names are all known."""

    config: SystemConfig
    compat: Compat
    first_stages: tuple[FirstStage, ...]
    reranker: RerankerRow | None

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def published_key(self) -> Mapping[str, Json] | None:
        """What names the published record of the same system; None where nothing comparable was published."""
        stage, config = self.first_stages[0], self.config
        reranker = self.reranker.published if self.reranker else None
        if self.compat != "r2med" or config.fusion or not stage.published or (self.reranker and not reranker):
            return None
        return {
            "method": config.rewriter.method if config.rewriter else None,
            "llm": config.rewriter.generations if config.rewriter else None,
            "retriever": stage.published,
            "reranker": reranker,
            "depth": config.reranker.depth if config.reranker else None,
        }

    def describe(self) -> str:
        """Return the system as one line in the order of the flow."""
        config, labels = self.config, [stage.label for stage in self.first_stages]
        parts = [f"{config.rewriter.method}/{config.rewriter.generations}"] if config.rewriter else []
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
        systems=tuple(_system(system, config, catalog) for system in config.systems),
    )


def _system(system: SystemConfig, config: BenchmarkConfig, catalog: Catalog) -> ResolvedSystem:
    compat = system.compat or config.compat
    return ResolvedSystem(
        config=system,
        compat=compat,
        first_stages=tuple(_first_stage(stage, compat, config, catalog) for stage in system.first_stages),
        reranker=catalog.rerankers[system.reranker.model] if system.reranker else None,
    )


def _first_stage(stage: RetrieverConfig, compat: Compat, config: BenchmarkConfig, catalog: Catalog) -> FirstStage:
    name = stage.model
    if name in BM25_ROWS:
        _refuse(stage, ("max_length", "dtype", "index"), f"{name!r} is no encoder")
        changes = {key: value for key in ("k1", "b") if (value := getattr(stage, key)) is not None}
        return LexicalStage(
            row=BM25_ROWS[name].with_parameters(**changes),
            compat=compat,
            drop_identical_ids=bool(config.ignore_identical_ids),
        )
    if name not in catalog.encoders:
        known = [*BM25_ROWS, *catalog.encoders]
        raise ConfigError(f"unknown retriever {name!r}.{nearest(name, known)} Known: {', '.join(known)}")
    _refuse(stage, ("k1", "b"), f"{name!r} is no BM25")
    dtype = stage.dtype or (config.resources.encode.dtype if config.resources.encode.dtype != "auto" else None)
    changes = {"dtype": dtype, "max_length": stage.max_length}
    drop = config.ignore_identical_ids
    return DenseStage(
        row=catalog.encoders[name].model_copy(update={key: value for key, value in changes.items() if value}),
        index=stage.index or "Flat",
        compat=compat,
        drop_identical_ids=compat == "r2med" if drop is None else drop,
    )


def _refuse(stage: RetrieverConfig, keys: tuple[str, ...], reason: str) -> None:
    for key in keys:
        if getattr(stage, key) is not None:
            raise ConfigError(f"retriever {stage.model!r}: `{key}` has no meaning here, for {reason}")
