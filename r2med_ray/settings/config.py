"""The settings of a benchmark file: frozen, and checked when they are made.

    system = rewriter? → retriever(s) → fusion? → reranker?          benchmark = systems × tasks

An unknown key is refused, with the nearest valid one in the message. Names of tasks and models are checked against
the catalogues by the plan, before anything starts.
"""

import re
from typing import Annotated, Literal

from pydantic import Field, model_validator

from r2med_ray.settings.hard_negatives import HardNegativesConfig
from r2med_ray.settings.own_measure import OwnMeasureConfig
from r2med_ray.settings.registry import nearest
from r2med_ray.settings.resources import ClusterConfig, Frozen, ResourcesConfig
from r2med_ray.settings.retriever import RetrieverConfig, RetrieverField
from r2med_ray.types import Combine, Compat, OnBadDocument


def require_plain_address(address: str | None) -> None:
    """Check that an address holds nothing secret, because reports and errors show addresses.

    Raises:
        ValueError: the address holds a user, a password, a query or a fragment. The message doesn't repeat it.
    """
    if address is not None and not re.fullmatch(r"https?://[^@?#\s]+", address):
        raise ValueError(
            "`base_url` should be scheme, host, port and path alone, e.g. https://host:8000/v1. A key belongs in the "
            "environment variable that `key_variable` names; other fields of a request belong in the row's `body`"
        )


class TaskConfig(Frozen):
    """A collection outside the catalogue."""

    path: str
    """Folder with the collection's files; for the layout `ir_datasets` the id of a dataset, e.g. `vaswani`."""

    layout: str = "r2med"
    """Which files the folder holds: `r2med`, `beir`, `trec`, `bright`, ...; see `corpus.layouts`."""

    name: str
    """The task's name in tables and run files."""

    split: str = "test"
    """The qrels to use if the layout has several (`qrels/test.tsv`), or the domain (`biology` of BRIGHT)."""


class FusionConfig(Frozen):
    """How several first stages become one ranking."""

    method: Literal["rrf", "minmax", "zscore", "nano"] = "rrf"
    """`nano` is `rrf` with the ties and the 100 documents of NanoR2MED's hybrid, whose `k` is 100 and `depth` 500."""

    k: int = Field(default=60, ge=0)
    """The constant of RRF (Cormack et al. 2009 use 60)."""

    depth: int | None = Field(default=None, ge=1)
    """How many documents of each run take part; all if left out."""

    weights: tuple[Annotated[float, Field(allow_inf_nan=False)], ...] | None = None
    """One weight per retriever; equal weights if left out."""


class CandidatesConfig(Frozen):
    """The passages that lamer shows a language model. A first search for the unchanged query finds them."""

    retriever: RetrieverField
    depth: int = Field(default=10, ge=1)
    words: int = Field(default=512, ge=1)
    """Words kept of a candidate. R2MED uses 10 candidates of 512 words."""

    too_long: Literal["error", "halve"] = "error"
    """What happens to a prompt that is too long for the model. With `error`, its text counts as unusable (`context
    limit`). `halve` halves the words of each candidate until the prompt fits, and counts the query in the report."""


class SearchAgentConfig(Frozen):
    """The limits of a language model that searches while it reasons."""

    retriever: RetrieverField
    """The retriever that the model searches with."""

    depth: int = Field(default=5, ge=1)
    """Passages that each search shows the model."""

    words: int = Field(default=300, ge=1)
    """Words kept of each passage."""

    max_turns: int = Field(default=5, ge=1)
    """Searches of one conversation. After the last search the model is told to answer."""

    max_tokens: int = Field(default=16_384, ge=1)
    """Tokens that the model may write in one conversation. The conversation ends after the turn that reaches them."""

    max_seconds: float = Field(default=3600.0, gt=0)
    """Seconds that the texts of one conversation may take. After that, the conversation begins no other search."""


