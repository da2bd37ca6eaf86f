"""How fast an artefact was made. It stands in the manifest, is part of no key, and lets a plan estimate hours."""

from dataclasses import asdict, dataclass
from typing import Self

from r2med_ray.first_stage import Computing
from r2med_ray.models.catalog.devices import device_name
from r2med_ray.storage.artifacts import Artifact
from r2med_ray.storage.keys import Json

SPEED = "speed"
"""The attribute of an artefact that holds the figures. An artefact from before they were taken has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """What one worker did in one piece. Loading of a model, reading and writing are not in it."""

    documents: int
    seconds: float
    device: str
    """The name of the GPU, as its driver says it; or `cpu`."""

    threads: int
    """Threads that it computed with on a CPU."""

    @classmethod
    def measured(cls, documents: int, seconds: float, computing: Computing) -> Self:
        """Return what a worker has just done."""
        device = device_name(computing.device)
        return cls(documents=documents, seconds=seconds, device=device, threads=computing.threads)

    def to_json(self) -> dict[str, Json]:
        """Return it as plain values, for an artefact."""
        return asdict(self)


def speed_of(artifact: Artifact) -> Speed | None:
    """Return how fast an artefact was made; None if that was not noted."""
    noted = artifact.attributes.get(SPEED)
    return Speed(**noted) if noted else None
