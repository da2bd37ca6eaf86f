"""Safe file names for systems and tasks, whose names may be anything: `org/model`, `..`, `A` and `a`."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable

MAX_LENGTH = 80
"""The longest safe name, in bytes. File systems take 255 bytes; the rest is room for a suffix."""


def file_names(names: Iterable[str]) -> dict[str, str]:
    """Return name → file name. A file name is ASCII and has no separators.

    The file names differ even on a disk that ignores upper and lower case. A safe name stays as it is; `org/model`
    becomes `org_model`. Names that would get the same file name get a `~` and a digest at their end. No other file
    name holds a `~`.
    """
    safe = {name: re.sub(r"[^A-Za-z0-9._+@-]+", "_", name).strip("._-") for name in names}
    taken = Counter(text.lower() for text in safe.values())
    return {
        name: text if 0 < len(text) <= MAX_LENGTH and taken[text.lower()] == 1 else _with_digest(name, text)
        for name, text in safe.items()
    }


def _with_digest(name: str, text: str) -> str:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{text[:MAX_LENGTH]}~{digest[:12]}"
