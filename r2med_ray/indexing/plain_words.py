"""Turns a text into terms without stop words or stemmer: HAKARI-Bench's tokenizer `regex`.

    runs of word characters of any script → lower case

The tokenizer is a negative control for NanoR2MED. NanoR2MED's BM25 lists before 2026-05-25 were most likely made with
it, because it was the automatic choice for English then: `_TOKEN_PATTERN` and `resolve_bm25_config_for_queries`,
hakari_bench/bm25.py of github.com/hakari-bench/hakari-bench. BM25 with these terms is weak on long clinical queries.
If you see such figures, you have the old lists or the old terms.
"""

import re

ANALYZER = "plain-words-1"
"""The analyzer's name in the key of everything that is made from terms. Change it with any change of the terms."""

_TOKEN = re.compile(r"\b\w+\b")


def pieces(text: str) -> list[str]:
    """Return the tokens of a text in their order, in their spelling."""
    return _TOKEN.findall(text)


def terms_of_piece(piece: str) -> tuple[str, ...]:
    """Return the term of a token."""
    return (piece.lower(),)
