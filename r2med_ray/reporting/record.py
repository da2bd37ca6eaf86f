"""What a report is made from: plain frozen values that a benchmark fills in and `write` keeps."""

import contextlib
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata

from r2med_ray.evaluation.evaluate import Evaluation
from r2med_ray.storage.artifacts import Json
from r2med_ray.types import Compat, Qrels, QueryId, Repairs, Run

_DISTRIBUTIONS = (
    "r2med-ray", "ray", "torch", "transformers", "sentence-transformers", "vllm", "faiss-cpu", "faiss-gpu",
    "bm25s", "nltk", "numpy", "pyarrow", "pytrec-eval-terrier",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRecord:
    """One column of the leaderboard."""

    name: str
    suite: str
    revision: str
    qrels: Qrels
    """Empty where the task was not at hand."""

    counts: Mapping[str, int] = field(default_factory=dict)
    """What the loader counted: documents, queries, qrels, ..."""

    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemRecord:
    """One row of the leaderboard."""

    name: str
    description: str
    """Its parts in one line, e.g. `hyde/gpt4 → rrf(bm25, bge-large) → maxsim@20`."""

    settings: Mapping[str, Json] = field(default_factory=dict)
    """What its parts were set to: revisions, prompts, lengths, k1 and b, ..."""

    compat: Compat = "none"
    differences: tuple[str, ...] = ()
    """Ids of `settings.compat.DIFFERENCES` that are in force because of `compat`. Empty in reports from before it was
    recorded."""

    published_key: Mapping[str, Json] | None = None
    """Names the same system for `evaluation.published.published_score`; None where there is none to compare with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRecord:
    """One system on one task."""

    system: str
    task: str
    evaluation: Evaluation
    run: Run
    artifact_names: Mapping[str, str] = field(default_factory=dict)
    """What it was made from, e.g. `vectors` → `vectors/3f0c…`."""

    flagged: Mapping[str, tuple[QueryId, ...]] = field(default_factory=dict)
    """What was wrong with a generated text → the queries that it concerns."""

    unchanged: tuple[QueryId, ...] = ()
    """The queries that got no usable text and were used as they are."""

    repairs: Repairs = field(default_factory=Repairs)
    """Of what a language model that reranked said of the candidates."""

    seconds: Mapping[str, float] = field(default_factory=dict)
    """Stage → wall-clock seconds."""

    @property
    def num_flagged(self) -> int:
        """Queries with something wrong in a generated text."""
        return len({query_id for query_ids in self.flagged.values() for query_id in query_ids})

    @property
    def num_repaired(self) -> int:
        """Queries with something repaired in an answer of the reranker."""
        return len(self.repairs.query_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingRecord:
    """One system on one task, left out because something was not at hand."""

    system: str
    task: str
    needs: str
    """What was not, e.g. `BAAI/bge-large-en-v1.5 at d4aa6901d3a4`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRecord:
    """Work that systems share, such as encoding one corpus with one model."""

    stage: str
    unit: str
    documents: int
    seconds: float
    reused: bool
    """Its artefact was there before this benchmark started."""

    cost: str = ""
    """What a service was paid for, in words; empty where nothing was."""

    @property
    def documents_per_second(self) -> float | None:
        """None where nothing was done."""
        return self.documents / self.seconds if self.seconds > 0 and not self.reused else None


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkRecord:
    """Everything that the files of a report are made from."""

    name: str
    config: Mapping[str, Json]
    """The benchmark's configuration as it was run, as plain JSON values."""

    measures: tuple[str, ...]
    main_measure: str
    baseline: str | None
    """The system that the others are tested against."""

    depth: int
    """Documents kept per query."""

    seed: int
    tasks: tuple[TaskRecord, ...]
    systems: tuple[SystemRecord, ...]
    results: tuple[ResultRecord, ...]
    missing: tuple[MissingRecord, ...] = ()
    """What `when_missing: skip` left out; never counted as done."""

    stages: tuple[StageRecord, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    started: str
    """ISO 8601 with a time zone, as is `finished`."""

    finished: str

    def results_of(self, system: str) -> dict[str, ResultRecord]:
        """Return task → result of a system, in the order of the tasks."""
        found = {result.task: result for result in self.results if result.system == system}
        return {task.name: found[task.name] for task in self.tasks if task.name in found}

    def needs_of(self, system: str) -> dict[str, str]:
        """Return task → what was not at hand for a system there."""
        return {missing.task: missing.needs for missing in self.missing if missing.system == system}


def versions() -> dict[str, str]:
    """Return the version of Python and of each library that can change a number; none of them is imported."""
    installed = {"python": platform.python_version()}
    for name in _DISTRIBUTIONS:
        with contextlib.suppress(metadata.PackageNotFoundError):
            installed[name] = metadata.version(name)
    return installed
