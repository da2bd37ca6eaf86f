"""The ways from a text to its terms, by name. The name is in the key of everything that is made from terms."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from r2med_ray.indexing import analysis, plain_words, porter_stop, words
from r2med_ray.settings.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Analyzer:
    """Cuts a text into pieces, and each piece by itself into terms. So the terms of a piece are made only once."""

    name: str
    pieces: Callable[[str], Iterable[str]]
    terms_of_piece: Callable[[str], tuple[str, ...]]

    def analyze(self, text: str) -> list[str]:
        """Return the terms of a text in their order, repeats included."""
        return [term for piece in self.pieces(text) for term in self.terms_of_piece(piece)]


ANALYZERS = Registry(
    "analyzer",
    [
        (analyzer.name, analyzer)
        for analyzer in (
            Analyzer(name=analysis.ANALYZER, pieces=words.pieces, terms_of_piece=analysis.terms_of_piece),
            Analyzer(name=porter_stop.ANALYZER, pieces=porter_stop.pieces, terms_of_piece=porter_stop.terms_of_piece),
            Analyzer(name=plain_words.ANALYZER, pieces=plain_words.pieces, terms_of_piece=plain_words.terms_of_piece),
        )
    ],
)
