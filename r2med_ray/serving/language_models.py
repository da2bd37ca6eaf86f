"""The language models of a job: started with the first prompt, shared by all who ask, ended when released."""

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from r2med_ray.capacity import CPUS_FOR_READING, CPUS_OF_AN_INGRESS, ClusterCapacity, Pool, require_language_model
from r2med_ray.config import LanguageModelResources
from r2med_ray.models import sources
from r2med_ray.models.chat import ChatModel
from r2med_ray.models.llm_rows import LanguageModelRow
from r2med_ray.protocols import ChatPrompt, Completion, TextGenerator
from r2med_ray.serving.llm_app import Engine, serve_language_model
from r2med_ray.serving.serve_session import start_serve


class LanguageModels:
    """Hands out text generators; a model that is to be served gets one application, however many ask for it.

    Args:
        prefix: of the names of its applications.
        resources: ports, and what an engine reserves.
        pool: CPUs and GPUs of each of an engine's workers.
        capacity: what the cluster has.
    """

    def __init__(self, prefix: str, resources: LanguageModelResources, pool: Pool, capacity: ClusterCapacity) -> None:
        self._prefix = prefix
        self._resources = resources
        self._pool = pool
        self._capacity = capacity
        self._servers: dict[str, ExitStack] = {}
        self._addresses: dict[str, str] = {}
        self._workers: dict[str, int] = {}
        self._turn = threading.Lock()

    def generator(self, row: LanguageModelRow, base_url: str | None = None) -> TextGenerator:
        """Return a generator; nothing runs before its first prompt.

        Raises:
            CapacityError: the model is to be served, and the cluster can't ever hold it.
            ConfigError: a service without an address.
        """
        if base_url or row.base_url or row.kind == "openai":
            return ChatModel(row, base_url=base_url)
        workers = row.min_replicas * _engine(row, self._resources, self._pool).workers
        require_language_model(row.name, workers, self._pool, self._capacity)
        self._workers[row.served_as] = workers
        return ServedModel(row, lambda: self._address(row))

    def fit_beside(self, pool: Pool) -> bool:
        """Say whether the cluster has room for all models that were asked for and one actor of another pool."""
        workers = sum(self._workers.values())
        cpus = workers * self._pool.cpus + len(self._workers) * CPUS_OF_AN_INGRESS + CPUS_FOR_READING
        gpus = workers * self._pool.gpus
        return cpus + pool.cpus <= self._capacity.cpus and gpus + pool.gpus <= self._capacity.gpus

    def release(self) -> None:
        """End the applications that were started here; their replicas are free for what follows."""
        with self._turn:
            for server in self._servers.values():
                server.close()
            self._servers = {}
            self._addresses = {}

    def _address(self, row: LanguageModelRow) -> str:
        """Start a model's application, or return the address of the one that is running."""
        with self._turn:
            if row.served_as not in self._addresses:
                resources = self._resources
                address = start_serve(http=True, host=resources.host, port=resources.port)
                assert address is not None
                server = ExitStack()
                name = f"{self._prefix}-{row.name}"
                engine = _engine(row, resources, self._pool)
                self._addresses[row.served_as] = server.enter_context(serve_language_model(name, engine, address))
                self._servers[row.served_as] = server
            return self._addresses[row.served_as]


class ServedModel:
    """A language model whose server is started by the first prompt.

    Args:
        row: the model.
        address: starts the server, or returns the address of the one that is running.
    """

    def __init__(self, row: LanguageModelRow, address: Callable[[], str]) -> None:
        self._row = row
        self._address = address

    def inputs(self) -> Mapping[str, Any]:
        """Return everything about model and sampling, except seeds, that changes a text, for artefact keys."""
        return self._row.generation_inputs()

    def generate(
        self, prompts: Sequence[ChatPrompt], *, keep: Callable[[int, Completion], None] | None = None
    ) -> list[Completion]:
        """Return one completion per prompt, in order; see `protocols.TextGenerator`."""
        return ChatModel(self._row, base_url=self._address()).generate(prompts, keep=keep) if prompts else []


def _engine(row: LanguageModelRow, resources: LanguageModelResources, pool: Pool) -> Engine:
    source = str(sources.locate(row.model, row.revision)) if _is_local(row.model) else row.model
    revision = {"revision": row.revision} if row.revision else {}
    dtype = {} if row.dtype == "auto" else {"dtype": row.dtype}
    return Engine(
        name=row.served_as,
        source=source,
        arguments={**revision, **dtype, "trust_remote_code": row.trust_remote_code, **row.engine},
        min_replicas=row.min_replicas,
        max_replicas=row.max_replicas,
        in_flight_per_replica=row.in_flight_per_replica,
        cpus=pool.cpus,
        gpus=pool.gpus,
        accelerator=row.accelerator if pool.gpus else None,
        kv_cache_gib=resources.kv_cache_gib,
    )


def _is_local(model: str) -> bool:
    return sources.is_folder(model) or model.startswith(sources.PACKAGE)
