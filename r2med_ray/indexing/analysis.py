"""Turns a text into terms as Lucene's English analysis does, without Java.

R2MED's BM25 was published with Anserini's DefaultEnglishAnalyzer. This analyzer is a chain of Lucene 9 parts, which
are rebuilt here:

    StandardTokenizer → English possessive filter → lower case → 33 stop words → Porter stemmer

`words.py` has the tokeniser, `porter.py` has the stemmer.
"""

import functools

from r2med_ray.indexing.porter import stem
from r2med_ray.indexing.words import pieces, tokens_of_piece

ANALYZER = "lucene-english-1"
"""The analyzer's name in the key of everything that is made from terms. Change it with any change of the terms."""

STOP_WORDS = frozenset({
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not", "of",
    "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was", "will", "with",
})  # fmt: skip
"""Lucene's EnglishAnalyzer.ENGLISH_STOP_WORDS_SET."""


def analyze(text: str) -> list[str]:
    """Return the terms of a text in their order, repeats included."""
    return [term for piece in pieces(text) for term in terms_of_piece(piece)]


@functools.lru_cache(maxsize=1 << 16)
def terms_of_piece(piece: str) -> tuple[str, ...]:
    """Return the terms of a piece (`words.pieces`) of a text, in order."""
    words = map(_word, tokens_of_piece(piece))
    return tuple(map(_stem, (word for word in words if word not in STOP_WORDS)))


def _word(token: str) -> str:
    """Remove a possessive s, and lower each character by itself as Java does: a final Σ becomes σ, İ becomes i."""
    if token[-1] in "sS" and token[-2:-1] in ("'", "’", "＇"):
        token = token[:-2]
    return token.lower() if token.isascii() else "".join(character.lower()[0] for character in token)


def _stem(word: str) -> str:
    """Stem a word as Java sees it: a character beyond U+FFFF counts as two."""
    if max(word) <= "\uffff":
        return stem(word)
    units = memoryview(word.encode("utf-16-le")).cast("H")
    return stem("".join(map(chr, units))).encode("utf-16-le", "surrogatepass").decode("utf-16-le")
