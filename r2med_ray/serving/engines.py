"""The engine that a language model's row asks for, and the application that a job starts for it."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

from r2med_ray.models.catalog import sources
from r2med_ray.models.catalog.language_models import LanguageModelRow
from r2med_ray.serving.llm_app import Engine, serve_language_model
from r2med_ray.serving.serve_session import HttpAddress, application_name
from r2med_ray.settings.pools import Pool
from r2med_ray.settings.resources import LanguageModelResources
from r2med_ray.storage.artifacts import fingerprint


def engine_of(row: LanguageModelRow, pool: Pool, resources: LanguageModelResources) -> Engine:
    """Return what a replica of a model is started with; rows that differ in sampling alone have one engine.

    Args:
        row: of a model that the job serves.
        pool: what each of its workers reserves.
        resources: memory of an engine on the CPU.
    """
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
        kv_cache_gib=resources.kv_cache_gib,
    )


def engine_digest(engine: Engine) -> str:
    """Return what is the same for two engines only if they are."""
    return fingerprint(asdict(engine))


@contextmanager
def served_engine(benchmark: str, row: LanguageModelRow, engine: Engine, proxy: HttpAddress) -> Iterator[str]:
    """Run an engine's application for the length of a `with` block, and yield its address for clients of OpenAI's."""
    name = application_name(benchmark, row.name, engine_digest(engine))
    with serve_language_model(name, engine, proxy) as address:
        yield address
