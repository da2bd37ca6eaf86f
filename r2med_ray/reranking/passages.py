"""How much of a passage a language model is shown: its first words, characters or tokens."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from r2med_ray.cuts import CutCounter, SideCuts, Unit
from r2med_ray.protocols import Candidates


class Tokenizer(Protocol):
    """Counts and cuts texts in a model's tokens."""

    def count(self, text: str) -> int:
        """Return the number of a text's tokens."""
        ...

    def cut(self, text: str, most: int) -> str:
        """Return the beginning of a text: its first `most` tokens."""
        ...


def no_tokenizer() -> Tokenizer:
    """Stand for the tokenizer of a limit that needs none."""
    raise AssertionError("a limit in tokens comes with a tokenizer")


@dataclass(frozen=True, kw_only=True)
class PassageLimit:
    """The most that is shown of a passage. White space counts as one space."""

    most: int
    unit: Unit = "words"
    open_tokenizer: Callable[[], Tokenizer] = no_tokenizer
    """Loads the tokenizer of a limit in tokens. It is called for the first text that is cut."""

    @cached_property
    def _tokenizer(self) -> Tokenizer:
        return self.open_tokenizer()

    def size(self, text: str) -> int:
        """Return the length of a text in the limit's unit."""
        words = text.split()
        if self.unit == "words":
            return len(words)
        folded = " ".join(words)
        return len(folded) if self.unit == "characters" else self._tokenizer.count(folded)

    def cut(self, text: str) -> str:
        """Return the beginning of a text, on one line."""
        words = text.split()
        if self.unit == "words":
            return " ".join(words[: self.most])
        folded = " ".join(words)
        return folded[: self.most] if self.unit == "characters" else self._tokenizer.cut(folded, self.most)

    def cuts(self, work: Sequence[Candidates]) -> SideCuts:
        """Return what is cut off the texts of all pairs: off passages alone, as queries are shown whole."""
        counter = CutCounter(self.unit)
        counter.note_first("document", (self.size(each.content) for _, found, _ in work for each in found), self.most)
        queries = (self.size(query.text) for query, _, _ in work)
        counter.note_first("query", queries, times=[len(documents) for _, documents, _ in work])
        return counter.take()
