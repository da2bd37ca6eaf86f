"""Flips bits of what is stored, as a broken disk does."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from r2med_ray.storage.artifact import Artifact


def flip(artifact: Artifact, file: str = "", *, unnoticed: Callable[[Path], bool] = lambda path: True) -> str:
    """Flip one bit of a file that its format doesn't notice. Without a name, it is the largest. Return its name."""
    file = file or max(artifact.files, key=lambda name: artifact.files[name].num_bytes)
    path = Path(artifact.path(file))
    content = path.read_bytes()
    for position in reversed(range(len(content) - 8)):  # the last 8 bytes of Parquet are a length and a mark
        path.write_bytes(content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :])
        if unnoticed(path):
            return file
    raise AssertionError(f"every flipped bit is noticed by the format of {path}")


def flip_an_id(corpus: Artifact) -> str:
    """Flip one bit of the first shard, so that Parquet reads other ids without a word. Return the file's name."""
    file = "00000.parquet"
    written = ids_in(Path(corpus.path(file)))

    def reads_others(path: Path) -> bool:
        try:
            ids = ids_in(path)
        except (OSError, ValueError, KeyError, pa.ArrowException):
            return False
        return len(ids) == len(written) and ids != written

    flip(corpus, file, unnoticed=reads_others)
    return file


def ids_in(shard: Path) -> list[str]:
    return list(pq.ParquetFile(shard).read(columns=["doc_id"])["doc_id"].to_pylist())
