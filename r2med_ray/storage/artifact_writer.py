"""Takes the files of one artefact: writes them into the folder of one attempt, or holds them for the manifest."""

import hashlib
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from r2med_ray.storage.keys import Json
from r2med_ray.storage.manifests import StoredFile
from r2med_ray.storage.places import Place


@dataclass(slots=True)
class ArtifactWriter:
    """Takes the files of one artefact. `attributes` may be filled in until the writer closes.

    Args:
        place: where the store is.
        folder: the attempt's folder; no file is written there if the manifest holds all.
        is_text: whether the files are texts in UTF-8, all of which the manifest holds.
    """

    place: Place
    folder: str
    is_text: bool = False
    attributes: dict[str, Json] = field(default_factory=dict)
    files: dict[str, StoredFile] = field(default_factory=dict)

    @property
    def filesystem(self) -> fs.FileSystem:
        """What the files of `files` are read back from."""
        return self.place.filesystem

    def write(self, file_name: str, content: bytes | pa.Buffer) -> None:
        path = f"{self.folder}/{file_name}"
        view = memoryview(content)
        if self.is_text:
            self.files[file_name] = StoredFile(path, view.nbytes, content=view.tobytes())
            return
        self.place.write(path, view)
        self.files[file_name] = StoredFile(path, view.nbytes, hashlib.sha256(view).hexdigest())

    def write_table(self, file_name: str, table: pa.Table) -> None:
        """Write a table as a file of `as_parquet`."""
        self.write(file_name, as_parquet(table))


def as_parquet(table: pa.Table) -> pa.Buffer:
    """Return a Parquet file of one row group, whose bytes depend on the table alone."""
    sink = pa.BufferOutputStream()
    rows = max(1, table.num_rows)
    pq.write_table(table, sink, row_group_size=rows, compression="zstd", **_encodings(table.schema))
    return sink.getvalue()


def _encodings(schema: pa.Schema) -> dict[str, Any]:
    """Return how Parquet encodes a table that has lists of floats, such as vectors; nothing for other tables.

    Parquet's usual dictionary of all components gains nothing, and takes six times as long to read in float16. The
    bytes of a component are put apart instead, so that the exponents compress.
    """
    leaves = [_leaf(field.name, field.type) for field in schema]
    floats = [path for path, kind in leaves if "." in path and pa.types.is_floating(kind)]
    if not floats:
        return {}
    return {
        "use_dictionary": [path for path, _ in leaves if path not in floats],
        "column_encoding": dict.fromkeys(floats, "BYTE_STREAM_SPLIT"),
    }


def _leaf(path: str, kind: pa.DataType) -> tuple[str, pa.DataType]:
    """Return the name that Parquet gives the values of a column, and their type."""
    while pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind) or pa.types.is_large_list(kind):
        path, kind = f"{path}.list.element", kind.value_type
    return path, kind
