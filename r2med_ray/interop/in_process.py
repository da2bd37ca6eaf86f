"""A first stage over documents that this process holds: analysed or encoded, indexed in shards, searched; no Ray.

Shape letters: D embedding size.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from r2med_ray.errors import ConfigError
from r2med_ray.indexing.bm25 import BM25Index
from r2med_ray.indexing.dense import EXACT, DenseIndex
from r2med_ray.indexing.statistics import CorpusStatistics, ShardTerms
from r2med_ray.models.catalog.devices import best_device
from r2med_ray.models.networks.task_encoders import TaskEncoders
from r2med_ray.protocols import Encoder
from r2med_ray.retrieval.query_construction import lexical_query, prepare_dense
from r2med_ray.retrieval.search import PlainRetriever
from r2med_ray.settings.resources import ResourcesConfig
from r2med_ray.stages.first_stage import FirstStage
from r2med_ray.stages.lexical import LexicalStage
from r2med_ray.stages.vectors import DenseStage
from r2med_ray.types import Document, FloatMatrix, Query

Shards: TypeAlias = Sequence[Sequence[Document]]


def open_in_process(
    stage: FirstStage, documents: Sequence[Document], task: str, resources: ResourcesConfig | None = None
) -> PlainRetriever[Any]:
    """Index documents with a first stage of a benchmark file.

    Args:
        stage: of a kind in `KINDS`; a model is loaded here.
        documents: the whole corpus, no id twice.
        task: name of the task, which may choose an encoder's instruction.
        resources: documents per shard and token budget; the defaults of a benchmark file where they are left out.

    Raises:
        ConfigError, DataError: only a cluster runs the stage, there is no document, or the checkpoint isn't there or
            doesn't fit its row.
    """
    if type(stage) not in KINDS or stage.compat != "none":
        raise ConfigError(
            f"first stage {stage.label!r}, compat {stage.compat!r}: only a cluster runs it, e.g. `local`"
        )
    resources = resources or ResourcesConfig()
    size = resources.documents_per_shard
    shards = [documents[start : start + size] for start in range(0, len(documents), size)]
    return KINDS[type(stage)](stage, shards, task, resources)


def open_dense(
    tag: str, encoder: Encoder, shards: Shards, *, index: str = EXACT, dot: bool = False, drop: bool = False
) -> PlainRetriever[FloatMatrix]:
    """Embed documents shard by shard and index them.

    Args:
        tag: tag of the runs.
        encoder: any; its vectors have unit length where cosine is meant.
        shards: the documents of each shard.
        index: FAISS factory string.
        dot: whether the model is scored by inner product and not by cosine.
        drop: leave out a document whose id is the query's.
    """
    indexes = [
        DenseIndex.build([document.doc_id for document in documents], encoder.encode_documents(documents), index)
        for documents in shards
    ]
    prepare = partial(prepare_dense, encoder=encoder, compat="none", expansion_prompt="none", cosine=not dot)
    return PlainRetriever(tag, prepare, indexes, drop_identical_ids=drop)


def _dense(stage: DenseStage, shards: Shards, task: str, resources: ResourcesConfig) -> PlainRetriever[FloatMatrix]:
    encoders = TaskEncoders(stage.row, device=best_device(), token_budget=resources.encode.token_budget)
    return open_dense(
        stage.label,
        encoders.for_task(task),
        shards,
        index=stage.index,
        dot=stage.row.similarity == "dot",
        drop=stage.drop_identical_ids,
    )


def _lexical(stage: LexicalStage, shards: Shards, task: str, resources: ResourcesConfig) -> PlainRetriever[list[str]]:
    analyzer = stage.row.analyzer
    terms = [ShardTerms.from_texts((document.content for document in documents), analyzer) for documents in shards]
    statistics = CorpusStatistics.merge(map(CorpusStatistics.of_shard, terms))
    indexes = [
        BM25Index(of_shard, [document.doc_id for document in documents], statistics, stage.row)
        for of_shard, documents in zip(terms, shards, strict=True)
    ]
    return PlainRetriever(stage.label, _texts, indexes, drop_identical_ids=stage.drop_identical_ids)


def _texts(queries: Sequence[Query]) -> list[str]:
    return [lexical_query(query, "none") for query in queries]


KINDS: Mapping[type[FirstStage], Callable[[Any, Shards, str, ResourcesConfig], PlainRetriever[Any]]] = {
    LexicalStage: _lexical,
    DenseStage: _dense,
}
"""Kind of first stage → what indexes it here."""
