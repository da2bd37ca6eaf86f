"""How fast an artefact was made, and on what. It stands in the manifest and is part of no key.

A plan estimates hours from it, and a report tells it, whichever job made the artefact.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Self

from r2med_ray.first_stage import Computing
from r2med_ray.models.catalog.devices import device_name, processor_name
from r2med_ray.protocols import PairScorer
from r2med_ray.reranking.pair_reranking import Scored, score_counted
from r2med_ray.storage.artifact import Artifact
from r2med_ray.storage.keys import Json

SPEED = "speed"
"""The attribute of an artefact that holds the figures, or a list of them where several workers made it. An artefact
from before they were taken has none."""

USAGE = "usage"
"""The attribute of an artefact that holds what a service counted for it: texts, tokens, requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """What one worker did in one piece. Loading of a model, reading and writing are not in it."""

    documents: int
    """Documents, queries or pairs."""

    seconds: float
    device: str
    """The name of the GPU, as its driver says it; or `cpu`."""

    threads: int
    """Threads that it computed with on a CPU."""

    processor: str = ""
    """The name of the CPU, as Linux says it. Artefacts from before it was noted have none."""

    @classmethod
    def measured(cls, documents: int, seconds: float, computing: Computing) -> Self:
        """Return what a worker has just done."""
        return cls(
            documents=documents,
            seconds=seconds,
            device=device_name(computing.device),
            threads=computing.threads,
            processor=processor_name(),
        )

    @property
    def computer(self) -> str:
        """The GPU, or else the CPU and the threads on it."""
        if self.device != "cpu":
            return self.device
        return f"{self.processor or self.device}, {self.threads} thread{'s' if self.threads != 1 else ''}"

    def to_json(self) -> dict[str, Json]:
        """Return it as plain values, for an artefact."""
        return asdict(self)


def score_timed(scorer: PairScorer, pairs: Sequence[tuple[str, str]], computing: Computing) -> Scored:
    """Have pairs scored, and return what `score_counted` does, with how fast they were scored."""
    began = time.monotonic()
    scored = score_counted(scorer, pairs)
    return scored._replace(speed=Speed.measured(len(pairs), time.monotonic() - began, computing).to_json())


def speeds_of(artifact: Artifact) -> list[Speed]:
    """Return how fast an artefact was made, per computer; nothing if that was not noted."""
    noted = artifact.attributes.get(SPEED) or []
    return [Speed(**each) for each in (noted if isinstance(noted, list) else [noted])]


def per_computer(speeds: Iterable[Speed]) -> list[Speed]:
    """Add up what was done on each kind of computer."""
    sums: dict[str, Speed] = {}
    for speed in speeds:
        before = sums.get(speed.computer)
        if before is not None:
            speed = replace(
                speed, documents=before.documents + speed.documents, seconds=before.seconds + speed.seconds
            )
        sums[speed.computer] = speed
    return list(sums.values())
