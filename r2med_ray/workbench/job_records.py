"""A record of each job in its store, which the job writes once a minute: what it does, and that it lives.

    <store>/jobs/<id>.json

A job that was killed writes no more, so the age of its record tells it. `r2med status` reads the records.
"""

import json
import logging
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Literal

from r2med_ray import activity
from r2med_ray.errors import StoreError
from r2med_ray.secrets import scrubbed
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.manifests import is_manifest
from r2med_ray.storage.places import at_once

logger = logging.getLogger(__name__)

FOLDER = "jobs"
EVERY_S = 60.0
DEAD_AFTER_S = 3 * EVERY_S
"""A record of a running job that is older is that of a dead one, or of one that can't reach its store."""

SHOWN = 10
"""Jobs that are shown, the newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """What a job says of itself."""

    name: str
    """The name of its benchmark."""

    results: str
    """Where it writes its results, without credentials."""

    state: Literal["running", "finished", "failed"]
    began: float
    """Seconds since the epoch, by the clock of the job, as `at`."""

    at: float
    """When the record was written."""

    doing: tuple[str, ...] = ()
    """What it was doing then, and how far it was."""

    error: str = ""
    """Why it failed, in one line without secrets."""

    def line(self, now: float) -> str:
        """Return what is known of the job at a time."""
        age, state = now - self.at, self.state
        if state == "running" and age > DEAD_AFTER_S:
            state_now = f"DEAD, or it can't reach this store: no sign of it for {_span(age)}"
        else:
            state_now = f"{state}, {_span(age)} ago" if state != "running" else f"running, last sign {_span(age)} ago"
        began = datetime.fromtimestamp(self.began, UTC).isoformat(timespec="seconds")
        head = f"{self.name}, begun {began}, results {self.results}: {state_now}"
        return "; ".join([head, *self.doing, *([self.error] if self.error else [])])


@contextmanager
def recorded(store: ArtifactStore, name: str, results: str, *, every_s: float = EVERY_S) -> Iterator[bool]:
    """Keep the record of a job while the block runs, and yield whether a job that began earlier works on the store.

    Args:
        store: keeps the record.
        name: the benchmark's name.
        results: where the results go, without credentials.
        every_s: seconds between two records.
    """
    began = time.time()
    record = JobRecord(name=name, results=results, state="running", began=began, at=began)
    path = f"{store.root}/{FOLDER}/{datetime.fromtimestamp(began, UTC):%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}.json"

    def beat() -> None:
        try:
            _write(store, path, replace(record, at=time.time(), doing=tuple(activity.lines())))
        except StoreError as error:  # the work goes on, and fails by itself if the store stays away
            logger.warning("the record of this job was not written: %s", error)

    beat()
    try:
        with activity.every(every_s, beat):
            yield _is_another_there(store, path, began)
    except BaseException as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())
        record = replace(record, state="failed", error=scrubbed(said)[:500])
        raise
    else:
        record = replace(record, state="finished")
    finally:
        beat()


def status(store: ArtifactStore, now: float) -> Iterator[str]:
    """Yield what is stored per kind, and what is known of each job.

    Args:
        store: the store.
        now: seconds since the epoch.

    Raises:
        StoreError: the store can't be reached.
    """
    kinds: dict[str, list[float]] = {}
    jobs: list[str] = []
    for info in store.place.listed(store.root, recursive=True):
        parts = info.path.removeprefix(f"{store.root}/").split("/")
        if parts[0] == FOLDER and parts[-1].endswith(".json"):
            jobs.append(info.path)
        elif is_manifest(parts[-1]):
            kinds.setdefault(parts[0], []).append((info.mtime_ns or 0) / 1e9)
    yield f"store {store.place.shown}"
    for kind, times in sorted(kinds.items()):
        yield f"  {kind:16} {len(times):8,} stored, the last {_span(now - max(times))} ago"
    yield f"jobs: {len(jobs)}" + (f", of which the last {SHOWN}" if len(jobs) > SHOWN else "")
    for record in at_once(lambda path: _read(store, path), sorted(jobs, reverse=True)[:SHOWN]):
        yield f"  {record.line(now) if isinstance(record, JobRecord) else record}"


def _is_another_there(store: ArtifactStore, path: str, now: float) -> bool:
    """Return whether a job works on the store whose record comes before the one at `path`."""
    earlier = [
        info.path for info in store.place.listed(f"{store.root}/{FOLDER}", recursive=False) if info.path < path
    ]
    records = at_once(lambda each: _read(store, each), sorted(earlier, reverse=True)[:SHOWN])
    lives = [each for each in records if isinstance(each, JobRecord) and each.state == "running"]
    return any(now - each.at <= DEAD_AFTER_S for each in lives)


def _write(store: ArtifactStore, path: str, record: JobRecord) -> None:
    folder, content = path.rpartition("/")[0], json.dumps(asdict(record), indent=1).encode()
    store.place.make_folder(folder)
    if store.place.has_objects:  # it takes a file whole or not at all
        store.place.write(path, content)
    else:
        store.place.publish(path, content, beside=folder)


def _read(store: ArtifactStore, path: str) -> JobRecord | str:
    """Return a record, or what is wrong with it."""
    try:
        values = json.loads(store.place.read(path).to_pybytes())
        return JobRecord(**{**values, "doing": tuple(values["doing"])})
    except (ValueError, KeyError, TypeError) as error:
        return f"{path}: can't be read as the record of a job: {error!r}"


def _span(seconds: float) -> str:
    """Return a time span in its largest unit."""
    for unit, size in (("d", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"
