"""File names for names of systems and tasks, which may hold anything: `org/model`, `..`, `A` beside `a`."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable

MAX_LENGTH = 80
"""File systems take 255 bytes; what is left is room for a suffix."""


def file_names(names: Iterable[str]) -> dict[str, str]:
    """Return one file name per name: ASCII, no separators, different on a disk that doesn't know upper case.

    A name that is safe stays as it is, `org/model` becomes `org_model`. Names that would meet get a digest behind
    a `~`, which nothing else leaves in a file name.
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
