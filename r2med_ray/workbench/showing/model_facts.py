"""What a report says of the models of a system: size, dimensions and licence, and where they are from."""

from collections.abc import Iterator
from dataclasses import replace

from r2med_ray.approximations import Approximation
from r2med_ray.first_stage import FirstStage
from r2med_ray.first_stages.query_blocks import blocks
from r2med_ray.first_stages.vectors import VectorFirstStage
from r2med_ray.indexing.compression import WHOLE
from r2med_ray.indexing.embedding import read_vectors
from r2med_ray.indexing.keys import QUERY_VECTORS_FILE
from r2med_ray.models.catalog.row import Row
from r2med_ray.models.catalog.sources import is_on_hub
from r2med_ray.pipeline import Ranked
from r2med_ray.reporting.part_records import ModelRecord
from r2med_ray.retrieval.searches import searches_made
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.systems import ResolvedSystem
from r2med_ray.types import Query, Task


def model_records(
    store: ArtifactStore, device: str, task: Task, system: ResolvedSystem, ranked: Ranked
) -> tuple[ModelRecord, ...]:
    """Return the facts of a system's models, in the order of the flow.

    Args:
        store: has the vectors of queries, which say how many dimensions an encoder has.
        device: what encoders compute on, which is part of the keys of what they made.
        task: a task that the system has ranked.
        system: the system.
        ranked: what the system did with the task.
    """
    searches = searches_made(ranked.rewriting, system.combine)
    return tuple(_models(store, device, task, system, searches[0].queries if searches else task.queries))


def sized(
    store: ArtifactStore, device: str, task: Task, system: ResolvedSystem, ranked: Ranked
) -> tuple[Approximation, ...]:
    """Return what a system's approximate searches missed, with the bytes of compressed vectors.

    The arguments are those of `model_records`.
    """
    searches = searches_made(ranked.rewriting, system.combine)
    queries = searches[0].queries if searches else task.queries
    by_label = {each.label: each for each in system.searched_with}

    def with_bytes(missed: Approximation) -> Approximation:
        first_stage = by_label[missed.search]
        dimension = _dimension(store, device, task, first_stage, queries)
        if not isinstance(first_stage, VectorFirstStage) or not dimension or first_stage.compression == WHOLE:
            return missed
        of_first_pass = first_stage.compression.num_bytes(dimension)
        return replace(missed, bytes_per_document=of_first_pass, exact_bytes=WHOLE.num_bytes(dimension))

    return tuple(map(with_bytes, ranked.approximations))


def _models(
    store: ArtifactStore, device: str, task: Task, system: ResolvedSystem, queries: tuple[Query, ...]
) -> Iterator[ModelRecord]:
    if system.language_model is not None:
        yield _record("rewriter", system.language_model)
    for first_stage in system.first_stages:
        if isinstance(first_stage.row, Row):
            yield _record("retriever", first_stage.row, _dimension(store, device, task, first_stage, queries))
    for reranker in system.rerankers:
        yield _record("reranker", reranker.scorer or reranker.model or reranker.row)


def _record(part: str, row: Row, dimension: int | None = None) -> ModelRecord:
    model = row.shown_model
    return ModelRecord(
        part=part,
        name=row.name,
        model=model,
        revision=row.revision or "",
        billions=row.billions,
        dimension=dimension,
        license=row.shown_license,
        on_hub=bool(row.needs().checkpoints) and is_on_hub(model),
    )


def _dimension(
    store: ArtifactStore, device: str, task: Task, first_stage: FirstStage, queries: tuple[Query, ...]
) -> int | None:
    """Return the size of an encoder's vectors; None for another kind, and if the vectors of queries aren't stored."""
    if not isinstance(first_stage, VectorFirstStage):
        return None
    artifact = store.find(first_stage.queries_key(task.name, blocks(queries)[0], device))
    return int(read_vectors(artifact.table(QUERY_VECTORS_FILE)).vectors.shape[1]) if artifact else None
