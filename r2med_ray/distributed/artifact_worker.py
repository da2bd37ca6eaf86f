"""What an actor of `preparing` holds. It has a module of its own, because each actor begins with importing it."""

from collections.abc import Mapping

import pyarrow as pa

from r2med_ray.first_stage import Computing, ShardedFirstStage
from r2med_ray.first_stages.making import make_queries, make_shard, rows_of_work
from r2med_ray.first_stages.preparation import Piece, QueryWork
from r2med_ray.storage.artifacts import ArtifactStore


class ArtifactWorker:
    """Holds in one actor what makes the artefacts of a first stage; makes and stores one after another."""

    def __init__(self, store: ArtifactStore, first_stage: ShardedFirstStage, computing: Computing) -> None:
        self._store = store
        self._maker = first_stage.load(store, computing)
        self._computing = computing

    def __call__(self, work: Piece, table: pa.Table) -> Mapping[str, float]:
        """Store what is made of a shard or a piece of it, or of queries; return the numbers of `make_shard`."""
        if isinstance(work, QueryWork):
            return make_queries(self._store, self._maker, work, self._computing)
        return make_shard(self._store, self._maker, work, rows_of_work(table, work), self._computing)
