"""The settings of a benchmark file: frozen, and checked when they are made.

    system = rewriter? → retriever(s) → fusion? → reranker?          benchmark = systems × tasks

An unknown key is refused, with the nearest valid one in the message. Names of tasks and models are checked against
the catalogues by the plan, before anything starts.
"""

from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, model_validator

from r2med_ray.settings.file_paths import PathField, rooted
from r2med_ray.settings.frozen import Frozen
from r2med_ray.settings.hard_negatives import HardNegativesConfig
from r2med_ray.settings.own_measure import OwnMeasureConfig
from r2med_ray.settings.query_choice import QueriesField
from r2med_ray.settings.registry import nearest
from r2med_ray.settings.resources import ClusterConfig, ResourcesConfig
from r2med_ray.settings.retriever import RetrieverConfig, RetrieverField
from r2med_ray.settings.rewriter import RewriterConfig
from r2med_ray.types import Compat, OnBadDocument


class TaskConfig(Frozen):
    """A collection outside the catalogue."""

    path: str
    """Folder with the collection's files, from the folder of this file on. For the layout `ir_datasets`, it is the id
    of a dataset, e.g. `vaswani`."""

    layout: str = "r2med"
    """Which files the folder holds: `r2med`, `beir`, `trec`, `bright`, ...; see `corpus.layouts`."""

    name: str
    """The task's name in tables and run files."""

    split: str = "test"
    """The qrels to use if the layout has several (`qrels/test.tsv`), or the domain (`biology` of BRIGHT)."""

    @model_validator(mode="before")
    @classmethod
    def _starts_at_the_file(cls, values: Any, info: ValidationInfo) -> Any:
        if (
            not isinstance(values, dict)
            or values.get("layout") == "ir_datasets"
            or not isinstance(values.get("path"), str)
        ):
            return values
        return {**values, "path": rooted(values["path"], info)}


class FusionConfig(Frozen):
    """How several first stages become one ranking."""

    method: Literal["rrf", "sum", "minmax", "zscore", "rsf", "dbsf", "nano"] = "rrf"
    """`sum` adds scores as they come. `minmax` and `zscore` bring each list to one scale first, and so do MTEB's
    `rsf` (relative score fusion) and `dbsf` (distribution-based score fusion). `nano` is `rrf` with the ties and the
    100 documents of NanoR2MED's hybrid, whose `k` is 100 and `depth` 500."""

    k: int = Field(default=60, ge=0)
    """The constant of RRF (Cormack et al. 2009 use 60)."""

    depth: int | None = Field(default=None, ge=1)
    """How many documents of each run take part; all if left out."""

    weights: tuple[Annotated[float, Field(allow_inf_nan=False)], ...] | None = None
    """One weight per retriever; equal weights if left out."""


class BlendConfig(Frozen):
    """Orders the head by a sum of what the reranker and what the first stage say."""

    reranker: float = Field(allow_inf_nan=False, ge=0)
    """The weight of the reranker: of probabilities, of numbers for single candidates, or of grades under `fuse:
    mean`, all from 0 to 1; or else of its scores, which are made of the ranks if a language model orders."""

    first_stage: float = Field(allow_inf_nan=False, ge=0)
    """The weight of the first stage; in a cascade, of what came before."""

    scale: Literal["none", "minmax", "log-rank"] = "none"
    """What is done to the scores of both sides before they are added, for each query. `none`: they stay. `minmax`:
    the head's lowest becomes 0 and its highest 1. `log-rank`: they become −log(rank + 1), as DIVER merges lists."""

    def describe(self) -> str:
        """Return weights and scale in a few characters."""
        return f"{self.reranker:g}/{self.first_stage:g}" + (f" {self.scale}" if self.scale != "none" else "")


