"""The rows of language models: the address of a model, how the model is started, and how it is asked."""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from r2med_ray.models.catalog import sources, vllm
from r2med_ray.models.catalog.call_policy import CallPolicy
from r2med_ray.models.catalog.needs import Needs, PythonModule, Source
from r2med_ray.models.catalog.row import Row, revision_cell
from r2med_ray.settings.rewriter import require_plain_address

SPEED_ARGUMENTS = frozenset(
    {
        "tensor_parallel_size",
        "pipeline_parallel_size",
        "gpu_memory_utilization",
        "max_num_seqs",
        "max_num_batched_tokens",
        "enable_prefix_caching",
        "enable_chunked_prefill",
        "enforce_eager",
        "disable_custom_all_reduce",
        "stream_interval",
    }
)
"""Arguments of vLLM that change the speed and not the text, and so are no part of a generation's key."""

REASONING_PARSER = "reasoning_parser"
"""The argument of vLLM that names a parser, which takes the reasoning out of a text."""

PARSERS = frozenset({REASONING_PARSER, "tool_call_parser"})
"""The arguments of vLLM that name a parser of texts."""

HOW_TO_GET_VLLM = f"{vllm.HOW_TO_GET}, or give the model the `base_url` of a service"

ATTEMPTS_AT_REPLICAS = 20
"""Attempts of one call. The wait before an attempt grows up to a minute, and is half of that on average. So all
attempts take 7 minutes or more."""

IDLE_AT_REPLICAS_S = 900.0
"""Seconds between two pieces of a stream. The limit may be long, because Serve itself watches its replicas. The limit
has to be long, because a replica on a CPU may take minutes for a piece if many calls share the replica."""


class Sampling(BaseModel):
    """How tokens are chosen. The service decides on values that are null."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    temperature: float | None = Field(default=0.7, ge=0)
    """The default is R2MED's for local models (`generate_hypothetical_doc.py`). Some services refuse the parameter;
    their rows say null."""

    top_p: float | None = Field(default=None, gt=0, le=1)
    """Share of the probability from which tokens are drawn; the service's own if it is left out."""

    max_tokens: int | None = Field(default=10_240, ge=1)
    """Tokens of an answer, its reasoning included."""


class ChatCallPolicy(CallPolicy):
    """The limits on calls of a service that may think for minutes."""

    max_in_flight: int = Field(default=32, ge=1)
    """Calls at once."""

    timeout_s: float = Field(default=1800.0, gt=0)
    """Seconds that one request may take."""

    deadline_s: float = Field(default=7200.0, gt=0)
    """Seconds that one call may take, with all its requests and waits."""

    idle_timeout_s: float = Field(default=120.0, gt=0)
    """Seconds between two pieces of a stream, once its first word has come."""


