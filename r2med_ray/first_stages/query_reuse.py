"""Vectors of some queries of a task, taken from the stored vectors of all of its queries."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from r2med_ray.first_stage import ShardedFirstStage
from r2med_ray.first_stages.query_blocks import blocks
from r2med_ray.indexing.keys import QUERY_VECTORS_FILE
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import ArtifactKey
from r2med_ray.storage.listing import made_for
from r2med_ray.types import Query, Task

WHOLE = "taken_from"
"""Attribute: names of the artefacts with the vectors of all queries."""

_ROW = "row"


def take_from_whole(
    store: ArtifactStore,
    task: Task,
    first_stage: ShardedFirstStage,
    queries: Sequence[Query],
    key: ArtifactKey,
    device: str,
) -> None:
    """Store the vectors of queries, if those of the whole task are stored and theirs are not.

    The vectors of one block of the task's queries are read at a time. Nothing is stored for queries that a rewriter
    changed. What was cut off a part of the queries is not known.
    """
    positions = {query: position for position, query in enumerate(task.all_queries)}
    if not queries or not all(query in positions for query in queries) or store.find(key):
        return
    of_task = blocks(task.all_queries)
    keys = [first_stage.queries_key(task.name, block, device) for block in of_task]
    whole = [artifact for artifact in store.find_all(filter(None, keys)) if artifact is not None]
    if len(whole) < len(keys):
        return
    wanted = np.array([positions[query] for query in queries])
    order = np.argsort(wanted)
    starts = np.cumsum([0, *map(len, of_task)])
    parts = np.split(wanted[order], np.searchsorted(wanted[order], starts[1:-1]))
    taken = [
        artifact.table(QUERY_VECTORS_FILE).take(part - start)
        for artifact, part, start in zip(whole, parts, starts, strict=False)
        if len(part)
    ]
    table = pa.concat_tables(taken).take(np.argsort(order))
    if _ROW in table.column_names:  # counts the queries
        rows = pa.array(np.arange(len(queries)), table.schema.field(_ROW).type)
        table = table.set_column(table.column_names.index(_ROW), table.schema.field(_ROW), rows)
    with store.create(key) as writer:
        writer.attributes |= {WHOLE: [artifact.name for artifact in whole], **made_for(task.name, first_stage.label)}
        writer.write_table(QUERY_VECTORS_FILE, table)
