"""The engine for a language model's row, and the application that a job starts for the engine."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

from r2med_ray.models.catalog import sources
from r2med_ray.models.catalog.language_models import LanguageModelRow
from r2med_ray.serving.llm_app import Engine, serve_language_model
from r2med_ray.serving.serve_session import HttpAddress, application_name
from r2med_ray.settings.pools import Pool
from r2med_ray.settings.resources import LanguageModelResources
from r2med_ray.storage.keys import fingerprint


def engine_of(row: LanguageModelRow, pool: Pool, resources: LanguageModelResources) -> Engine:
    """Return the settings of a model's replicas. Rows that differ in sampling alone have the same settings.

    Args:
        row: the row of a model that the job serves.
        pool: the CPUs and GPUs that each worker of the model reserves.
        resources: the memory of an engine on the CPU.
    """
    is_local = sources.is_folder(row.model) or row.model.startswith(sources.PACKAGE)
    revision = {"revision": row.revision} if row.revision else {}
    only_tensors = {} if row.allow_pickle else {"load_format": "safetensors"}  # else vLLM also reads a `.bin`
    dtype = {} if row.dtype == "auto" else {"dtype": row.dtype}
    return Engine(
        name=row.served_as,
        source=str(sources.locate(row.model, None)) if is_local else row.model,
        arguments={**revision, **dtype, **only_tensors, "trust_remote_code": row.trust_remote_code, **row.engine},
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
    """Return a digest of an engine's settings. Two engines have the same digest only if their settings are equal."""
    return fingerprint(asdict(engine))


@contextmanager
def served_engine(
    benchmark: str, row: LanguageModelRow, engine: Engine, proxy: HttpAddress, *, start_within_s: float
) -> Iterator[str]:
    """Run an engine's application during a `with` block, and yield its URL for clients of OpenAI's interface."""
    name = application_name(benchmark, row.name, engine_digest(engine))
    with serve_language_model(name, engine, proxy, start_within_s=start_within_s) as address:
        yield address