class RerankerConfig(Frozen):
    """Reorders the first `depth` documents of a ranking. The documents below keep their order."""

    model: str
    """Name of a reranker of the catalogue."""

    depth: int = Field(default=100, ge=1)
    """Documents of each query that are reordered."""

    samples: int | None = Field(default=None, ge=1)
    """Answers about each candidate, in place of the number in the row of a pointwise reranker."""

    blend: BlendConfig | None = None
    """The first stage's part in the order of the head; if left out, it only decides between ties of a language model.
    The scores in the run are then made of the ranks."""

    max_unusable: float = Field(default=0.05, ge=0, le=1)
    """A limit for a language model that reranks. The system fails if a greater share of the queries has an answer
    from which no order or grade can be read; of the answers, if each is about one candidate."""


class SystemConfig(Frozen):
    """One row of the leaderboard."""

    name: str = Field(pattern=r"^\S+$")
    """The system's name, which is also the tag of its run files. A tag holds no white space."""

    retriever: RetrieverField | None = None
    """The first stage, if there is one: the name of a retriever, or keys and values."""

    retrievers: tuple[RetrieverField, ...] = ()
    """The first stages, if there are several; `fusion` is then needed."""

    fusion: FusionConfig | None = None
    """How the rankings of several first stages become one."""

    rewriter: RewriterConfig | None = None
    """How queries are changed before the search; if left out, they stay as they are."""

    reranker: RerankerConfig | None = None
    """What reorders the head of the ranking; if left out, nothing does."""

    rerankers: tuple[RerankerConfig, ...] = ()
    """What reorders the head one after the other, in place of `reranker`: a cascade, e.g. 100 and then 30 documents.
    Each may be no deeper than the one before."""

    compat: Compat | None = None
    """Overrides the benchmark's `compat` for this system."""

    @model_validator(mode="after")
    def _one_way_to_retrieve(self) -> "SystemConfig":
        if (self.retriever is None) == (not self.retrievers):
            raise ValueError("give either `retriever: NAME` or `retrievers: [NAME, NAME]` with `fusion`")
        if len(self.retrievers) == 1:
            raise ValueError("`retrievers` needs two or more; for one, write `retriever: NAME`")
        if bool(self.retrievers) != (self.fusion is not None):
            raise ValueError("give `retrievers` and `fusion` together")
        if self.reranker and self.rerankers:
            raise ValueError("give either `reranker: {…}` or `rerankers: [{…}, {…}]`")
        for before, each in pairwise(self.rerankers):
            if each.depth > before.depth:
                raise ValueError(
                    f"rerankers: {each.model} has depth {each.depth}, and {before.model} before it {before.depth}: "
                    "a cascade goes from deep to shallow"
                )
        if self.fusion and self.fusion.weights and len(self.fusion.weights) != len(self.retrievers):
            raise ValueError(f"fusion has {len(self.fusion.weights)} weights for {len(self.retrievers)} retrievers")
        return self

    @property
    def reranking(self) -> tuple[RerankerConfig, ...]:
        """All rerankers, in their order."""
        return self.rerankers or ((self.reranker,) if self.reranker else ())

    @property
    def first_stages(self) -> tuple[RetrieverConfig, ...]:
        return self.retrievers or ((self.retriever,) if self.retriever else ())


