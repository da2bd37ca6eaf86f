"""What a benchmark file says: frozen, checked at construction, unknown keys refused with the nearest valid one.

    system = rewriter? → retriever(s) → fusion? → reranker?          benchmark = systems × tasks

Names of tasks and models are checked against the catalogues by `plan`, before anything starts.
"""

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from r2med_ray.settings.own_measure import OwnMeasureConfig
from r2med_ray.settings.registry import nearest
from r2med_ray.settings.resources import Frozen, ResourcesConfig
from r2med_ray.types import Combine, Compat


def require_plain_address(address: str | None) -> None:
    """Check that an address holds nothing that is not for everybody's eyes, for reports and errors show it.

    Raises:
        ValueError: it holds a user, a password, a query or a fragment; doesn't repeat it.
    """
    if address is not None and not re.fullmatch(r"https?://[^@?#\s]+", address):
        raise ValueError(
            "`base_url` should be scheme, host, port and path alone, e.g. https://host:8000/v1: a key belongs in the "
            "environment variable that `key_variable` names, what else requests carry in the row's `body`"
        )


class TaskConfig(Frozen):
    """A collection outside the catalogue."""

    path: str
    """Folder with the collection's files; for the layout `ir_datasets` the id of a dataset, e.g. `vaswani`."""

    layout: str = "r2med"
    """Which files the folder holds: `r2med`, `beir`, `trec`, `bright`, ...; see `corpus.layouts`."""

    name: str
    """The name it gets in tables and run files."""

    split: str = "test"
    """The qrels to use, where the layout has several (`qrels/test.tsv`), or the domain (`biology` of BRIGHT)."""


class RetrieverConfig(Frozen):
    """A first stage: `model` names a row of the catalogue; the rest overrides that row."""

    model: str
    candidates: str | None = None
    """In place of `model`: ranked lists that exist already. `bm25`, `dense` or `reranking_hybrid` of a Nano set, or a
    Parquet or TREC run file, `{task}` in its path standing for the task's name."""

    safeguard: Literal["keep", "drop"] | None = None
    """Of `candidates`: whether the positive that Nano sets add at rank 101 stays; it does where this is left out."""

    k1: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    b: float | None = Field(default=None, ge=0, le=1)
    max_length: int | None = Field(default=None, ge=1)
    dtype: Literal["float32", "bfloat16", "float16"] | None = None
    index: str | None = None
    """A FAISS factory string; `Flat`, which is exact, where it is left out."""


CANDIDATES = "candidates"
"""What `model` is where `candidates` takes its place."""


def _as_retriever(value: Any) -> Any:
    if isinstance(value, dict) and CANDIDATES in value and "model" not in value:
        return {"model": CANDIDATES, **value}
    return {"model": value} if isinstance(value, str) else value


RetrieverField = Annotated[RetrieverConfig, BeforeValidator(_as_retriever)]


class FusionConfig(Frozen):
    """How several first stages become one ranking."""

    method: Literal["rrf", "minmax", "zscore", "nano"] = "rrf"
    """`nano`: `rrf` as NanoR2MED's hybrid was made (with `k: 100`, `depth: 500`): its ties, and 100 documents."""

    k: int = Field(default=60, ge=0)
    """RRF's constant (Cormack et al. 2009 use 60)."""

    depth: int | None = Field(default=None, ge=1)
    """How many documents of each run take part; all of them where it is left out."""

    weights: tuple[Annotated[float, Field(allow_inf_nan=False)], ...] | None = None
    """One weight per retriever; equal where it is left out."""


class CandidatesConfig(Frozen):
    """What a first search for the query as it is shows the language model (lamer)."""

    retriever: RetrieverField
    depth: int = Field(default=10, ge=1)
    words: int = Field(default=512, ge=1)
    """Words kept of a candidate. 10 candidates of 512 words are R2MED's."""

    too_long: Literal["error", "halve"] = "error"
    """What happens to a prompt that the model has no room for: `halve` keeps half the words of each candidate, until
    it fits, and counts the query in the report."""


class SearchAgentConfig(Frozen):
    """What a language model that searches while it reasons may do."""

    retriever: RetrieverField
    """Its tool."""

    depth: int = Field(default=5, ge=1)
    """Passages that a search shows it."""

    words: int = Field(default=300, ge=1)
    """Words kept of each of them."""

    max_turns: int = Field(default=5, ge=1)
    """Searches of one conversation; after the last one it is told to answer."""

    max_tokens: int = Field(default=16_384, ge=1)
    """Tokens that it may write in one conversation before it has to end."""

    max_seconds: float = Field(default=3600.0, gt=0)
    """Once its texts have taken this long, a conversation begins no other search."""


