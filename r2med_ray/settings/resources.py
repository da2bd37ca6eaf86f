"""What a benchmark may reserve: actors, CPUs, GPUs, memory and time of each stage."""

from typing import Annotated, Literal

from pydantic import Field

from r2med_ray.settings.frozen import Frozen

Auto = Literal["auto"]

WAIT_S = 1800.0
"""Seconds that a stage waits for nodes, unless a benchmark file says otherwise."""
NO_PROGRESS_TIMEOUT_S = 7200
"""Seconds without progress after which a stage fails, unless a benchmark says otherwise."""


class NodeShape(Frozen):
    """Machines of one kind that a cluster may have."""

    cpus: float = Field(ge=0)
    """CPUs of one machine."""

    gpus: float = Field(default=0.0, ge=0)
    """GPUs of one machine."""

    memory_gb: float | None = Field(default=None, gt=0)
    """Memory of one machine in GB. If left out, memory is not checked."""

    accelerator: str | None = None
    """Kind of their GPUs, as Ray names it (`H100`, `L40S`). A plan estimates hours for it, or else for an H100."""

    gpu_memory_gb: float | None = Field(default=None, gt=0)
    """Memory of each GPU in GB. A model that is too large for all kinds of machines is then refused at once, and else
    when it is to start."""

    max: int = Field(default=1, ge=1)
    """The most machines of this kind."""


class ClusterConfig(Frozen):
    """What a cluster that grows can become. It goes before what the cluster itself says (`distributed.ceilings`)."""

    nodes: tuple[NodeShape, ...] = Field(min_length=1)
    """All machines that the cluster may have. A machine that is there counts, even if it isn't named."""

    wait_s: float = Field(default=WAIT_S, gt=0)
    """Seconds that a stage waits for the machines that it needs."""


class EncodeResources(Frozen):
    """The actors that hold an encoder."""

    actors: int | Auto = "auto"
    """The most actors. `auto` takes what the cluster has, less half a CPU for reading."""

    cpus: Annotated[float, Field(gt=0)] | Auto = "auto"
    """CPUs that an actor reserves; torch uses as many threads, rounded up. `auto` is 1, or all of a small machine's
    but half a CPU."""

    gpus: float | Auto = "auto"
    """GPUs that an actor reserves. `auto` is 1 if the cluster has any GPU."""

    token_budget: int = Field(default=16_384, ge=1)
    """Padded tokens of one forward pass on a GPU. On a CPU, each text is a pass of its own."""

    dtype: Literal["float32", "bfloat16", "float16", "fastest"] | Auto = "auto"
    """Overrides the dtype of the model's row. `auto` keeps the row's. `fastest` has a job measure on a CPU whether an
    encoder is faster in float32 or in bfloat16, once per kind of CPU, and keep that in the store."""

    kv_cache_gib: int = Field(default=4, ge=1)
    """GiB of memory for keys and values of an encoder with `engine: vllm` on a CPU. On a GPU, it takes 0.9 of the
    memory, times `gpus`."""


class SearchResources(Frozen):
    """The actors that hold index shards. Each actor owns one shard or more."""

    actors: int | Auto = "auto"
    """The most actors of one index, each with a shard at least. `auto` is one per CPU of the cluster, and one for a
    corpus of at most 1,000 documents."""

    cpus: float = Field(default=0.25, ge=0)
    """CPUs that an actor reserves."""

    gpus: float = Field(default=0.0, ge=0)
    """GPUs that an actor reserves."""

    held_shards: Literal["all", "none"] | Auto = "auto"
    """Shards that an actor keeps in memory between searches. With `none`, it reads one shard after the other for each
    search, of at most 10,000 queries; rankings are the same to the last bit. `auto` is `none` if what the
    index of a corpus would hold is larger than half of the memory of all nodes."""


