"""One vector per document and per query: made by an encoder here or by a service, and stored as tables."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from r2med_ray.cuts import SideCuts
from r2med_ray.first_stage import Computing, Maker
from r2med_ray.indexing.compression import require_dimensions
from r2med_ray.indexing.embedding import embed_documents, vectors_table
from r2med_ray.indexing.keys import QUERY_VECTORS_FILE, VECTORS_FILE
from r2med_ray.models.catalog.encoders import EncoderRow
from r2med_ray.models.catalog.services import ApiEncoderRow
from r2med_ray.models.networks.task_encoders import TaskEncoders
from r2med_ray.models.services.embeddings import ApiEncoder
from r2med_ray.protocols import Encoder, taken_cuts
from r2med_ray.retrieval.query_construction import prepare_dense
from r2med_ray.settings.compat import Rules
from r2med_ray.types import Document, Query


class VectorMaker(Maker):
    """Embeds documents and queries.

    Args:
        row: says what a generated text is embedded as, and what the vectors are compared by.
        encoder_for: gives the encoder with the prompts of a task.
        embed_dim: how many components of a vector are going to be compared; all if None.
    """

    def __init__(
        self,
        row: EncoderRow | ApiEncoderRow,
        encoder_for: Callable[[str], Encoder],
        embed_dim: int | None = None,
    ) -> None:
        self._row = row
        self._encoder_for = encoder_for
        self._embed_dim = embed_dim
        self._used: Encoder | None = None

    def make_shard(
        self, task: str, documents: Sequence[Document], rows: Sequence[int] | npt.NDArray[np.int64]
    ) -> Mapping[str, pa.Table]:
        """Return columns row, doc_id, vector."""
        return {VECTORS_FILE: embed_documents(self._encoder(task), documents, rows)}

    def make_queries(self, task: str, queries: Sequence[Query], rules: Rules) -> Mapping[str, pa.Table]:
        """Return columns row, doc_id, vector, where row counts the queries and doc_id is a query's id.

        The rules say how a query and its generated texts become one vector.
        """
        vectors_QD = prepare_dense(
            queries,
            self._encoder(task),
            rules=rules,
            expansion_prompt=self._row.expansion_prompt,
            cosine=self._row.similarity == "cosine" or rules.cosine_for_all,
        )
        query_ids = [query.query_id for query in queries]
        return {QUERY_VECTORS_FILE: vectors_table(range(len(query_ids)), query_ids, vectors_QD)}

    def take_cuts(self) -> SideCuts | None:
        """Return what the encoder that was used last has cut since the last call; None if it can't say."""
        return taken_cuts(self._used)

    def _encoder(self, task: str) -> Encoder:
        self._used = self._encoder_for(task)
        require_dimensions(self._row.name, self._embed_dim, self._used.dim)
        return self._used


def encoders_of(row: EncoderRow, computing: Computing) -> TaskEncoders:
    """Load the model of a row for a worker that computes with what `computing` says."""
    return TaskEncoders(
        row,
        device=computing.device,
        token_budget=computing.token_budget,
        gpus=computing.gpus,
        kv_cache_gib=computing.kv_cache_gib,
    )


class ServiceMaker(VectorMaker):
    """Has a service embed documents and queries, with the same prompts for every task."""

    def __init__(self, row: ApiEncoderRow, encoder: ApiEncoder) -> None:
        super().__init__(row, lambda task: encoder)
        self._service = encoder

    def take_usage(self) -> Mapping[str, int]:
        """Return texts, tokens and requests since the last call, as `services.USAGE` names them."""
        return self._service.take_usage()
