"""The record that a report is made from: frozen values that a benchmark fills in and `write` stores."""

import contextlib
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata

from r2med_ray.approximations import Approximation
from r2med_ray.cuts import PartCuts
from r2med_ray.evaluation.evaluate import Evaluation
from r2med_ray.evaluation.hard_negatives.neighbourhood import NeighbourhoodMap
from r2med_ray.evaluation.leakage import Leakage
from r2med_ray.evaluation.significance import Comparison
from r2med_ray.evaluation.text_ties import TieRange
from r2med_ray.reporting.part_records import ModelRecord, PartRecord
from r2med_ray.reporting.texts import TaskTexts
from r2med_ray.settings.hard_negatives import is_condition
from r2med_ray.storage.keys import Json
from r2med_ray.types import Compat, Contrast, DocId, HardNegatives, Qrels, QueryId, Repairs, Run

_DISTRIBUTIONS = (
    "r2med-ray", "ray", "torch", "transformers", "sentence-transformers", "vllm", "faiss-cpu", "faiss-gpu",
    "bm25s", "nltk", "numpy", "pyarrow", "pytrec-eval-terrier",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskRecord:
    """A task, which is one column of the leaderboard unless it is a condition of another one."""

    name: str
    suite: str
    revision: str
    qrels: Qrels
    """The judgements; empty if the task was not at hand."""

    counts: Mapping[str, int] = field(default_factory=dict)
    """The counts of the loader: documents, queries, qrels, ..."""

    warnings: tuple[str, ...] = ()
    is_part: bool = False
    """Whether only some of the task's queries were asked, so that nothing published compares."""

    hard_negatives: HardNegatives = field(default_factory=dict)
    """The labels of the task's pack; empty for a task without one, and for its conditions."""

    contrasts: tuple[Contrast, ...] = ()
    """The contrasts of the task's pack."""

    texts: TaskTexts | None = field(default=None, compare=False, repr=False)
    """What the page shows of its queries; None if it is in the report's folder already, or was never kept."""

    @property
    def is_condition(self) -> bool:
        """Whether it is another task with hard negatives, and so no column of the leaderboard."""
        return is_condition(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemRecord:
    """A system, which is one row of the leaderboard."""

    name: str
    description: str
    """The system's parts in one line, e.g. `hyde/gpt4 → rrf(bm25, bge-large) → maxsim@20`."""

    settings: Mapping[str, Json] = field(default_factory=dict)
    """The settings of the system's parts: revisions, prompts, lengths, k1 and b, ..."""

    compat: Compat = "none"
    differences: tuple[str, ...] = ()
    """Ids of the rows of `settings.compat.DIFFERENCES` that are in force because of `compat`. Reports from before it
    was recorded have none."""

    published_key: Mapping[str, Json] | None = None
    """Arguments of `evaluation.published.published_score` for this system; None if nothing is published for it."""

    example: Mapping[str, Json] = field(default_factory=dict)
    """What its models are given for a query and a document of its first task: effective prompts, lengths, cuts and
    the beginnings of the texts. Empty if it has no result; reports from before it was kept have none."""

    models: tuple[ModelRecord, ...] = ()
    """Its models in the order of the flow. Reports from before they were recorded have none."""

    computed: tuple[PartRecord, ...] = ()
    """How its parts were computed, for all of its results together. Reports from before it was recorded have none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRecord:
    """The result of one system on one task."""

    system: str
    task: str
    evaluation: Evaluation
    run: Run
    artifact_names: Mapping[str, str] = field(default_factory=dict)
    """Kind → name of the artefacts that the result was made from, e.g. `vectors` → `vectors/3f0c…`."""

    flagged: Mapping[str, tuple[QueryId, ...]] = field(default_factory=dict)
    """Flaw of a generated text → the queries with such a text."""

    unchanged: tuple[QueryId, ...] = ()
    """The queries that got no usable text, and were therefore not changed."""

    left_out: Mapping[str, Mapping[DocId, str]] = field(default_factory=dict)
    """Retriever → document that its index lacks, because it can't be encoded → the reason."""

    repairs: Repairs = field(default_factory=Repairs)
    """The repairs of a reranking language model's answers."""

    found_nothing: Mapping[str, tuple[QueryId, ...]] = field(default_factory=dict)
    """Label of a first stage → the queries that it ranks nothing for, though another one of the system may."""

    identical_ids: tuple[QueryId, ...] = ()
    """The queries from whose ranking the document with the query's own id was left out."""

    identical_positives: tuple[QueryId, ...] = ()
    """Those of them for which that document is relevant; it can't be found, but counts."""

    text_ties: Mapping[str, TieRange] = field(default_factory=dict)
    """Measure → the range of its mean over the orders of documents with the same text and score, for measures that
    depend on them."""

    approximations: tuple[Approximation, ...] = ()
    """What each approximate search missed. Reports from before it was recorded have none."""

    recall_by_depth: Mapping[int, float] = field(default_factory=dict)
    """Depth → share of the positives of a query that is among so many first documents, as a mean over queries.
    Reports from before it was recorded have none."""

    num_short: int = 0
    """Answered queries with fewer documents than the depth, although the index has as many for them."""

    seconds: Mapping[str, float] = field(default_factory=dict)
    """Stage → seconds of wall-clock time when it was done, by this job or by the one before that stored it; for
    `write`, of all requests together."""

    cuts: tuple[PartCuts, ...] = ()
    """What each retriever and reranker that reads texts with a model has cut off them. Reports from before it was
    counted have none."""

    leakage: Leakage | None = None
    """Which generated texts hold words of judged passages; None for a system without such texts, and in reports from
    before it was looked for."""

    @property
    def num_flagged(self) -> int:
        """The number of queries with a flaw in a generated text."""
        return len({query_id for query_ids in self.flagged.values() for query_id in query_ids})

    @property
    def num_left_out(self) -> int:
        """The number of documents that the index of a retriever lacks, over all its retrievers."""
        return sum(map(len, self.left_out.values()))

    @property
    def index_recall(self) -> float | None:
        """The lowest recall of its approximate searches against exact search; None if all searches are exact."""
        return min((found.recall for found in self.approximations), default=None)

    @property
    def num_repaired(self) -> int:
        """The number of queries with a repaired or unreadable answer of the reranker."""
        return len(self.repairs.query_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingRecord:
    """A system on a task that is left out because something was not at hand."""

    system: str
    task: str
    needs: str
    """The thing that was not at hand, e.g. `BAAI/bge-large-en-v1.5 at d4aa6901d3a4`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageRecord:
    """Work of this job that several systems share, such as encoding a corpus with a model."""

    stage: str
    unit: str
    documents: int
    seconds: float
    reused: bool
    """Whether the artefact of the stage was there before this benchmark started."""

    tokens: int = 0
    """Tokens that a service counted; 0 if none was asked, and in reports from before they were recorded."""

    cost: str = ""
    """The work that a service was paid for, and its price, in words; empty if nothing was paid."""

    slow: str = ""
    """What was far below the device by the first piece of an encoder's work, and why; empty if nothing was."""

    made: PartRecord | None = None
    """How all that the benchmark used of it was made, by whichever job. None if nobody knows."""

    @property
    def documents_per_second(self) -> float | None:
        """Documents per second; None if nothing was done."""
        return self.documents / self.seconds if self.seconds > 0 and not self.reused else None


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchmarkRecord:
    """All values that the files of a report are made from."""

    name: str
    config: Mapping[str, Json]
    """The benchmark's configuration as it was run, as plain JSON values."""

    measures: tuple[str, ...]
    main_measure: str
    baseline: str | None
    """The name of the system that the others are compared with."""

    depth: int
    """Number of documents that are kept per query."""

    seed: int
    tasks: tuple[TaskRecord, ...]
    systems: tuple[SystemRecord, ...]
    results: tuple[ResultRecord, ...]
    missing: tuple[MissingRecord, ...] = ()
    """The results that `when_missing: skip` left out. They never count as done."""

    maps: tuple[NeighbourhoodMap, ...] = ()
    """Maps of the queries that the hard negatives of the configuration name."""

    compared: Mapping[str, Comparison] = field(default_factory=dict, compare=False)
    """System → its comparison with the baseline in the main measure, as a report keeps it, because resampling takes
    long; empty if it has to be worked out."""

    stages: tuple[StageRecord, ...] = ()
    cluster: str = ""
    """What the job was sized for, and who says that there is as much. Reports from before it was recorded have
    none."""

    versions: Mapping[str, str] = field(default_factory=dict)
    started: str
    """The time in ISO 8601 with a time zone. `finished` has the same form."""

    finished: str

    @property
    def leaderboard_tasks(self) -> tuple[TaskRecord, ...]:
        """The tasks that means are over."""
        return tuple(task for task in self.tasks if not task.is_condition)

    def results_of(self, system: str) -> dict[str, ResultRecord]:
        """Return task → result of a system, in the order of the tasks."""
        found = {result.task: result for result in self.results if result.system == system}
        return {task.name: found[task.name] for task in self.tasks if task.name in found}

    def leaderboard_results_of(self, system: str) -> dict[str, ResultRecord]:
        """Return task → result of a system, for the tasks that means are over."""
        found = self.results_of(system)
        return {task.name: found[task.name] for task in self.leaderboard_tasks if task.name in found}

    def needs_of(self, system: str) -> dict[str, str]:
        """Return task → the thing that was not at hand for a system on this task."""
        return {missing.task: missing.needs for missing in self.missing if missing.system == system}


def versions() -> dict[str, str]:
    """Return the version of Python and of each library that can change a number. No library is imported."""
    installed = {"python": platform.python_version()}
    for name in _DISTRIBUTIONS:
        with contextlib.suppress(metadata.PackageNotFoundError):
            installed[name] = metadata.version(name)
    return installed
