"""What the store doesn't hold of a demand, and how the demand is answered once it was made."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from r2med_ray.chat import ChatPrompt, Completion
from r2med_ray.demands import Ask, Find, Score
from r2med_ray.storage.keys import ArtifactKey
from r2med_ray.types import Reranking, Run


class Lack(ABC):
    """A demand that waits for work."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        """Arrow of the flow → how long this demand's work took."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the artefacts that answer it."""
        return ()

    @property
    @abstractmethod
    def is_filled(self) -> bool:
        """Whether the work is done."""

    @abstractmethod
    def answer(self) -> Any:
        """Return the answer, once it is there."""


class LackingRun(Lack):
    """A search that was not made yet."""

    def __init__(self, find: Find, key: ArtifactKey) -> None:
        super().__init__()
        self.find = find
        self.key = key
        self.run: Run | None = None
        self.queries_prepared: bool | None = None
        """None until somebody has looked."""

    @property
    def names(self) -> tuple[str, ...]:
        return (self.key.name,) if self.find.keep else ()

    @property
    def is_filled(self) -> bool:
        return self.run is not None

    def answer(self) -> Run | None:
        """Return the run."""
        return self.run


class LackingScores(Lack):
    """Pairs that were not scored yet."""

    def __init__(self, score: Score, key: ArtifactKey) -> None:
        super().__init__()
        self.score = score
        self.key = key
        self.reranking: Reranking | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return (self.key.name,)

    @property
    def is_filled(self) -> bool:
        return self.reranking is not None

    def answer(self) -> Reranking | None:
        """Return the scores."""
        return self.reranking


class LackingTexts(Lack):
    """Prompts of which some have no text yet.

    Args:
        ask: the demand.
        keys: one per prompt.
        found: the texts that are stored, by the digest of their key.
    """

    def __init__(self, ask: Ask, keys: Sequence[ArtifactKey], found: Mapping[str, Completion]) -> None:
        super().__init__()
        self.ask = ask
        self._keys = keys
        self._texts: dict[str, Completion | None] = dict(found)

    @property
    def missing(self) -> dict[str, tuple[ArtifactKey, ChatPrompt]]:
        """Digest of its key → key and prompt of each text that is yet to be written."""
        return {
            key.digest: (key, prompt)
            for key, prompt in zip(self._keys, self.ask.prompts, strict=True)
            if key.digest not in self._texts
        }

    def receive(self, written: Mapping[str, Completion | None]) -> None:
        """Take those of the texts that it waits for; None where the model has no room for the prompt."""
        self._texts.update({digest: written[digest] for digest in self.missing if digest in written})

    @property
    def is_filled(self) -> bool:
        return not self.missing

    def answer(self) -> list[Completion | None]:
        """Return one text per prompt, in their order."""
        return [self._texts[key.digest] for key in self._keys]
