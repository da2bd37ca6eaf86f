"""What is said when somebody ends a job with Ctrl-C: what is stored, and that the same command goes on from there."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from r2med_ray.errors import InterruptedByUser
from r2med_ray.storage.artifacts import ArtifactStore

# The date of a file can be this much older than its writing: S3 gives whole seconds, and Linux gives a local file the
# time of the kernel's last tick, up to 10 ms ago.
DATES_LAG_S = 1.0


@contextmanager
def said_plainly(store: ArtifactStore) -> Iterator[None]:
    """Turn Ctrl-C in the block into an error that says what was stored meanwhile.

    Raises:
        InterruptedByUser: Ctrl-C came.
    """
    began = time.time()
    try:
        yield
    except KeyboardInterrupt as error:
        raise InterruptedByUser(
            f"ended by Ctrl-C. {_stored_since(began, store)}. What was being made is lost, and nothing else: "
            "the same command goes on with what is left"
        ) from error


def _stored_since(began: float, store: ArtifactStore) -> str:
    """Return how many artefacts of each kind were written, by this job or others beside it."""
    least = began - DATES_LAG_S
    names = (name for name, written in store.dates().items() if written and written.timestamp() >= least)
    kinds = Counter(name.partition("/")[0] for name in names)
    told = ", ".join(f"{count:,} × {kind}" for kind, count in sorted(kinds.items()))
    return f"Stored since it began, in {store.place.shown}: {told or 'nothing'}"
