"""Serves a language model with Ray Serve: vLLM engines behind an OpenAI-compatible interface.

The engines are those of `ray.serve.llm`. They need the extra `llm` (on GPUs) or `llm-cpu`. A benchmark without a
served model doesn't import this module.
"""

import contextlib
import logging
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ray import serve

from r2med_ray.errors import ConfigError
from r2med_ray.models.catalog import vllm
from r2med_ray.models.catalog.language_models import HOW_TO_GET_VLLM, PARSERS
from r2med_ray.serving.serve_session import IDLE_REPLICA_ENDS_S, HttpAddress, end_application
from r2med_ray.serving.start_failures import run_application
from r2med_ray.settings.pools import CPUS_OF_AN_INGRESS
from r2med_ray.settings.resources import NO_PROGRESS_TIMEOUT_S
from r2med_ray.storage.keys import Json

logger = logging.getLogger(__name__)

KV_CACHE_GIB = "VLLM_CPU_KVCACHE_SPACE"
STREAM_INTERVAL_TOKENS = 64
"""Number of tokens of an answer that vLLM sends as one piece. Each piece costs a response, and nobody reads along."""

STREAM_INTERVAL_MS = 1000
"""Milliseconds between two times at which Ray passes on new pieces of an answer. Each time costs processor time in
three processes. Ray's own interval is 50 ms."""

ON_CPU: Mapping[str, Json] = {"enable_chunked_prefill": False}
"""Engine arguments for a CPU. Without them, a prompt that has a seed and is read in parts ends the engine of vLLM
0.29 with the error `CPU Generator does not use offset`."""

QUIET: dict[str, Json] = {"log_level": "WARNING", "enable_access_log": False}
"""Serve's logging: warnings only, so that a job's log has no line per request."""

HEALTH_CHECK_PERIOD_S = 2.0
"""Seconds between two health checks. A replica whose engine died refuses every request until it has failed three
checks. Serve's own period is 10 s."""

IDLE_S = 60.0
"""Seconds after which an engine leaves, once there is too little work. An engine takes minutes to start, and agents
search for seconds. Serve's own number is 600."""

LEAVES_WITHIN_S = 600.0
"""Seconds that an engine which is one too many may take for the answers that it has begun. Serve's own number is 20:
then a long answer would be begun again on another engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """The settings that a replica of a language model is started with."""

    name: str
    """The name of the model in requests."""

    source: str
    """A folder that every node has, or the name of a model on the Hub."""

    arguments: Mapping[str, Json] = field(default_factory=dict)
    """vLLM's engine arguments: max_model_len, dtype, tensor_parallel_size, revision, ..."""

    min_replicas: int = 1
    max_replicas: int = 1
    in_flight_per_replica: int = 256
    """Requests that a replica works on at once. If there are more, Serve adds a replica, up to `max_replicas`."""

    workers: int = 1
    """Processes that share the weights of one replica. `arguments` must ask vLLM for the same number."""

    cpus: float = 1.0
    """CPUs that each worker reserves."""

    gpus: float = 0.0
    """GPUs that each worker reserves. With 0, vLLM computes on the CPU."""

    accelerator: str | None = None
    """Ray's name for the type of GPU that the engine needs, e.g. `A100-80G`."""

    kv_cache_gib: int = 4
    """GiB of memory for keys and values if the engine computes on the CPU."""

    is_read_along: bool = False
    """Whether somebody reads the answers while they are written. Pieces are then as small and as frequent as vLLM's
    and Ray's own."""

    @property
    def min_workers(self) -> int:
        """The number of workers that must run before the model can answer."""
        return max(1, self.min_replicas) * self.workers


@contextlib.contextmanager
def serve_language_model(
    name: str, engine: Engine, address: HttpAddress, *, start_within_s: float = NO_PROGRESS_TIMEOUT_S
) -> Iterator[str]:
    """Run a language model's application during a `with` block.

    Args:
        name: name of the application and of its route.
        engine: the settings of the model's replicas.
        address: the address of Serve's proxies; see `serve_session.start_serve`.
        start_within_s: seconds that the start of the engine may take.

    Yields:
        The base URL for clients of OpenAI's interface.

    Raises:
        ConfigError: vLLM isn't installed, or an engine argument is wrong.
        StageError: the engine didn't start. The message names the model and the cause.
    """
    route = f"/{name}"
    application = _application(engine)
    logger.info("starting %s behind Ray Serve", engine.name)
    what = f"language model {engine.name!r}"
    try:
        options = {"route_prefix": route, "logging_config": QUIET}
        run_application(application, what=what, name=name, within_s=start_within_s, **options)
        yield f"{address.url(route)}/v1"
    finally:
        end_application(name)


