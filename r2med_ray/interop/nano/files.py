"""Writes the Parquet files of a Nano set: one folder per config, one file per split."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from r2med_ray.corpus.layouts import LAYOUTS
from r2med_ray.interop.nano.pool import NanoPool
from r2med_ray.types import DocId, QueryId

_TEXTS = pa.schema([("_id", pa.string()), ("text", pa.string())])
_QRELS = pa.schema([("query-id", pa.string()), ("corpus-id", pa.string())])
_LISTS = pa.schema([("query-id", pa.string()), ("corpus-ids", pa.list_(pa.string()))])


def write_split(
    folder: Path, split: str, pool: NanoPool, candidates: Mapping[str, Mapping[QueryId, Sequence[DocId]]]
) -> None:
    """Write a pool and its ranked lists as one split.

    Args:
        folder: the folder of the set.
        split: name of the task.
        pool: goes into the configs `corpus`, `queries` and `qrels`.
        candidates: `bm25`, `dense` or `reranking_hybrid` → a list for every query.
    """
    layout = LAYOUTS["nano"]
    texts = {
        layout.corpus[0]: [(document.doc_id, document.text) for document in pool.documents],
        layout.queries[0]: [(query.query_id, query.text) for query in pool.queries],
    }
    for pattern, rows in texts.items():
        _write(folder / pattern.format(split=split), rows, _TEXTS)
    judged = [(query_id, doc_id) for query_id, grades in pool.qrels.items() for doc_id in grades]
    _write(folder / layout.qrels[0].format(split=split), judged, _QRELS)
    for name, lists in candidates.items():
        ranked = [(query.query_id, list(lists[query.query_id])) for query in pool.queries]
        _write(folder / layout.ranked_lists[name][0].format(split=split), ranked, _LISTS)


def _write(path: Path, rows: Sequence[tuple[object, ...]], schema: pa.Schema) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    pq.write_table(pa.table([list(column) for column in columns], schema=schema), path, compression="zstd")
