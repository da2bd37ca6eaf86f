"""Where the files of tasks are, and what is stored of them; nothing is made and nothing fetched."""

from pathlib import Path

from r2med_ray.corpora import Corpus
from r2med_ray.corpus.catalog import TASKS, TaskRow, fetcher, resolve_tasks
from r2med_ray.corpus.convert import corpus_key, load_corpus
from r2med_ray.corpus.sources import TaskSource, is_cached
from r2med_ray.corpus.text_survey import survey_key, with_copies
from r2med_ray.errors import NotAtHand
from r2med_ray.settings.config import TaskConfig
from r2med_ray.settings.hard_negatives import without_condition
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.systems import ResolvedBenchmark
from r2med_ray.types import Task

PUBLISHED = "published texts"
"""What the name of a published file begins with that is not here."""


def stored_corpus(source: TaskSource, benchmark: ResolvedBenchmark, store: ArtifactStore) -> Corpus | None:
    """Return the converted corpus of a task, or None where it is yet to be converted."""
    resources = benchmark.config.resources
    key = corpus_key(
        source,
        documents_per_shard=resources.documents_per_shard,
        shards=resources.shards,
        on_conflict=benchmark.on_conflict,
    )
    artifact = store.find(key)
    if artifact is None:
        return None
    corpus = load_corpus(artifact)
    return with_copies(store, corpus) if store.find(survey_key(corpus)) else corpus


def find_task(entry: TaskRow | TaskConfig, *, download: bool = True) -> TaskSource:
    """Return where a task's files are.

    Raises:
        NotAtHand: they are not on this machine, and the Hub doesn't give them or was not to be asked.
    """
    if isinstance(entry, TaskRow):
        return entry.locate(download=download)
    [source] = resolve_tasks([entry])
    return source


def published_here(task: Task, file: str) -> Path:
    """Return a published file that is on this machine; a plan fetches nothing.

    Raises:
        NotAtHand: it is not.
    """
    fetch = fetcher(task)
    if fetch is not None:
        row = TASKS[without_condition(task.name)]
        if row.repository and is_cached(row.repository, task.revision or row.revision, file):
            return fetch(file)
    raise NotAtHand(f"{PUBLISHED} {file}")
