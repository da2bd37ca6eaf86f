"""Text to terms as Lucene's English analysis does it, without Java.

Anserini's DefaultEnglishAnalyzer, with which R2MED's BM25 was published, is a chain of Lucene 9 parts, rebuilt here:

    StandardTokenizer → English possessive filter → lower case → 33 stop words → Porter stemmer

`words.py` has the tokeniser, `porter.py` the stemmer.
"""

import functools

from r2med_ray.indexing.porter import stem
from r2med_ray.indexing.words import tokenize

ANALYZER = "lucene-english-1"
"""Belongs into the key of whatever is made from terms. Change it with any change of the terms."""

STOP_WORDS = frozenset({
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not", "of",
    "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was", "will", "with",
})  # fmt: skip
"""Lucene's EnglishAnalyzer.ENGLISH_STOP_WORDS_SET."""


def analyze(text: str) -> list[str]:
    """Return the terms of a text, in order, repeats included."""
    return [term for term in map(normalize, tokenize(text)) if term]


@functools.lru_cache(maxsize=1 << 18)
def normalize(token: str) -> str:
    """Return the term of a token, or an empty text where it has none: a stop word, or underscores alone."""
    if token[-1] in "sS" and token[-2:-1] in ("'", "’", "＇"):
        token = token[:-2]
    word = token.lower() if token.isascii() else "".join(map(_lower, token))
    if word in STOP_WORDS or not word.strip("_"):
        return ""
    return stem(word) if max(word) <= "\uffff" else _stem_utf16(word)


def _lower(character: str) -> str:
    """Lower one character by itself, as Java's Character.toLowerCase: Σ is σ at the end of a word too, İ is i."""
    return character.lower()[0]


def _stem_utf16(word: str) -> str:
    """Stem a word as Java sees it, where a character beyond U+FFFF counts as two."""
    units = memoryview(word.encode("utf-16-le")).cast("H")
    return stem("".join(map(chr, units))).encode("utf-16-le", "surrogatepass").decode("utf-16-le")
