"""One stored artefact, as it is read: whole files, tables, and tables in parts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from r2med_ray.errors import ArtifactError
from r2med_ray.storage.arrow import in_lean_memory
from r2med_ray.storage.keys import Json
from r2med_ray.storage.manifests import PART_BYTES, REMEDY, StoredFile
from r2med_ray.storage.places import Place
from r2med_ray.storage.vector_columns import as_vectors

if TYPE_CHECKING:
    from r2med_ray.storage.artifacts import ArtifactStore

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Artifact:
    """A stored artefact: its files, and the attributes that its writer noted (counts, timings)."""

    store: "ArtifactStore"
    name: str
    inputs: Mapping[str, Json]
    attributes: Mapping[str, Json]
    files: Mapping[str, StoredFile]

    def read(self, file_name: str) -> pa.Buffer:
        """Return a file's bytes.

        Raises:
            ArtifactError: the file is missing, or a byte of it has changed.
        """
        return self._checked(file_name, StoredFile.load)

    def table(self, file_name: str, columns: Sequence[str] | None = None) -> pa.Table:
        """Return a Parquet file as a table. The file is checked as by `read`."""
        # Not `pq.read_table`: its scanner may hold the bytes in a thread of Arrow when Python ends, which aborts.
        return as_vectors(pq.ParquetFile(pa.BufferReader(self.read(file_name))).read(columns=columns))

    def in_parts(self, file_name: str, rows: int) -> Iterator[pa.Table]:
        """Yield a Parquet file as tables of some rows, and hold one at a time. The file is checked as by `read`."""
        with self._checked(file_name, StoredFile.open) as file, self.store.place.reaching("can't be read"):
            with in_lean_memory():
                parquet = pq.ParquetFile(file, buffer_size=PART_BYTES, pre_buffer=False)
            for batch in parquet.iter_batches(rows):
                yield as_vectors(pa.Table.from_batches([batch]))  # not `pa.table`, which imports pandas

    def _checked(self, file_name: str, read: Callable[[StoredFile, Place], tuple[str | None, T | None]]) -> T:
        stored = self.files.get(file_name)
        if stored is None:
            raise ArtifactError(f"artefact {self.name} has no file {file_name!r}: {', '.join(self.files)}")
        problem, content = read(stored, self.store.place)
        if problem is not None or content is None:
            raise ArtifactError(f"artefact {self.name}, file {file_name!r}: {problem}. {REMEDY}")
        return content

    def path(self, file_name: str) -> str:
        """Return a file's path inside the store's file system."""
        return self.files[file_name].path

    @property
    def num_bytes(self) -> int:
        return sum(stored.num_bytes for stored in self.files.values())
