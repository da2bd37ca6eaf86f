"""Where demands are served: one place per model that prepares, per open index, per language model and per scorer.

To name a place takes fingerprints of weights and settings, so each is worked out once for each row or first stage.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

from r2med_ray.chat import LanguageModel
from r2med_ray.first_stage import ShardedFirstStage
from r2med_ray.protocols import Scorer
from r2med_ray.storage.keys import fingerprint
from r2med_ray.types import Task
from r2med_ray.workbench.ledger import Need
from r2med_ray.workbench.runner import Runner

Kind: TypeAlias = Literal["lists", "search", "prepare", "score", "write"]

START_RANK: dict[Kind, int] = {"lists": 0, "search": 1, "prepare": 2, "score": 3, "write": 4}
"""What starts quickly has a lower number: an index takes seconds, an engine minutes."""


class Place(NamedTuple):
    """A place, and what is reserved for it."""

    kind: Kind
    name: str
    need: Need


LISTS = Place("lists", "lists", Need())
"""The place of first stages that answer by themselves."""


class Places:
    """Names the places of one runner.

    Args:
        runner: tells what each place reserves, and what names models and scorers.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._named: dict[tuple[Kind, int, str], tuple[object, Place]] = {}

    def index(self, task: Task, first_stage: ShardedFirstStage) -> Place:
        """Return the place of searches in a task's corpus with a first stage."""

        def make() -> Place:
            digest = fingerprint(dict(first_stage.inputs(task, self._runner.device)))[:12]
            name = f"index of {task.name} for {first_stage.label} {digest}"
            return Place("search", name, self._runner.searching(task, first_stage))

        return self._once("search", first_stage, make, f"{task.name} {task.corpus.digest}")

    def preparing(self, first_stage: ShardedFirstStage) -> Place:
        """Return the place of what first stages of one kind and one group share."""

        def make() -> Place:
            digest = fingerprint([type(first_stage).__name__, first_stage.artifact_group])[:12]
            return Place(
                "prepare", f"preparing {first_stage.artifact_label} {digest}", self._runner.preparing(first_stage)
            )

        return self._once("prepare", first_stage, make)

    def model(self, model: LanguageModel) -> Place:
        """Return the place of prompts; rows that one running model can answer have one place."""

        def make() -> Place:
            return Place("write", f"model {self._runner.engine(model)}", self._runner.writing(model))

        return self._once("write", model, make)

    def scorer(self, scorer: Scorer) -> Place:
        """Return the place of pairs."""

        def make() -> Place:
            digest = fingerprint(dict(self._runner.scoring_inputs(scorer)))[:12]
            return Place("score", f"scorer {scorer.name} {digest}", self._runner.scoring(scorer))

        return self._once("score", scorer, make)

    def _once(self, kind: Kind, of: object, make: Callable[[], Place], more: str = "") -> Place:
        """Return what `make` made for this very object; the object is held, so that no other gets its number."""
        key = (kind, id(of), more)
        if key not in self._named:
            self._named[key] = of, make()
        return self._named[key][1]