class LanguageModelRow(Row):
    """A model that answers messages with text, over OpenAI's chat interface."""

    kind: Literal["vllm", "openai"] = "vllm"
    """`vllm`: the cluster serves the model. `openai`: a service elsewhere runs the model."""

    model: str
    """`org/name` on the Hub or a folder (`./x`, relative to the YAML file). For a service, it is the service's name
    of the model."""

    served_name: str | None = None
    """The model's name in requests. If left out, it is `model`, or `name` if `model` is a folder."""

    base_url: str | None = Field(default=None, pattern=r"^https?://")
    """Address of a service, up to `/v1`. The rewriter of a benchmark file may give another address."""

    key_variable: str | None = Field(default=None, pattern=r"^[A-Z_][A-Z0-9_]*$")
    """The environment variable that holds the service's key."""

    engine: Mapping[str, Any] = Field(default_factory=dict)
    """vLLM's engine arguments, by vLLM's names: `max_model_len`, `tensor_parallel_size`, `reasoning_parser`, ..."""

    min_replicas: int = Field(default=1, ge=0)
    """Engines that run from the start."""

    max_replicas: int = Field(default=1, ge=1)
    """The most engines."""

    in_flight_per_replica: int = Field(default=256, ge=1)
    """Requests that a replica works on at once. With more requests, a replica is added, up to `max_replicas`. vLLM
    runs 256 sequences together, unless `max_num_seqs` gives another number."""

    accelerator: str | None = None
    """Ray's name of the GPU that the engine arguments were chosen for, e.g. `A100-80G`. If left out, any GPU will
    do."""

    answer_format: str = "plain"
    """How reasoning and answer are told apart: a name in `rewriting.answers`."""

    system_prompt: str | None = "You are a helpful assistant."
    """The first message of every conversation; null for no such message. The default is R2MED's for every model."""

    sampling: Sampling = Sampling()
    """How tokens are drawn, and how many."""

    token_limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    """The service's name for the limit of an answer. OpenAI's reasoning models know only the second name."""

    body: Mapping[str, Any] = Field(default_factory=dict)
    """Further keys of every request, e.g. `top_k: 20` or `chat_template_kwargs: {enable_thinking: true}`."""

    stream: bool = True
    """Whether answers come piece by piece, so that an answer that stalls is noticed. See `for_replicas` for an
    exception."""

    calls: ChatCallPolicy = ChatCallPolicy()
    """How many calls at once, how often and how long."""

    usd_per_million_input_tokens: float | None = Field(default=None, ge=0)
    """The service's price of prompts in US dollars, for the report; None if it is not known."""

    usd_per_million_output_tokens: float | None = Field(default=None, ge=0)
    """The service's price of answers, their reasoning included, in US dollars, for the report; None if it is not
    known."""

    @model_validator(mode="after")
    def _kind_fits(self) -> Self:
        require_plain_address(self.base_url)
        if self.kind == "openai" and self.engine:
            raise ValueError(
                "leave out `engine`: it is a setting of kind 'vllm'; others start a service of kind 'openai'"
            )
        if self.max_replicas < self.min_replicas:
            raise ValueError(f"max_replicas {self.max_replicas} is below min_replicas {self.min_replicas}")
        return self

    @property
    def is_served(self) -> bool:
        return self.kind == "vllm" and self.base_url is None

    def needs(self) -> Needs:
        keys = (self.key_variable,) if self.key_variable else ()
        if not self.is_served:
            return Needs(key_variables=keys)
        how = f"language model {self.name!r} has to be served: {HOW_TO_GET_VLLM}"
        return Needs(
            key_variables=keys,
            modules=(PythonModule("vllm", "vLLM", how),),
            checkpoints=(Source(self.model, self.revision),),
            memory_gb=self.memory_gb,
            workers=self.workers,
        )

    @property
    def how(self) -> str:
        return self.kind

    @property
    def shown_model(self) -> str:
        return self.model

    @property
    def shown_memory(self) -> str:
        return "" if self.base_url else super().shown_memory

    @property
    def shown_revision(self) -> str:
        return "the service's" if self.base_url else revision_cell(self.model, self.revision)

    @property
    def served_as(self) -> str:
        """The model's name in requests."""
        return self.served_name or (self.name if sources.is_folder(self.model) else self.model)

    @property
    def workers(self) -> int:
        """How many workers share the weights of one replica."""
        return int(self.engine.get("tensor_parallel_size", 1)) * int(self.engine.get("pipeline_parallel_size", 1))

    def usd(self, prompt_tokens: int, completion_tokens: int) -> float | None:
        """Return the price of a prompt and its answer in US dollars; None if it is not known."""
        of_input, of_output = self.usd_per_million_input_tokens, self.usd_per_million_output_tokens
        if of_input is None or of_output is None:
            return None
        return (prompt_tokens * of_input + completion_tokens * of_output) / 1e6

    def with_sampling(
        self, *, temperature: float | None = None, top_p: float | None = None, max_tokens: int | None = None
    ) -> Self:
        """Return the row with another sampling. None keeps the row's value."""
        changes = {"temperature": temperature, "top_p": top_p, "max_tokens": max_tokens}
        given = {key: value for key, value in changes.items() if value is not None}
        return self.model_copy(update={"sampling": self.sampling.model_copy(update=given)})

    def for_replicas(self) -> Self:
        """Return the row with limits on calls that suit replicas of this job. Limits that the row itself gives stay.

        There are as many calls at once as all replicas work on. There are more attempts and longer waits, because a
        dead engine takes minutes to start again. No proxy is used, because no proxy knows the way to the replicas. If
        a parser takes the reasoning or calls of tools out of a text, the text isn't streamed: vLLM's parsers lose or
        misplace text around a mark if a piece of the stream holds several tokens (vllm#55195, vllm#43436).
        """
        wanted = {
            "max_in_flight": self.in_flight_per_replica * self.max_replicas,
            "attempts": ATTEMPTS_AT_REPLICAS,
            "idle_timeout_s": IDLE_AT_REPLICAS_S,
            "use_proxies": False,
        }
        changes = {key: value for key, value in wanted.items() if key not in self.calls.model_fields_set}
        stream = self.stream and not PARSERS & self.engine.keys()
        return self.model_copy(update={"calls": self.calls.model_copy(update=changes), "stream": stream})

    def generation_inputs(self) -> dict[str, Any]:
        """Return everything about the model that changes a text, for a generation's key.

        `SPEED_ARGUMENTS` and the address are left out, because they may change while the model doesn't. But the
        address is put in if nothing else tells which model it is: services give the name `default` to very different
        models.

        Raises:
            ConfigError: the folder has no checkpoint.
            NotAtHand: the row names a Hub model without a revision.
        """
        which = {"revision": self.revision} if self.revision else {"base_url": self.base_url}
        service = {"model": self.model, **which}
        engine = {key: value for key, value in self.engine.items() if key not in SPEED_ARGUMENTS}
        return {
            "model": service if self.kind == "openai" else sources.identity(self.model, self.revision),
            "dtype": self.dtype,
            "engine": engine,
            "system_prompt": self.system_prompt,
            "sampling": self.sampling.model_dump(),
            "body": dict(self.body),
        }
