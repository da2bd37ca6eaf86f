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
from r2med_ray.storage.vector_columns import as_bytes


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
    """Return a Parquet file of one row group, whose bytes depend on the table alone.

    Vectors are stored as `vector_columns` says.
    """
    sink = pa.BufferOutputStream()
    rows = max(1, table.num_rows)
    stored = as_bytes(table)
    pq.write_table(stored, sink, row_group_size=rows, **_encodings(stored.schema))
    return sink.getvalue()


def _encodings(schema: pa.Schema) -> dict[str, Any]:
    """Return how Parquet encodes the columns of a table.

    Vectors hardly repeat: a dictionary gains nothing, and compression a tenth of the bytes, for several times the
    time of reading. The bytes of other lists of floats, such as sparse vectors, are put apart, so that the exponents
    compress.
    """
    leaves = [_leaf(field.name, field.type) for field in schema]
    vectors = [path for path, kind in leaves if pa.types.is_fixed_size_binary(kind)]
    floats = [path for path, kind in leaves if "." in path and pa.types.is_floating(kind)]
    if not vectors and not floats:
        return {"compression": "zstd"}
    others = [path for path, _ in leaves if path not in vectors]
    return {
        "compression": dict.fromkeys(vectors, "none") | dict.fromkeys(others, "zstd"),
        "use_dictionary": [path for path in others if path not in floats],
        "write_statistics": others,
        "column_encoding": dict.fromkeys(floats, "BYTE_STREAM_SPLIT") or None,
    }


def _leaf(path: str, kind: pa.DataType) -> tuple[str, pa.DataType]:
    """Return the name that Parquet gives the values of a column, and their type."""
    while pa.types.is_list(kind) or pa.types.is_fixed_size_list(kind) or pa.types.is_large_list(kind):
        path, kind = f"{path}.list.element", kind.value_type
    return path, kind