class BenchmarkConfig(Frozen):
    """Systems × tasks, and how they are measured."""

    name: str = Field(pattern=r"^[\w.-]+$")
    """The benchmark's name, which is also the name of the folder of its results."""

    tasks: tuple[str | TaskConfig, ...] = Field(min_length=1)
    """Tasks by name (`Biology`), by a glob (`Demo-*`), by a glob in a suite (`R2MED/*`), or folders of your own."""

    systems: tuple[SystemConfig, ...] = Field(min_length=1)
    """The rows of the leaderboard."""

    measures: tuple[str | OwnMeasureConfig, ...] = (
        "nDCG@10", "R@10", "R@100", "AP@100", "RR", "P@10", "Success@10",
    )  # fmt: skip
    """Measures by the names that ir_measures gives them, and measures of your own."""

    main_measure: str = "nDCG@10"
    """The measure that the leaderboard is sorted by and that systems are compared in; one of `measures`."""

    baseline: str | None = None
    """The system that the others are tested against for significance."""

    depth: int = Field(default=100, ge=1)
    """Documents kept per query."""

    hard_negatives: tuple[HardNegativesConfig, ...] = ()
    """Hard negatives for tasks of this benchmark."""

    queries: QueriesField | None = None
    """Which queries are asked: a number, for the first queries of each task; a list of ids, if there is one task; or
    a number or a list of ids for each task by name. If left out, all are. The report says that a part was asked."""

    cluster: ClusterConfig | None = None
    """The nodes that the cluster may have. If left out, a job is sized by what Ray or `ray up` says of the cluster,
    or else by the nodes that are there when it starts."""

    compat: Compat = "none"
    """`r2med` follows R2MED's published protocol with its oddities; see `r2med explain compat`."""

    ignore_identical_ids: bool | None = None
    """Whether a document whose id is the query's is left out. If this key is not given, the protocol decides: only
    dense retrievers under `r2med` leave it out."""

    when_missing: Literal["error", "skip"] = "error"
    """What happens to a result whose data, weights, texts, key or device is not at hand. `skip` leaves the result out
    and says what it needs. All other errors stop the benchmark under `skip` too."""

    on_bad_document: OnBadDocument = "error"
    """What happens to a document that can't be encoded, although others can: it has no tokens, it doesn't fit into
    memory even alone, its vector isn't finite, or a class of your own raises an error for it. `error` stops the
    benchmark and names the document. `skip` leaves the document out of the index, and counts it in the report. More
    than 10 documents and 5 % of a shard are never left out."""

    models: PathField | None = None
    """A YAML file with rows of your own. It starts at the folder of this file."""

    seed: int = 42
    """The seed of significance tests and of samples."""

    resources: ResourcesConfig = ResourcesConfig()
    """What each stage reserves."""

    @model_validator(mode="after")
    def _names_fit(self) -> "BenchmarkConfig":
        names = [system.name for system in self.systems]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two systems are called {name!r}")
        if self.baseline is not None and self.baseline not in names:
            hint = nearest(self.baseline, names)
            raise ValueError(f"baseline {self.baseline!r} is none of the systems.{hint} Known: {', '.join(names)}")
        measures = self.measure_names
        if self.main_measure not in measures:
            known = ", ".join(measures)
            if "main_measure" not in self.model_fields_set:
                raise ValueError(
                    f"`measures` lacks {self.main_measure}, the main measure unless `main_measure` names another. "
                    f"It has {known}"
                )
            hint = nearest(self.main_measure, measures)
            raise ValueError(f"main_measure {self.main_measure!r} is not among `measures`.{hint} Known: {known}")
        for measure in self.measures:
            if isinstance(measure, OwnMeasureConfig) and measures.count(measure.name) > 1:
                raise ValueError(f"two measures are called {measure.name!r}")
        return self

    @property
    def measure_names(self) -> tuple[str, ...]:
        """The names of the measures, in their order."""
        return tuple(measure if isinstance(measure, str) else measure.name for measure in self.measures)

    @model_validator(mode="after")
    def _safeguards_are_within_reach(self) -> "BenchmarkConfig":
        for system in self.systems:
            keeps = any(
                first_stage.candidates == "reranking_hybrid" and first_stage.safeguard != "drop"
                for first_stage in system.first_stages
            )
            reach = min([self.depth, *(reranker.depth for reranker in system.reranking[:1])])
            if keeps and reach <= 100:
                raise ValueError(
                    f"system {system.name!r}: depth {reach} cuts off the safeguards, which are at rank 101; "
                    "set `depth: 101`, or `safeguard: drop`"
                )
        return self
