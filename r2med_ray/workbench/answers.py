"""The answer to a demand. The store has the answer already, or the answer is yet to be made."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from r2med_ray.chat import ChatPrompt, Completion
from r2med_ray.cuts import PartCuts
from r2med_ray.demands import Ask, Find, Score
from r2med_ray.first_stages.stored_speed import Speed
from r2med_ray.storage.keys import ArtifactKey
from r2med_ray.types import Reranking, Run
from r2med_ray.workbench.made import Made, scores_made, text_made


class Answer(ABC):
    """The answer to one demand of one part."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        """Arrow of the flow → how long the work for this answer took, also if it was done before; empty if that
        wasn't noted."""
        self.cuts: PartCuts | None = None
        """What was cut for this answer, where a model reads texts for a run that is kept; None for all else."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the artefacts that hold the answer."""
        return ()

    @property
    def made(self) -> Sequence[Made]:
        """How pairs were scored, or texts were written, for the answer."""
        return ()

    @property
    @abstractmethod
    def is_there(self) -> bool:
        """Whether the answer is complete."""

    @property
    @abstractmethod
    def value(self) -> Any:
        """What the part is sent, once the answer is complete."""


class KnownAnswer(Answer):
    """An answer that nothing has to be made for."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self._value = value

    @property
    def is_there(self) -> bool:
        return True

    @property
    def value(self) -> Any:
        return self._value


class RunAnswer(Answer):
    """The answer to a search.

    Args:
        find: the demand.
        key: names the run in the store.
        run: what is stored; None if the search is yet to be made.
    """

    def __init__(self, find: Find, key: ArtifactKey, run: Run | None = None) -> None:
        super().__init__()
        self.find = find
        self.key = key
        self.run = run
        self.queries_prepared: bool | None = None
        """Whether all that the search needs is made of its queries, e.g. vectors; None before the store was asked."""

    @property
    def names(self) -> tuple[str, ...]:
        return (self.key.name,) if self.find.keep else ()

    @property
    def is_there(self) -> bool:
        return self.run is not None

    @property
    def value(self) -> Run | None:
        return self.run


class ScoresAnswer(Answer):
    """The answer to a demand for scores of pairs.

    Args:
        score: the demand.
        key: names the scores in the store.
        reranking: what is stored; None if the pairs are yet to be scored.
    """

    def __init__(self, score: Score, key: ArtifactKey, reranking: Reranking | None = None) -> None:
        super().__init__()
        self.score = score
        self.key = key
        self.reranking = reranking
        self.speeds: Sequence[Speed] = ()
        """How fast the pairs were scored, per computer."""

    @property
    def made(self) -> Sequence[Made]:
        return [scores_made(self.key, self.score.scorer.name, self.speeds, self.reranking)] if self.reranking else []

    @property
    def names(self) -> tuple[str, ...]:
        return (self.key.name,)

    @property
    def is_there(self) -> bool:
        return self.reranking is not None

    @property
    def value(self) -> Reranking | None:
        return self.reranking


class TextsAnswer(Answer):
    """The answer to prompts, some of which may have no text yet.

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
        self._note_seconds()

    @property
    def missing(self) -> dict[str, tuple[ArtifactKey, ChatPrompt]]:
        """The texts that are yet to be written: digest of the key → key and prompt."""
        return {
            key.digest: (key, prompt)
            for key, prompt in zip(self._keys, self.ask.prompts, strict=True)
            if key.digest not in self._texts
        }

    @property
    def there(self) -> list[tuple[ChatPrompt, Completion]]:
        """The prompts that are answered, with their texts."""
        texts = (
            (prompt, self._texts.get(key.digest)) for key, prompt in zip(self._keys, self.ask.prompts, strict=True)
        )
        return [(prompt, text) for prompt, text in texts if text is not None]

    def receive(self, written: Mapping[str, Completion | None]) -> None:
        """Take the texts that were missing. A text is None if the model has no room for the prompt."""
        self._texts.update({digest: written[digest] for digest in self.missing if digest in written})
        self._note_seconds()

    def _note_seconds(self) -> None:
        """Note how long the requests for all of its texts took together, whenever that was."""
        seconds = sum(text.seconds for text in self._texts.values() if text)
        self.seconds = {"write": seconds} if seconds else {}

    @property
    def made(self) -> Sequence[Made]:
        return [text_made(key, self.ask.model, text) for key in self._keys if (text := self._texts.get(key.digest))]

    @property
    def is_there(self) -> bool:
        return not self.missing

    @property
    def value(self) -> list[Completion | None]:
        """One text per prompt, in their order."""
        return [self._texts[key.digest] for key in self._keys]
