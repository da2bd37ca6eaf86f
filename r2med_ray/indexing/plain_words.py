"""Text to terms without stop words and stemmer: HAKARI-Bench's tokenizer `regex`, NanoR2MED's negative control.

    runs of word characters of any script → lower case

NanoR2MED's BM25 lists of before 2026-05-25 were most likely made with it, for it was the automatic choice for English
then: `_TOKEN_PATTERN` and `resolve_bm25_config_for_queries`, hakari_bench/bm25.py of github.com/hakari-bench/
hakari-bench. With it BM25 falls on long clinical queries, so whoever meets those figures has the old lists or terms.
"""

import re

ANALYZER = "plain-words-1"
"""Belongs into the key of whatever is made from terms. Change it with any change of the terms."""

_TOKEN = re.compile(r"\b\w+\b")


def pieces(text: str) -> list[str]:
    """Return the tokens of a text, in order, as they are spelled."""
    return _TOKEN.findall(text)


def terms_of_piece(piece: str) -> tuple[str, ...]:
    """Return the term of a token."""
    return (piece.lower(),)
