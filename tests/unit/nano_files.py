"""Writes small Nano sets in HAKARI-Bench's layout for tests."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from r2med_ray.corpus.sources import TaskSource

SPLIT = "NanoTiny"
DOCUMENTS = {"d1": "cat sits mat", "d2": "dog barks loud", "d3": "bird flies high", "d4": "fish swims deep"}
QUERIES = {"q1": "cat", "q2": "dog", "q3": "zzz"}
QRELS = [("q1", "d1"), ("q2", "d2"), ("q3", "d4")]
DENSE = {"q1": ["d1", "d3"], "q2": ["d3", "d2"], "q3": ["d2", "d1"]}


def write_table(path: Path, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    values = [list(column) for column in zip(*rows, strict=True)]
    pq.write_table(pa.table(dict(zip(columns, values, strict=True))), path)


def write_nano(
    folder: Path,
    *,
    documents: Mapping[object, str] = DOCUMENTS,
    queries: Mapping[object, str] = QUERIES,
    qrels: Iterable[Sequence[object]] = tuple(QRELS),
    **candidates: Mapping[str, Sequence[str]],
) -> TaskSource:
    """Write the three configs, and one more config for each given list."""
    write_table(folder / "corpus" / f"{SPLIT}.parquet", ["_id", "text"], documents.items())
    write_table(folder / "queries" / f"{SPLIT}.parquet", ["_id", "text"], queries.items())
    write_table(folder / "qrels" / f"{SPLIT}.parquet", ["query-id", "corpus-id"], qrels)
    for config, lists in candidates.items():
        write_table(folder / config / f"{SPLIT}.parquet", ["query-id", "corpus-ids"], lists.items())
    return TaskSource(name=SPLIT, suite=SPLIT, folder=folder, layout="nano", split=SPLIT)
