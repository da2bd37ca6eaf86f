"""Opens files for reading, packed or not. What is wrong with such a file is an error that names it."""

import contextlib
import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

from r2med_ray.errors import DataError

_NO_TEXT = {
    b"\x1f\x8b": "packed by gzip; unpack it, or let its name end in `.gz`",
    b"\xff\xfe\0\0": "not UTF-8 but UTF-32, by its byte order mark; convert it to UTF-8",
    b"\0\0\xfe\xff": "not UTF-8 but UTF-32, by its byte order mark; convert it to UTF-8",
    b"\xff\xfe": "not UTF-8 but UTF-16, by its byte order mark; convert it to UTF-8",
    b"\xfe\xff": "not UTF-8 but UTF-16, by its byte order mark; convert it to UTF-8",
}
"""First bytes that no text in UTF-8 has → what a file is that begins with them."""


def is_packed(path: Path) -> bool:
    """Return whether a file is packed by its name, which ends in `.gz` in any case."""
    return path.suffix.lower() == ".gz"


def unpacked_name(path: Path) -> str:
    """Return the name of a file without `.gz`."""
    return path.stem if is_packed(path) else path.name


@contextlib.contextmanager
def open_packed(path: Path) -> Iterator[BinaryIO]:
    """Open a text for reading its bytes. It is unpacked while it is read if its name ends in `.gz`.

    Raises:
        DataError: there is no such file, reading it is not allowed or fails, or it is packed and damaged: it is cut
            off, has changed bytes, or is no gzip file. Errors while it is read are turned into this one too. Or its
            first bytes are those of another packing or encoding than its name says; names it.
    """
    try:
        with gzip.open(path) if is_packed(path) else path.open("rb") as stream:
            first = stream.peek(4)
            for mark, problem in _NO_TEXT.items():
                if first.startswith(mark):
                    raise DataError(f"{path}:1: {problem}")
            yield cast(BinaryIO, stream)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise DataError(f"{path}: the gzip file is damaged: {error}") from error
    except OSError as error:
        raise DataError(f"{path}: can't be read: {error.strerror or error}") from error
