"""Turns a text into terms as for NanoR2MED's BM25 lists: HAKARI-Bench's tokenizer `english_porter_stop`.

    runs of ASCII letters and digits → lower case → 74 stop words → NLTK's Porter stemmer in its default mode

Source of word list and chain: hakari_bench/bm25.py of github.com/hakari-bench/hakari-bench at 217c8723. The stemmer's
default mode, NLTK_EXTENSIONS, differs from `porter` in its list of irregular forms and in words of two letters or
fewer.
"""

import functools
import re
from collections.abc import Callable

ANALYZER = "english-porter-stop-1"
"""The analyzer's name in the key of everything that is made from terms. Change it with any change of the terms."""

STOP_WORDS = frozenset({
    "a", "an", "and", "are", "as", "at", "be", "been", "being", "but", "by", "for", "from", "had", "has", "have",
    "he", "her", "hers", "him", "his", "i", "if", "in", "into", "is", "it", "its", "itself", "me", "my", "myself",
    "of", "on", "or", "our", "ours", "ourselves", "she", "so", "than", "that", "the", "their", "theirs", "them",
    "themselves", "then", "there", "these", "they", "this", "those", "to", "too", "up", "very", "was", "we", "were",
    "what", "when", "where", "which", "who", "whom", "why", "will", "with", "you", "your", "yours", "yourself",
    "yourselves",
})  # fmt: skip

_TOKEN = re.compile("[A-Za-z0-9]+")


def pieces(text: str) -> list[str]:
    """Return the tokens of a text in their order, in their spelling."""
    return _TOKEN.findall(text)


@functools.lru_cache(maxsize=1 << 16)
def terms_of_piece(piece: str) -> tuple[str, ...]:
    """Return the term of a token; no term for a stop word."""
    word = piece.lower()
    return () if word in STOP_WORDS else (_stem()(word),)


@functools.cache
def _stem() -> Callable[[str], str]:
    from nltk.stem import PorterStemmer  # importing NLTK takes seconds

    stem: Callable[[str], str] = PorterStemmer().stem
    return stem
