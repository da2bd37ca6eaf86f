"""Takes the files of one artefact: writes them into the folder of one attempt, or holds them for the manifest."""

import hashlib
from dataclasses import dataclass, field

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
        """Write a table as Parquet in one row group, so that its bytes depend on the table alone."""
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, row_group_size=max(1, table.num_rows), compression="zstd")
        self.write(file_name, sink.getvalue())
