"""The table of every system's values on every query: `per_query.parquet`."""

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from r2med_ray.reporting.record import BenchmarkRecord
from r2med_ray.storage.keys import Json

_SCHEMA = pa.schema(
    {
        "system": pa.string(),
        "task": pa.string(),
        "query_id": pa.string(),
        "num_positives": pa.int32(),
        "measure": pa.string(),
        "value": pa.float64(),
    }
)


def per_query_table(record: BenchmarkRecord) -> pa.Table:
    """Return one row per system, task, query and measure; `num_positives` is 0 if the query is not in the mean."""
    rows = [
        (result.system, result.task, query_id, result.evaluation.num_positives.get(query_id, 0), measure, value)
        for result in record.results
        for query_id, values in result.evaluation.per_query.items()
        for measure, value in values.items()
    ]
    return pa.table([list(column) for column in zip(*rows, strict=True)] or [[]] * len(_SCHEMA), schema=_SCHEMA)


def read_per_query(path: Path) -> Mapping[tuple[str, str], dict[str, Json]]:
    """Return (system, task) → the two fields of `Evaluation` that the table holds."""
    found: dict[tuple[str, str], dict[str, Json]] = {}
    table = pq.ParquetFile(path).read(columns=_SCHEMA.names)
    for system, task, query_id, num_positives, measure, value in zip(*map(_values, table.columns), strict=True):
        fields = found.setdefault((system, task), {"per_query": {}, "num_positives": {}})
        fields["per_query"].setdefault(query_id, {})[measure] = value
        if num_positives:
            fields["num_positives"][query_id] = num_positives
    return found


def _values(column: pa.ChunkedArray) -> list[Json]:
    """Return the values of a column; each different text is made once."""
    if not pa.types.is_string(column.type):
        return list(column.to_pylist())
    encoded = column.combine_chunks().dictionary_encode()
    texts = encoded.dictionary.to_pylist()
    return [texts[index] for index in encoded.indices.to_pylist()]
