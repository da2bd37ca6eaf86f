"""Says in lines what a benchmark will reserve."""

from collections.abc import Iterable, Iterator, Set

from r2med_ray.models.catalog.language_models import LanguageModelRow
from r2med_ray.settings.pools import Pool, Pools


def pools_used(pools: Pools, work: Set[str], *, scores: bool) -> Iterator[str]:
    """Yield a line for each pool that has something to do.

    Args:
        pools: what each stage reserves.
        work: the kinds of work of all first stages.
        scores: whether pairs are scored.
    """
    is_used = {
        "encode": bool(work & {"encode", "ask a service"}),
        "tokenize": "tokenize" in work,
        "search": bool(work - {"nothing"}),
        "rerank": scores,
    }
    for name in (name for name, used in is_used.items() if used):
        yield f"{name:9} {getattr(pools, name).describe()}"


def engines_used(pool: Pool, models: Iterable[LanguageModelRow]) -> Iterator[str]:
    """Yield a line for each language model that is served.

    Args:
        pool: what a worker of an engine reserves.
        models: the rows of the language models; one may come several times.
    """
    for name, row in {row.name: row for row in models if row.is_served}.items():
        gpus = f" + {pool.gpus:g} GPU" if pool.gpus else ""
        replicas = f"{row.min_replicas}-{row.max_replicas} replicas"
        yield f"language model {name}: {replicas}, each {row.workers} × {pool.cpus:g} CPU{gpus}"
