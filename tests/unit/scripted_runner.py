"""A runner in this process without models, which reserves whole CPUs and remembers what it was told to do."""

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from r2med_ray.chat import LanguageModel, TextGenerator
from r2med_ray.errors import NotAtHand
from r2med_ray.first_stage import ShardedFirstStage
from r2med_ray.first_stages.preparation import Corpora, QuerySet
from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.protocols import Scorer
from r2med_ray.settings.resources import ResourcesConfig
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Task
from r2med_ray.workbench.in_process import PlainIndex
from r2med_ray.workbench.ledger import Need
from r2med_ray.workbench.local_runner import LocalRunner
from r2med_ray.workbench.worklog import Worklog
from tests.fakes import ScriptedGenerator, SharedWords


def fetch(task: Task, file: str) -> Path:
    """Fetch no file of a task."""
    raise NotAtHand(file)


class ScriptedModel:
    """The row of a language model."""

    def __init__(self, name: str = "script") -> None:
        self.name = name
        self.answer_format = "plain"

    def generation_inputs(self) -> Mapping[str, Any]:
        return {"model": self.name}


class ScriptedScorer:
    """The row of a scorer."""

    name = "shared words"


class Closing(SharedWords):
    """A scorer that notes that it was closed."""

    def __init__(self, closed: Callable[[], None]) -> None:
        self.close = closed


class Answering:
    """A running language model that notes that it was closed."""

    def __init__(self, generator: TextGenerator, closed: Callable[[], None]) -> None:
        self._generator = generator
        self.close = closed

    def generator(self, model: LanguageModel) -> TextGenerator:
        return self._generator


class ScriptedRunner(LocalRunner):
    """A runner that searches in this process; its language model and its scorer are scripted.

    Args:
        store: keeps the artefacts.
        worklog: gets a note of all work.
        cpus: the number of CPUs that there are.
        needs: the number of CPUs reserved for `preparing`, `searching`, `scoring` and `writing`. The default is 1.
        generator: the generator of the language model.
        not_at_hand: the rows that are not at hand.
        preparing_begins: set when the first corpus is being prepared.
    """

    def __init__(
        self,
        store: ArtifactStore,
        worklog: Worklog,
        *,
        cpus: int = 8,
        needs: Mapping[str, int] | None = None,
        generator: TextGenerator | None = None,
        not_at_hand: Sequence[object] = (),
        preparing_begins: threading.Event | None = None,
    ) -> None:
        super().__init__(load_catalog(), store, ResourcesConfig(), worklog)
        self.capacity = Need(cpus=cpus)
        self.calls: list[str] = []
        self.closed: list[str] = []
        self._needs = needs or {}
        self._generator = generator or ScriptedGenerator({})
        self._not_at_hand = not_at_hand
        self._preparing_begins = preparing_begins or threading.Event()

    def preparing(self, first_stage: ShardedFirstStage) -> Need:
        return self._need("preparing")

    def searching(self, task: Task, first_stage: ShardedFirstStage) -> Need:
        return self._need("searching")

    def scoring(self, scorer: Scorer) -> Need:
        return self._need("scoring")

    def writing(self, model: LanguageModel) -> Need:
        return self._need("writing")

    def engine(self, model: LanguageModel) -> str:
        return model.name

    def scoring_inputs(self, scorer: Scorer) -> Mapping[str, Any]:
        return {"scorer": scorer.name}

    def require(self, row: object) -> None:
        if row in self._not_at_hand:
            raise NotAtHand("a model")

    def prepare(self, corpora: Corpora, sets: Sequence[QuerySet]) -> None:
        if corpora:
            self._note(f"prepare {', '.join(task.name for task, _ in corpora)}")
            self._preparing_begins.set()
        super().prepare(corpora, sets)

    def open_index(self, task: Task, first_stage: ShardedFirstStage) -> PlainIndex:
        self._note(f"open {task.name}")
        index = super().open_index(task, first_stage)
        index.close = partial(self.closed.append, f"open {task.name}")  # type: ignore[method-assign]
        return index

    def start_scorer(self, scorer: Scorer, requests: int) -> Any:
        self._note("start scorer")
        return Closing(partial(self.closed.append, "start scorer"))

    def start_model(self, model: LanguageModel) -> Any:
        self._note(f"start {model.name}")
        return Answering(self._generator, partial(self.closed.append, f"start {model.name}"))

    def _need(self, what: str) -> Need:
        return Need(cpus=self._needs.get(what, 1))

    def _note(self, call: str) -> None:
        self.calls.append(call)