class RerankResources(Frozen):
    """The Ray Serve deployment of a reranker."""

    replicas: Annotated[int, Field(ge=1)] | Auto = "auto"
    """Copies of the reranker. `auto` is as many as the GPUs hold beside the open indexes, or one for each node on a
    cluster without GPUs; and at most as many as there are requests. The first begins alone, and the
    others join it when they have a place."""

    cpus: Annotated[float, Field(ge=0)] | Auto = "auto"
    """CPUs that a replica reserves. `auto` is 1, or half of a smaller machine."""

    gpus: float | Auto = "auto"
    """GPUs that a replica reserves. `auto` is 1 if the cluster has any GPU."""

    token_budget: int = Field(default=16_384, ge=1)
    """Padded tokens of one forward pass on a GPU."""

    max_in_flight: int = Field(default=16, ge=1)
    """Requests that a job keeps open at once, or four for each replica if that is more. Further requests wait in the
    driver."""

    timeout_s: float = Field(default=600.0, gt=0)
    """Seconds that one request may take, the wait in the queue included."""

    retries: int = Field(default=3, ge=0)
    """How often a request that failed is sent again."""


class LanguageModelResources(Frozen):
    """The vLLM engines that the job starts behind Ray Serve. The model's row says what else the model needs."""

    cpus: float = Field(default=1.0, gt=0)
    """CPUs that each worker of an engine reserves. A replica has `tensor_parallel_size` workers."""

    gpus: float | Auto = "auto"
    """GPUs that each worker reserves. `auto` is 1 if the cluster has any GPU. Without a GPU, vLLM uses the CPU."""

    kv_cache_gib: int = Field(default=4, ge=1)
    """GiB of memory for keys and values of an engine on the CPU. On a GPU, `gpu_memory_utilization` of the model's
    row decides."""

    host: str = "127.0.0.1"
    """Address that Serve's HTTP proxies bind to."""

    port: int | None = Field(default=None, ge=1, le=65535)
    """The proxies' port. If left out, it is a free port on one machine, and Serve's 8000 on several machines."""


class SearchPageResources(Frozen):
    """The search page that `r2med serve` serves, and what its visitors may ask of it."""

    host: str = "127.0.0.1"
    """Address that the page is served at. Whoever reaches it can ask: the page asks nobody for a password."""

    port: int = Field(default=8650, ge=0, le=65535)
    """Port of the page; 0 takes a free one."""

    replicas: int = Field(default=1, ge=1)
    """Processes that search. Each of them holds all indexes and the encoders that read questions."""

    cpus: float = Field(default=0.0, ge=0)
    """CPUs that each of these processes reserves. They idle most of the time, so they need none of their own."""

    gpus: float | Auto = "auto"
    """GPUs that each of them reserves. `auto` is a quarter where encoders compute on GPUs."""

    at_once: int = Field(default=8, ge=1)
    """Questions that each of these processes answers at the same time."""

    queue: int = Field(default=64, ge=0)
    """Questions that may wait for their turn. One more is answered with 503."""

    per_minute: int = Field(default=300, ge=1)
    """Questions that one address may ask in a minute. One more is answered with 429."""

    timeout_s: float = Field(default=300.0, gt=0)
    """Seconds that one question may take, the wait in the queue included. After that it is answered with 504."""

    question_characters: int = Field(default=8_000, ge=1)
    """The longest question. A longer one is answered with 413."""

    body_bytes: int = Field(default=65_536, ge=1)
    """The longest body of a request. A longer one is answered with 413."""


class ResourcesConfig(Frozen):
    """Shards, and what each stage reserves."""

    shards: int | None = Field(default=None, ge=1)
    """Shards per corpus. If left out, `documents_per_shard` decides."""

    documents_per_shard: int = Field(default=25_000, ge=1)
    """Documents of a shard, which is the unit of indexing. Encoders make a shard in pieces (`corpus.pieces`), the
    units of encoding and resuming. Both depend on the corpus, never on the cluster. A shard whose texts are huge ends
    earlier, at 1 GiB."""

    encode: EncodeResources = EncodeResources()
    """What encoding reserves."""

    search: SearchResources = SearchResources()
    """What searching reserves."""

    rerank: RerankResources = RerankResources()
    """What rerankers that score pairs reserve."""

    language_model: LanguageModelResources = LanguageModelResources()
    """What language models that the job serves reserve."""

    search_page: SearchPageResources = SearchPageResources()
    """What the search page reserves and allows."""

    no_progress_timeout_s: int = Field(default=NO_PROGRESS_TIMEOUT_S, ge=1)
    """Seconds without progress after which a stage fails: no shard was finished, no actor answered, no model has
    started. Ray's own limit of 30 minutes would end a wait for spot GPUs."""
