"""Makes an `Encoder` from an encoder of mteb, and a cross-encoder for mteb from a pair scorer of ours.

Shape letters: Q queries, B texts in one call, D embedding size.
"""

import contextlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from r2med_ray.errors import ConfigError
from r2med_ray.interop.mteb_tasks import import_mteb, mteb_task
from r2med_ray.protocols import PairScorer
from r2med_ray.reporting.mteb_results import ORGANISATION
from r2med_ray.types import Document, FloatMatrix
from r2med_ray.vectors import unit_length

COSINE = ("cosine", None)
"""Similarity functions that mean cosine. mteb uses cosine for a model that names none."""


class MtebEncoder:
    """An encoder of mteb, with the prompts that mteb chooses for a task.

    Args:
        model: an `mteb.EncoderProtocol`, e.g. `mteb.get_model(name, revision=...)`. An actor must load it itself.
        task: the task's name, ours or MTEB's. If mteb doesn't know the task, the model is told only the name.
        batch_size: number of texts in a forward pass. The default is mteb's own.

    Raises:
        ConfigError: mteb is not installed, or the model compares its vectors by something else than cosine or inner
            product.
    """

    def __init__(self, model: Any, task: str, *, batch_size: int = 32) -> None:
        similarity = model.mteb_model_meta.similarity_fn_name
        if similarity not in (*COSINE, "dot"):
            raise ConfigError(
                f"{model.mteb_model_meta.name}: compares vectors by {similarity}; an index needs cosine or dot"
            )
        self.dot = similarity == "dot"
        self._model = model
        self._metadata = task_metadata(task)
        self._batch_size = batch_size
        self._dim: int = self.encode_plain(["dimension"]).shape[1]

    @property
    def dim(self) -> int:
        return self._dim

    def encode_queries(self, texts: Sequence[str]) -> FloatMatrix:
        """Return float32 of shape (Q, D). Row i is the vector of texts[i], encoded as a query."""
        return self._encode({"id": _numbers(texts), "text": list(texts)}, "query")

    def encode_documents(self, documents: Sequence[Document]) -> FloatMatrix:
        """Return float32 of shape (B, D). Row i is the vector of documents[i], encoded as a document."""
        columns = {
            "id": [document.doc_id for document in documents],
            "title": [document.title for document in documents],
            "text": [document.text for document in documents],
        }
        return self._encode(columns, "document")

    def encode_plain(self, texts: Sequence[str]) -> FloatMatrix:
        """Return float32 of shape (B, D). The texts are encoded neither as queries nor as documents.

        mteb may still use a prompt of the task.
        """
        return self._encode({"text": list(texts)}, None)

    def _encode(self, columns: dict[str, list[str]], side: str | None) -> FloatMatrix:
        from datasets import Dataset
        from mteb._create_dataloaders import create_dataloader
        from mteb.types import PromptType

        if not columns["text"]:
            return np.empty((0, self.dim), np.float32)
        prompt_type = PromptType(side) if side else None
        batches = create_dataloader(
            Dataset.from_dict(columns),
            task_metadata=self._metadata,
            prompt_type=prompt_type,
            batch_size=self._batch_size,
        )
        encoded = self._model.encode(
            batches,
            task_metadata=self._metadata,
            hf_split="test",
            hf_subset="default",
            prompt_type=prompt_type,
            batch_size=self._batch_size,
            show_progress_bar=False,
        )
        on_cpu = encoded if isinstance(encoded, np.ndarray) else encoded.detach().float().cpu()
        vectors_BD: FloatMatrix = np.ascontiguousarray(on_cpu, np.float32)
        return vectors_BD if self.dot else unit_length(vectors_BD)


class MtebCrossEncoder:
    """A pair scorer of ours as mteb's `CrossEncoderProtocol`, for a task after `convert_to_reranking`.

    Call the task's `load_data` before its first stage. Otherwise mteb unloads the data after `evaluate`, and
    `convert_to_reranking` loads data of R2MED's tasks that mteb 2.26.24 can't read (`'NoneType' object is not
    iterable`).

    Args:
        scorer: e.g. `models.networks.pair_scorers.build_pair_scorer(row, catalog)`.
        name: the name of the scorer's row.
        revision: the revision of the scorer's weights.
    """

    def __init__(self, scorer: PairScorer, name: str, revision: str) -> None:
        import_mteb()
        from mteb.models import ModelMeta

        self._scorer = scorer
        self.mteb_model_meta = ModelMeta.create_empty(
            {
                "name": f"{ORGANISATION}/{name.replace('/', '_')}",
                "revision": revision,
                "model_type": ["cross-encoder"],
            }
        )

    def predict(self, inputs1: Any, inputs2: Any, **_: Any) -> FloatMatrix:
        """Return float32 of shape (B,): one score per pair of a query and a document."""
        queries = [text for batch in inputs1 for text in batch["text"]]
        documents = [text for batch in inputs2 for text in batch["text"]]
        return np.array(self._scorer.score_pairs(list(zip(queries, documents, strict=True))), np.float32)


def task_metadata(task: str) -> Any:
    """Return mteb's metadata of a task. A task that mteb lacks gets the least metadata that mteb's models need."""
    import_mteb()
    from mteb.abstasks.task_metadata import TaskMetadata

    with contextlib.suppress(ConfigError):
        return mteb_task(task).metadata
    return TaskMetadata(
        name=task,
        description=f"{task}, a collection outside MTEB",
        dataset={"path": "outside/mteb", "revision": "none"},
        type="Retrieval",
        category="t2t",
        modalities=["text"],
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        main_score="ndcg_at_10",
    )


def _numbers(texts: Sequence[str]) -> list[str]:
    return [str(number) for number in range(len(texts))]