def _application(engine: Engine) -> serve.Application:
    try:
        with _logging_as_it_is():
            from ray.serve.llm import LLMConfig, build_openai_app
    except ImportError as error:
        raise ConfigError(
            f"language model {engine.name!r} has to be served by vLLM ({error}): {HOW_TO_GET_VLLM}"
        ) from error
    try:
        config = LLMConfig(
            model_loading_config={"model_id": engine.name, "model_source": engine.source},
            engine_kwargs={**_streaming(engine), **({} if engine.gpus else ON_CPU), **engine.arguments},
            accelerator_type=engine.accelerator,
            placement_group_config={"bundles": [_bundle(engine)] * engine.workers},
            runtime_env={"env_vars": _environment(engine)},
            log_engine_metrics=False,
            experimental_configs=(
                {} if engine.is_read_along else {"stream_batching_interval_ms": STREAM_INTERVAL_MS}
            ),
            deployment_config={
                "ray_actor_options": {"num_cpus": 0},  # Ray adds this to the first bundle, and its default is 1
                "autoscaling_config": {
                    "min_replicas": engine.min_replicas,
                    "max_replicas": engine.max_replicas,
                    # without this number, an LLM deployment of Ray never grows
                    "target_ongoing_requests": engine.in_flight_per_replica,
                    "downscale_delay_s": IDLE_S,
                },
                "graceful_shutdown_timeout_s": LEAVES_WITHIN_S,
                "graceful_shutdown_wait_loop_s": IDLE_REPLICA_ENDS_S,
                "max_constructor_retry_count": 2,
                "health_check_period_s": HEALTH_CHECK_PERIOD_S,
            },
        )
    except ValueError as error:
        raise ConfigError(f"language model {engine.name!r}: {error}") from error
    return build_openai_app({"llm_configs": [config], "ingress_deployment_config": _INGRESS})


@contextlib.contextmanager
def _logging_as_it_is() -> Iterator[None]:
    """Undo the changes that importing `ray.serve.llm` makes to the root logger: JSON lines and the level INFO.

    What vLLM logs in this process goes to the log too, and not among the results on the standard output.
    """
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def _streaming(engine: Engine) -> dict[str, Json]:
    """Return the engine arguments that cut an answer into pieces.

    An engine with a parser sends single tokens, because the parser may misread longer pieces.
    """
    whole = engine.is_read_along or PARSERS & engine.arguments.keys()
    return {} if whole else {"stream_interval": STREAM_INTERVAL_TOKENS}


def _bundle(engine: Engine) -> dict[str, float]:
    return {"CPU": engine.cpus} | ({"GPU": engine.gpus} if engine.gpus else {})


def _environment(engine: Engine) -> dict[str, str]:
    """Return environment variables for the engine's processes, which then send no telemetry and log no prompts."""
    private = {**vllm.PRIVATE, "RAYLLM_ENABLE_REQUEST_PROMPT_LOGS": "0"}
    return private | ({} if engine.gpus else {KV_CACHE_GIB: str(engine.kv_cache_gib)})


_INGRESS: Mapping[str, Any] = {
    "num_replicas": 1,
    "graceful_shutdown_wait_loop_s": IDLE_REPLICA_ENDS_S,
    "ray_actor_options": {
        "num_cpus": CPUS_OF_AN_INGRESS,
        "runtime_env": {"env_vars": {"RAY_SERVE_LLM_ROUTER_HTTP_TIMEOUT": "86400"}},
    },
}
"""Settings of the deployment in front of the engines. Ray's default is two replicas with a whole CPU each, which is
too much for a small machine. Ray also gives up an answer that doesn't begin within ten minutes; here the row of the
model says how long an answer may take."""
