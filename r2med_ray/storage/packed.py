"""Opens files for reading, packed or not. What is wrong with such a file is an error that names it."""

import contextlib
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from r2med_ray.errors import DataError


@contextlib.contextmanager
def open_packed(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading bytes. It is unpacked while it is read if its name ends in `.gz`.

    Raises:
        DataError: there is no such file, reading it is not allowed or fails, or it is packed and damaged: it is cut
            off, has changed bytes, or is no gzip file. Errors while it is read are turned into this one too.
    """
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            yield cast(BinaryIO, stream)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path}: the gzip file is damaged: {error}") from error
    except OSError as error:
        raise DataError(f"{path}: can't be read: {error.strerror or error}") from error
