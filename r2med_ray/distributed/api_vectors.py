"""ENCODE by an embedding service: one actor asks it, and what it counted is added up and priced."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from r2med_ray.capacity import Pool
from r2med_ray.distributed.encode import DenseEmbedder, Embedder, VectorEncoding, encode
from r2med_ray.distributed.search import ShardedRetriever
from r2med_ray.distributed.stage_parts import Asked, Done, Workplace
from r2med_ray.distributed.vectors import open_vectors
from r2med_ray.models.catalog.api_rows import ApiEncoderRow, cost_line
from r2med_ray.models.services.api_encoders import ApiEncoder
from r2med_ray.stages.vectors import ApiStage
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import FloatMatrix, Task

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiEncoding(VectorEncoding[ApiEncoderRow]):
    """An embedding service, and where its answers are kept."""

    store: ArtifactStore

    def load(self, threads: int) -> Embedder:
        """Load the service's tokenizer into this process."""
        return _ApiEmbedder(self.row, ApiEncoder(self.row, self.store))


class _ApiEmbedder(DenseEmbedder):
    def __init__(self, row: ApiEncoderRow, encoder: ApiEncoder) -> None:
        super().__init__(row, lambda task: encoder)
        self._encoder = encoder

    def take_usage(self) -> Mapping[str, int]:
        return self._encoder.take_usage()


class ApiParts:
    """An embedding service and its vectors on a cluster."""

    def __init__(self, workplace: Workplace) -> None:
        one_actor = Pool(actors=1, cpus=workplace.pools.encode.cpus)  # so that the row's `max_in_flight` holds
        self._at = replace(workplace, pools=replace(workplace.pools, encode=one_actor))

    def prepare(self, asked: Sequence[Asked[ApiStage]]) -> list[Done]:
        """Have every shard and all queries embedded that have no vectors yet; log what it cost."""
        encoding = self._encoding(asked[0].stage)
        return [
            (stage, unit, replace(report, cost=_told(encoding.row, report.usage)))
            for stage, unit, report in encode(self._at, encoding, asked)
        ]

    def open(self, task: Task, stage: ApiStage) -> ShardedRetriever[FloatMatrix]:
        """Start shard actors over a task's vectors."""
        return open_vectors(
            self._at.store,
            self._encoding(stage),
            task,
            stage.index,
            stage.compat,
            self._at.pools.search,
            drop_identical_ids=stage.drop_identical_ids,
        )

    def _encoding(self, stage: ApiStage) -> ApiEncoding:
        return ApiEncoding(row=stage.row, device="cpu", store=self._at.store)


def _told(row: ApiEncoderRow, usage: Mapping[str, int]) -> str:
    """Log and return the cost of a stage; nothing where nothing was left to do."""
    if not usage:
        return ""
    line = cost_line(row, usage)
    logger.info("%s", line)
    return line
