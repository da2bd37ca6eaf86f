"""The language models of a job: started with the first prompt, shared by all who ask, ended when released."""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict

from r2med_ray.capacity import CPUS_OF_AN_INGRESS, ClusterCapacity, Pools, require_language_model
from r2med_ray.errors import CapacityError, NotAtHand
from r2med_ray.models.catalog import sources
from r2med_ray.models.catalog.llm_rows import LanguageModelRow
from r2med_ray.models.services.chat import ChatModel, ServedModel
from r2med_ray.protocols import TextGenerator
from r2med_ray.serving.llm_app import Engine, serve_language_model
from r2med_ray.serving.serve_session import HttpAddress, application_name, start_serve
from r2med_ray.settings.resources import LanguageModelResources
from r2med_ray.storage.artifacts import fingerprint


class LanguageModels:
    """Hands out text generators; a model that is to be served gets one application, however many ask for it.

    Args:
        benchmark: its name, which stands in those of its applications.
        resources: ports, and memory of an engine.
        pools: what an engine's workers reserve, and what the other stages do.
        capacity: what the cluster has.
        before_start: called before an engine starts, to end what it would wait for.
        stop: ends all that the models are writing, when it is set.
    """

    def __init__(
        self,
        benchmark: str,
        resources: LanguageModelResources,
        pools: Pools,
        capacity: ClusterCapacity,
        before_start: Callable[[], None] = lambda: None,
        stop: threading.Event | None = None,
    ) -> None:
        self._benchmark = benchmark
        self._resources = resources
        self._pools = pools
        self._capacity = capacity
        self._before_start = before_start
        self._stop = stop
        self._wanted: dict[str, Engine] = {}
        self._running: dict[str, tuple[ExitStack, str]] = {}
        self._turn = threading.Lock()

    def generator(self, row: LanguageModelRow) -> TextGenerator:
        """Return a generator; nothing runs before its first prompt.

        Raises:
            ConfigError: a service without an address.
        """
        if row.is_served:
            return ServedModel(row, lambda: self._address(row), stop=self._stop)
        return ChatModel(row, stop=self._stop)

    def require(self, row: LanguageModelRow) -> None:
        """Count on a model that will have to write.

        Raises:
            NotAtHand: the cluster can never hold it; says what its workers reserve and what the cluster has.
        """
        if not row.is_served:
            return
        engine = self._engine(row)
        try:
            require_language_model(row.name, engine.min_workers, self._pools, self._capacity)
        except CapacityError as error:
            each = f"{engine.gpus:g} GPU" if engine.gpus else f"{engine.cpus:g} CPU"
            raise NotAtHand(f"{engine.min_workers} × {each} for {row.name}", str(error)) from error
        self._wanted[_key(engine)] = engine

    def start_proxy(self) -> HttpAddress | None:
        """Start Serve, or join it, with the ports that the models counted on need; Serve can't open them later."""
        is_needed = bool(self._wanted)
        return start_serve(http=is_needed, host=self._resources.host, port=self._resources.port)

    def fit_beside(self, cpus: float, gpus: float) -> bool:
        """Say whether the cluster has room for all models that are counted on beside what others reserve."""
        for engine in self._wanted.values():
            cpus += engine.min_workers * engine.cpus + CPUS_OF_AN_INGRESS
            gpus += engine.min_workers * engine.gpus
        return cpus <= self._capacity.cpus and gpus <= self._capacity.gpus

    def release(self) -> None:
        """End the applications that were started here; what they reserved is free for what follows."""
        with self._turn:
            for server, _ in self._running.values():
                server.close()
            self._running = {}

    def _address(self, row: LanguageModelRow) -> str:
        """Start a model's application, or return the address of the one that is running."""
        self.require(row)
        engine = self._engine(row)
        with self._turn:
            if _key(engine) not in self._running:
                self._before_start()
                proxy = self.start_proxy()
                assert proxy is not None
                server = ExitStack()
                name = application_name(self._benchmark, row.name, _key(engine))
                address = server.enter_context(serve_language_model(name, engine, proxy))
                self._running[_key(engine)] = server, address
            return self._running[_key(engine)][1]

    def _engine(self, row: LanguageModelRow) -> Engine:
        pool = self._pools.language_model
        is_local = sources.is_folder(row.model) or row.model.startswith(sources.PACKAGE)
        revision = {"revision": row.revision} if row.revision else {}
        dtype = {} if row.dtype == "auto" else {"dtype": row.dtype}
        return Engine(
            name=row.served_as,
            source=str(sources.locate(row.model, None)) if is_local else row.model,
            arguments={**revision, **dtype, "trust_remote_code": row.trust_remote_code, **row.engine},
            min_replicas=row.min_replicas,
            max_replicas=row.max_replicas,
            in_flight_per_replica=row.in_flight_per_replica,
            workers=row.workers,
            cpus=pool.cpus,
            gpus=pool.gpus,
            accelerator=row.accelerator if pool.gpus else None,
            kv_cache_gib=self._resources.kv_cache_gib,
        )


def _key(engine: Engine) -> str:
    return fingerprint(asdict(engine))