class RewriterConfig(Frozen):
    """A change of the query. With `llm` a language model writes texts; `generations` replays earlier texts."""

    method: str
    generations: str | None = None
    """Name of a generation set of the task (`hyde/<NAME>/query_with_hydoc.jsonl`), or a path."""

    llm: str | None = None
    """Name of a language model of the catalogue."""

    base_url: str | None = Field(default=None, pattern=r"^https?://")
    """The address of that model, up to `/v1`. If left out, it is the address of the model's row, or the address of a
    server that the job starts."""

    prompts: str | None = None
    """A folder with prompts of your own (`<method>/<family>.txt`), or R2MED's repository."""

    samples: int = Field(default=1, ge=1)
    """Texts per query, with the seeds `seed`, `seed` + 1, ..."""

    combine: Combine = "mean"
    """How several texts of a query are used. `mean` uses all texts in one search: words are put together, vectors are
    averaged. `rrf` makes one search per text and fuses the rankings by reciprocal rank."""

    seed: int = 42
    temperature: float | None = Field(default=None, ge=0)
    """Overrides the temperature of the model's row. `max_tokens` overrides the limit of the row."""

    max_tokens: int | None = Field(default=None, ge=1)
    candidates: CandidatesConfig | None = None
    agent: SearchAgentConfig | None = None
    """The search tool and the limits of `search-o1` and `search-r1`, if a model is to search by itself."""

    on_unusable: Literal["original", "error"] = "original"
    """What happens to a query whose text is empty, or was cut while the model was still thinking."""

    max_unusable: float = Field(default=0.05, ge=0, le=1)
    """Share of queries without a usable text above which the system fails."""

    @model_validator(mode="after")
    def _one_source(self) -> "RewriterConfig":
        if self.generations is not None and self.llm is not None:
            raise ValueError("give either `llm: MODEL` or `generations: NAME`, not both")
        require_plain_address(self.base_url)
        replayed = {"method", "generations", "on_unusable", "max_unusable"}
        if self.generations and (given := sorted(self.model_dump(exclude_defaults=True).keys() - replayed)):
            raise ValueError(
                f"`{given[0]}` is a setting for texts that a model has to write; leave it out with `generations`"
            )
        return self

    @property
    def writer(self) -> str:
        """The language model or the generation set that the texts come from; empty if a class writes without one."""
        return self.llm or self.generations or ""


class RerankerConfig(Frozen):
    """Reorders the first `depth` documents of a ranking. The documents below keep their order."""

    model: str
    depth: int = Field(default=100, ge=1)
    max_unusable: float = Field(default=0.05, ge=0, le=1)
    """A limit for a language model that reads several candidates at once. The system fails if a greater share of the
    queries has an answer from which no order or grade can be read."""


class SystemConfig(Frozen):
    """One row of the leaderboard."""

    name: str = Field(pattern=r"^\S+$")
    """The system's name, which is also the tag of its run files. A tag holds no white space."""

    retriever: RetrieverField | None = None
    retrievers: tuple[RetrieverField, ...] = ()
    fusion: FusionConfig | None = None
    rewriter: RewriterConfig | None = None
    reranker: RerankerConfig | None = None
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
        if self.fusion and self.fusion.weights and len(self.fusion.weights) != len(self.retrievers):
            raise ValueError(f"fusion has {len(self.fusion.weights)} weights for {len(self.retrievers)} retrievers")
        return self

    @property
    def first_stages(self) -> tuple[RetrieverConfig, ...]:
        return self.retrievers or ((self.retriever,) if self.retriever else ())


class BenchmarkConfig(Frozen):
    """Systems × tasks, and how they are measured."""

    name: str = Field(pattern=r"^[\w.-]+$")
    tasks: tuple[str | TaskConfig, ...] = Field(min_length=1)
    systems: tuple[SystemConfig, ...] = Field(min_length=1)
    measures: tuple[str | OwnMeasureConfig, ...] = (
        "nDCG@10", "R@10", "R@100", "AP@100", "RR", "P@10", "Success@10",
    )  # fmt: skip
    """Measures by the names that ir_measures gives them, and measures of your own."""

    main_measure: str = "nDCG@10"
    baseline: str | None = None
    """The system that the others are tested against for significance."""

    depth: int = Field(default=100, ge=1)
    """Documents kept per query."""

    hard_negatives: tuple[HardNegativesConfig, ...] = ()
    """Hard negatives for tasks of this benchmark."""

    cluster: ClusterConfig | None = None
    """The nodes that the cluster may have. If left out, a job is sized by what Ray or `ray up` says of the cluster,
    or else by the nodes that are there when it starts."""

    compat: Compat = "none"
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

    models: str | None = None
    """A YAML file with rows of your own. The path is relative to the folder of this file."""

    seed: int = 42
    resources: ResourcesConfig = ResourcesConfig()

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
            reach = min(self.depth, system.reranker.depth if system.reranker else self.depth)
            if keeps and reach <= 100:
                raise ValueError(
                    f"system {system.name!r}: depth {reach} cuts off the safeguards, which are at rank 101; "
                    "set `depth: 101`, or `safeguard: drop`"
                )
        return self
