"""Writes the files of one artefact into the folder of one attempt, and notes what a manifest says about them."""

import hashlib
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from r2med_ray.storage.keys import Json
from r2med_ray.storage.places import Place


@dataclass(frozen=True, slots=True)
class StoredFile:
    path: str
    num_bytes: int
    sha256: str


@dataclass(slots=True)
class ArtifactWriter:
    """Takes the files of one artefact. `attributes` may be filled in until the writer closes."""

    place: Place
    folder: str
    attributes: dict[str, Json] = field(default_factory=dict)
    files: dict[str, StoredFile] = field(default_factory=dict)

    @property
    def filesystem(self) -> fs.FileSystem:
        """What the files of `files` are read back from."""
        return self.place.filesystem

    def write(self, file_name: str, content: bytes | pa.Buffer) -> None:
        path = f"{self.folder}/{file_name}"
        view = memoryview(content)
        self.place.write(path, view)
        self.files[file_name] = StoredFile(path, view.nbytes, hashlib.sha256(view).hexdigest())

    def write_table(self, file_name: str, table: pa.Table) -> None:
        """Write a table as Parquet in one row group, so that its bytes depend on the table alone."""
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, row_group_size=max(1, table.num_rows), compression="zstd")
        self.write(file_name, sink.getvalue())