class RewriterConfig(Frozen):
    """A change of the query: `llm` has a language model write texts, `generations` replays earlier ones."""

    method: str
    generations: str | None = None
    """Name of a generation set of the task (`hyde/<NAME>/query_with_hydoc.jsonl`), or a path."""

    llm: str | None = None
    """Name of a language model of the catalogue."""

    base_url: str | None = Field(default=None, pattern=r"^https?://")
    """Where that model answers, up to `/v1`. Left out: its row's address, or a server that the job starts."""

    prompts: str | None = None
    """A folder with prompts of your own (`<method>/<family>.txt`), or R2MED's repository."""

    samples: int = Field(default=1, ge=1)
    """Texts per query, with the seeds `seed`, `seed` + 1, ..."""

    combine: Combine = "mean"
    """How several texts of a query are used: `mean` asks for all of them at once (words together, vectors averaged),
    `rrf` searches with each and fuses the rankings by reciprocal rank."""

    seed: int = 42
    temperature: float | None = Field(default=None, ge=0)
    """Overrides the model's row, as `max_tokens` does."""

    max_tokens: int | None = Field(default=None, ge=1)
    candidates: CandidatesConfig | None = None
    agent: SearchAgentConfig | None = None
    """Of `search-o1` and `search-r1`, when a model is to search by itself."""

    on_unusable: Literal["original", "error"] = "original"
    """What happens to a query whose text is empty or was cut while it was still thinking."""

    max_unusable: float = Field(default=0.05, ge=0, le=1)
    """Share of unusable texts above which the system fails."""

    @model_validator(mode="after")
    def _one_source(self) -> "RewriterConfig":
        if (self.generations is None) == (self.llm is None):
            raise ValueError("give either `llm: MODEL` or `generations: NAME`")
        require_plain_address(self.base_url)
        replayed = {"method", "generations", "on_unusable", "max_unusable"}
        if self.generations and (given := sorted(self.model_dump(exclude_defaults=True).keys() - replayed)):
            raise ValueError(f"`{given[0]}` is for texts yet to be written, not for `generations`")
        return self

    @property
    def writer(self) -> str:
        """The model or the generation set that the texts come from."""
        return self.llm or self.generations or ""


class RerankerConfig(Frozen):
    """Reorders the head of the ranking; what is below `depth` keeps its order."""

    model: str
    depth: int = Field(default=100, ge=1)
    max_unusable: float = Field(default=0.05, ge=0, le=1)
    """Of a language model that reads several candidates at once: share of queries with an answer from which no order
    or grade can be read, above which the system fails."""


class SystemConfig(Frozen):
    """One row of the leaderboard."""

    name: str = Field(pattern=r"^\S+$")
    """Also the tag of its run files, so without white space."""

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
            raise ValueError("`fusion` goes with `retrievers`, and `retrievers` need `fusion`")
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
    """Names as ir_measures spells them, and measures of your own."""

    main_measure: str = "nDCG@10"
    baseline: str | None = None
    """The system that the others are tested against for significance."""

    depth: int = Field(default=100, ge=1)
    """Documents kept per query."""

    compat: Compat = "none"
    ignore_identical_ids: bool | None = None
    """Drop a document whose id is the query's. Left out: only where the protocol says so (dense, `r2med`)."""

    when_missing: Literal["error", "skip"] = "error"
    """What happens to a result whose data, weights, texts, key or device is not at hand: `skip` leaves it out and
    says what it needs. Whatever else goes wrong stops the benchmark all the same."""

    models: str | None = None
    """A YAML file with rows of your own, beside this file."""

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
            hint = nearest(self.main_measure, measures)
            raise ValueError(
                f"main_measure {self.main_measure!r} is not among `measures`.{hint} Known: {', '.join(measures)}"
            )
        for measure in self.measures:
            if isinstance(measure, OwnMeasureConfig) and measures.count(measure.name) > 1:
                raise ValueError(f"two measures are called {measure.name!r}")
        return self

    @property
    def measure_names(self) -> tuple[str, ...]:
        """What the measures are called, in their order."""
        return tuple(measure if isinstance(measure, str) else measure.name for measure in self.measures)

    @model_validator(mode="after")
    def _safeguards_are_within_reach(self) -> "BenchmarkConfig":
        for system in self.systems:
            keeps = any(
                stage.candidates == "reranking_hybrid" and stage.safeguard != "drop" for stage in system.first_stages
            )
            reach = min(self.depth, system.reranker.depth if system.reranker else self.depth)
            if keeps and reach <= 100:
                raise ValueError(
                    f"system {system.name!r}: depth {reach} cuts off the safeguards at rank 101; "
                    "give `depth: 101` there, or `safeguard: drop`"
                )
        return self
