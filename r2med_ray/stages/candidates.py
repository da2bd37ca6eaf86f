"""Ranked lists that exist already as a first stage."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from r2med_ray.corpus.layouts import LAYOUTS
from r2med_ray.corpus.records import file_digest
from r2med_ray.errors import ConfigError, DataError, NotAtHand
from r2med_ray.retrieval.candidates import NUM_CANDIDATES
from r2med_ray.settings.registry import nearest
from r2med_ray.stages.first_stage import Choice
from r2med_ray.storage.artifacts import ArtifactKey, Json
from r2med_ray.types import Compat, Corpus, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidatesStage:
    """Ranked lists that exist already."""

    row: str
    """The name of lists that come with the task, or a path."""

    keep: int | None
    """How many documents of each list count; None for all."""

    compat: Compat
    drop_identical_ids: bool
    """Only where `ignore_identical_ids` is set, as for BM25: whoever made the lists may have dropped them already."""

    published = None
    prepared_as = ""
    holds = "lists"
    needs_model = False

    @classmethod
    def resolve(cls, row: object, choice: Choice) -> Self:
        lists = choice.retriever.candidates
        known = LAYOUTS["nano"].candidates
        if lists is None or not (lists in known or Path(lists).suffix):
            hint = nearest(lists or "", known)
            raise ConfigError(f"candidates {lists!r}: no file.{hint} Known by name: {', '.join(known)}")
        keep = NUM_CANDIDATES if choice.retriever.safeguard == "drop" else None
        return cls(
            row=lists,
            keep=keep,
            compat=choice.compat,
            drop_identical_ids=bool(choice.ignore_identical_ids),
        )

    @property
    def label(self) -> str:
        return f"candidates:{self.row}" + ("" if self.keep is None else f"[:{self.keep}]")

    def path(self, task: Task) -> Path:
        """Return the file of a task's lists.

        Raises:
            DataError: there is none.
        """
        if self.row not in LAYOUTS["nano"].candidates:
            path = Path(self.row.replace("{task}", task.name))
            if not path.is_file():
                raise DataError(f"candidates of task {task.name!r}: {path} is no file")
            return path
        if self.row not in task.candidates:
            there = ", ".join(task.candidates) or "none"
            raise NotAtHand(
                f"the list {self.row!r} of {task.name}",
                f"task {task.name!r} in {task.folder} has no candidates {self.row!r}; it has {there}",
            )
        return Path(task.candidates[self.row])

    def artifacts(self, task: str, corpus: Corpus, device: str) -> Sequence[ArtifactKey]:
        return []

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
