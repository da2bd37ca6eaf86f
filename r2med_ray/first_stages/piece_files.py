"""What the artefact of a piece keeps until its shard is whole.

Tables are in Arrow's file format, which gives them back as they were. Parquet would give the items of lists another
name, and the file of the shard other bytes.
"""

from collections.abc import Mapping

import pyarrow as pa

from r2med_ray.first_stages.preparation import ShardWork
from r2med_ray.storage.artifact import Artifact
from r2med_ray.storage.artifact_writer import ArtifactWriter
from r2med_ray.storage.artifacts import ArtifactStore

SUFFIX = ".arrow"
"""What follows the name that the file has in the artefact of the shard."""


def write_piece(writer: ArtifactWriter, name: str, table: pa.Table) -> None:
    """Write a table of a piece. `name` is the file's name in the artefact of the shard."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as stream:
        stream.write_table(table)
    writer.write(f"{name}{SUFFIX}", sink.getvalue())


def read_piece(artifact: Artifact) -> Mapping[str, pa.Table]:
    """Return the tables of a piece, by the names that their files have in the artefact of the shard.

    Raises:
        ArtifactError: a file is missing or damaged.
    """
    return {name.removesuffix(SUFFIX): pa.ipc.open_file(artifact.read(name)).read_all() for name in artifact.files}


def remove_pieces(store: ArtifactStore, work: ShardWork) -> None:
    """Remove the pieces of a shard whose own artefact is stored, if there are any."""
    if work.pieces > 1:
        for piece in work.in_pieces():
            store.remove(piece.key.name)
