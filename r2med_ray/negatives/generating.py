"""One round of hard negatives for a task, as steps.

    plan → hard query → examples → passage → filters → judges → release

A slot is filled when a passage passed every check. Until then the next attempt writes another one, with another seed;
a failure of a model or a service fills nothing.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from r2med_ray.demands import Expect, Steps
from r2med_ray.negatives.calibration import Grades, calibrated
from r2med_ray.negatives.controls import paraphrased
from r2med_ray.negatives.drafts import RELEASED, Draft, Slot, open_of, seed_of
from r2med_ray.negatives.judging import judged
from r2med_ray.negatives.material import Material
from r2med_ray.negatives.near_duplicates import Earlier, apart
from r2med_ray.negatives.release_checks import released
from r2med_ray.negatives.slots import plan
from r2med_ray.negatives.writing import written


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What a round made for one task."""

    slots: tuple[Slot, ...]
    drafts: tuple[Draft, ...]
    """Every attempt with the verdict on it, in the order of the plan."""

    paraphrases: tuple[Draft, ...] = ()
    """The paraphrases of positives, with the verdict on each."""

    calibration: Grades = field(default_factory=dict)
    """How the judges grade what is known."""

    @property
    def released(self) -> list[Draft]:
        return [draft for draft in self.drafts if draft.verdict == RELEASED]

    @property
    def unfilled(self) -> list[Slot]:
        """The slots that no attempt filled."""
        filled = {draft.slot for draft in self.released}
        return [slot for slot in self.slots if slot not in filled]

    @property
    def verdicts(self) -> Counter[str]:
        """Verdict → number of attempts."""
        return Counter(draft.verdict for draft in self.drafts)


def planned(material: Material) -> list[Slot]:
    """Return the plan of the round."""
    config = material.config
    return plan(
        material.task,
        material.positives.keys(),
        kinds=config.kinds,
        per_query=config.per_query,
        round_=config.round,
        seed=config.seed,
        queries=config.queries,
    )


def generate(material: Material) -> Steps[Round]:
    """Write and check the passages of a round."""
    tools, config = material.tools, material.config
    yield Expect(
        searches=((material.task, tools.anchors), (material.task, tools.embedder)),
        models=(tools.writer, *tools.judges),
        scorers=(tools.scorer,) if tools.scorer else (),
    )
    calibration = yield from calibrated(material)
    slots = waiting = planned(material)
    drafts: list[Draft] = []
    earlier = Earlier()
    for attempt in range(config.attempts):
        made = yield from _attempt(material, waiting, attempt, earlier)
        drafts += made
        filled = {draft.slot for draft in made if draft.verdict == RELEASED}
        waiting = [slot for slot in waiting if slot not in filled]
        if not waiting:
            break
    place = {slot: number for number, slot in enumerate(slots)}
    drafts.sort(key=lambda draft: (place[draft.slot], draft.attempt))
    good = [draft for draft in drafts if draft.verdict == RELEASED]
    paraphrases = (yield from paraphrased(material, good)) if config.controls else []
    return Round(slots=tuple(slots), drafts=tuple(drafts), paraphrases=tuple(paraphrases), calibration=calibration)


def _attempt(material: Material, slots: Sequence[Slot], attempt: int, earlier: Earlier) -> Steps[list[Draft]]:
    """Return one draft per slot, with the verdict on it."""
    seed = material.config.seed
    drafts = [
        Draft(slot=slot, attempt=attempt, seed=seed_of(seed, material.task.name, *slot, attempt)) for slot in slots
    ]
    ended: list[Draft] = []
    for stage in (written, partial(apart, earlier=earlier), judged, released):
        drafts = yield from stage(material, drafts)
        ended += [draft for draft in drafts if draft.verdict]
        drafts = open_of(drafts)
    return [*ended, *(replace(draft, verdict=RELEASED) for draft in drafts)]
