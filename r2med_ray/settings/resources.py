"""What a benchmark may reserve: actors, CPUs, GPUs, memory and time of each stage."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Auto = Literal["auto"]


class Frozen(BaseModel):
    """A part of a benchmark file: unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class EncodeResources(Frozen):
    """The actors that hold an encoder."""

    actors: int | Auto = "auto"
    """How many at most; `auto` takes what the cluster has free beside one CPU for reading."""

    cpus: Annotated[float, Field(gt=0)] | Auto = "auto"
    """CPUs an actor reserves; torch uses as many threads, rounded up. `auto` is 1, or what a small machine has."""

    gpus: float | Auto = "auto"
    """GPUs an actor reserves; `auto` is 1 where the cluster has any."""

    token_budget: int = Field(default=16_384, ge=1)
    """Padded tokens of one forward pass."""

    dtype: Literal["float32", "bfloat16", "float16"] | Auto = "auto"
    """Overrides the model row; `auto` keeps it."""


class SearchResources(Frozen):
    """The actors that hold index shards; each owns one shard or more."""

    actors: int | Auto = "auto"
    cpus: float = Field(default=0.25, ge=0)
    gpus: float = Field(default=0.0, ge=0)


class RerankResources(Frozen):
    """The Ray Serve deployment of a reranker."""

    replicas: int = Field(default=1, ge=1)
    cpus: Annotated[float, Field(ge=0)] | Auto = "auto"
    """CPUs a replica reserves; `auto` is 1, or half of a smaller machine."""

    gpus: float | Auto = "auto"
    token_budget: int = Field(default=16_384, ge=1)
    max_in_flight: int = Field(default=16, ge=1)
    """Requests a job keeps open at once; a queue longer than that waits in the driver."""

    timeout_s: float = Field(default=600.0, gt=0)
    """How long one request may take, the wait in the queue included."""

    retries: int = Field(default=3, ge=0)


class LanguageModelResources(Frozen):
    """The vLLM engines that the job starts behind Ray Serve; what a model needs beside is in its row."""

    cpus: float = Field(default=1.0, gt=0)
    """CPUs that each worker of an engine reserves; a replica has `tensor_parallel_size` of them."""

    gpus: float | Auto = "auto"
    """GPUs that each worker reserves; `auto` is 1 where the cluster has any. Without, vLLM computes on the CPU."""

    kv_cache_gib: int = Field(default=4, ge=1)
    """Memory for keys and values of an engine on the CPU; on a GPU it is `gpu_memory_utilization` of the row."""

    host: str = "127.0.0.1"
    """Address that Serve's HTTP proxies bind to."""

    port: int | None = Field(default=None, ge=1, le=65535)
    """Their port; a free one on one machine, Serve's 8000 on several."""


class ResourcesConfig(Frozen):
    shards: int | None = Field(default=None, ge=1)
    """Shards per corpus. Left out: as many as `documents_per_shard` gives."""

    documents_per_shard: int = Field(default=25_000, ge=1)
    """Unit of encoding, indexing and resuming. Depends on the corpus, never on the cluster."""

    encode: EncodeResources = EncodeResources()
    search: SearchResources = SearchResources()
    rerank: RerankResources = RerankResources()
    language_model: LanguageModelResources = LanguageModelResources()
    no_progress_timeout_s: int = Field(default=7200, ge=0)
    """Encoding fails after this long without a finished shard; Ray's own 30 minutes end a wait for spot GPUs."""
