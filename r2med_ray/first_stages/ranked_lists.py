"""Ranked lists that exist already as a first stage: read where they lie, with nothing to prepare or to open."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Self

from r2med_ray.corpus.layouts import LAYOUTS
from r2med_ray.corpus.records import file_digest
from r2med_ray.errors import ConfigError, DataError, NotAtHand
from r2med_ray.evaluation.trec import read_run
from r2med_ray.first_stage import ModelFacts, ToExplain
from r2med_ray.first_stages.common import WantedRetriever
from r2med_ray.readings import Given, place_of
from r2med_ray.retrieval.ranked_lists import NUM_CANDIDATES, ListRetriever, Lists, read_lists
from r2med_ray.settings.compat import Rules
from r2med_ray.settings.file_paths import is_path_of_lists
from r2med_ray.settings.registry import nearest
from r2med_ray.storage.keys import Json
from r2med_ray.types import CANDIDATES, Query, Run, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class ListFirstStage:
    """Ranked lists that exist already."""

    row: str
    """The name of lists that come with the task, or a path."""

    keep: int | None = None
    """How many documents of each list count; None for all."""

    rules: Rules

    work: ClassVar[Literal["nothing"]] = "nothing"
    artifact_group: ClassVar[str] = ""
    artifact_label: ClassVar[str] = "lists"
    published: ClassVar[None] = None

    @classmethod
    def resolve(cls, row: object, wanted: WantedRetriever) -> Self:
        """Return the first stage that a benchmark file asks for.

        Raises:
            ConfigError: the lists are neither known by name nor a path.
        """
        lists = wanted.retriever.candidates
        known = LAYOUTS["nano"].ranked_lists
        if lists is None or not (lists in known or is_path_of_lists(lists)):
            hint = nearest(lists or "", known)
            raise ConfigError(f"candidates {lists!r}: no file.{hint} Known by name: {', '.join(known)}")
        keep = NUM_CANDIDATES if wanted.retriever.safeguard == "drop" else None
        return cls(row=lists, keep=keep, rules=wanted.rules)

    @property
    def label(self) -> str:
        return f"{CANDIDATES}{self.row}" + ("" if self.keep is None else f"[:{self.keep}]")

    @property
    def drop_identical_ids(self) -> bool:
        """Whether a document whose id is the query's is left out; by default it stays where the list has it."""
        return self.rules.terms_drop_identical_ids

    def settings(self) -> Mapping[str, Json]:
        return {
            "lists": self.row,
            "safeguard": "keep" if self.keep is None else "drop",
            "drop_identical_ids": self.drop_identical_ids,
        }

    def inputs(self, task: Task, device: str) -> Mapping[str, Json]:
        return {
            "candidates": file_digest(self.path(task)),
            "keep": self.keep,
            "drop_identical_ids": self.drop_identical_ids,
        }

    def model_facts(self) -> ModelFacts:
        return ModelFacts()

    def find(self, task: Task, queries: Sequence[Query], k: int) -> Run:
        """Return the first k documents of every query's list.

        A run file has no line for a query that nothing was found for, so a query without a line has an empty list.

        Raises:
            DataError: there is no file, a line of it is wrong, a query has no row in a Parquet table, or a run file
                has no query in common with the task.
        """
        path = self.path(task)
        lists: Lists = read_lists(path) if path.suffix == ".parquet" else _lists_of_run(path, task, queries)
        drop = self.drop_identical_ids
        return ListRetriever(self.label, lists, keep=self.keep, drop_identical_ids=drop).retrieve(queries, k=k)

    def explain(self, asked: ToExplain) -> Given:
        """Return where the list is, and where the document stands in it; no text is read."""
        task, document = asked.task, asked.document
        lines = [f"a list that exists already: {self.path(task)}; no text is read"]
        for query in asked.queries[:1]:
            ranking = self.find(task, [query], max(1, task.corpus.num_rows)).rankings[query.query_id]
            ids = [hit.doc_id for hit in ranking]
            lines.append(f"the list of query {query.query_id!r} has {len(ids)} documents")
            if document is not None:
                lines.append(f"document {document.doc_id!r}: {place_of(document.doc_id, ids, 'not in the list')}")
        return Given(lines=tuple(lines))

    def path(self, task: Task) -> Path:
        """Return the file of a task's lists.

        Raises:
            DataError: there is none.
        """
        if self.row not in LAYOUTS["nano"].ranked_lists:
            path = Path(self.row.replace("{task}", task.name))
            if not path.is_file():
                raise DataError(f"candidates of task {task.name!r}: {path} is no file")
            return path
        if self.row not in task.ranked_lists:
            there = ", ".join(task.ranked_lists) or "none"
            raise NotAtHand(
                f"the list {self.row!r} of {task.name}",
                f"task {task.name!r} in {task.folder} has no candidates {self.row!r}; it has {there}",
            )
        return Path(task.ranked_lists[self.row])


def _lists_of_run(path: Path, task: Task, queries: Sequence[Query]) -> Lists:
    """Return a list for every query, in the order of a run's scores; empty where the run has no line.

    Raises:
        DataError: see `ListFirstStage.find`.
    """
    rankings = read_run(path).rankings
    known = dict.fromkeys(query.query_id for query in (*task.queries, *queries))
    if known and rankings.keys().isdisjoint(known):
        raise DataError(
            f"candidates of task {task.name!r}: no query in common: {path} starts with {next(iter(rankings))!r}, "
            f"the task's queries with {next(iter(known))!r}"
        )
    return {query_id: [hit.doc_id for hit in rankings.get(query_id, ())] for query_id in known}
