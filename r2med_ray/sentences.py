"""Sentences of a text, and the share that each one has in a score of late interaction.

Such a score is a sum over the query's tokens: of each, the greatest similarity with a token of the document (MaxSim).
The share of a sentence is the part of the sum whose best document tokens lie in the sentence. What the shares lack to
1 belongs to tokens of no sentence, which are special tokens and those of a prompt.

Shape letters: S tokens of the query, T tokens of the document.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

Span: TypeAlias = tuple[int, int]
"""Where characters begin and end in a text."""

Shares: TypeAlias = tuple[float, ...]
"""The share of each sentence of a text, in their order, up to the last one that has a share. Empty if they are not
known."""


class Told(NamedTuple):
    """Which sentences put passages where they stand."""

    model: str
    """The name of the retriever or reranker whose score it is."""

    shares: Mapping[str, Mapping[str, Shares]]
    """query_id → doc_id → the shares of the document's sentences."""

    why_not: str = ""
    """Why the shares are not known; empty if they are."""


class Best(NamedTuple):
    """A sentence with a large share."""

    number: int
    """Its place in the text, from 1."""

    start: int
    """Where it begins in the text, in characters."""

    stop: int
    percent: int


SHOWN = 3
"""Sentences of a passage that are shown."""

SPLITTER = "sentences-1"
"""Name of the rules below wherever shares are stored. Change it with any change of the rules."""

NO_SENTENCE = -1

_BETWEEN = re.compile(r"""(?P<end>[.!?…]["'’”)\]]?)\s+(?=["'‘“(\[]*(?P<next>\S?))|[。！？]|\s*\n\s*""")
_ABBREVIATION = re.compile(r"\b(?:Drs?|Mrs?|Ms|Prof|St|vs|Figs?|No|cf|al|e\.g|i\.e)\.\Z")
"""What names and numbers come after."""

_LONGEST = 8
"""More characters than an abbreviation has."""


def sentences(text: str) -> list[Span]:
    """Return where the sentences of a text begin and end. A line break ends one, a small letter begins none."""
    found, start = list[Span](), 0
    for stop, begin in [*_ends(text), (len(text), len(text))]:
        if words := text[start:stop].rstrip():
            found.append((start, start + len(words)))
        start = begin
    return found


def _ends(text: str) -> Iterator[Span]:
    """Yield where each sentence but the last ends, and where the next one begins."""
    for between in _BETWEEN.finditer(text):
        end = between.end("end") if between["end"] else between.end()
        goes_on = between["end"] and (
            between["next"].islower() or _ABBREVIATION.search(text, max(0, end - _LONGEST), end)
        )
        if not goes_on or "\n" in between[0]:
            yield end, between.end()


def best_sentences(text: str, of_text: Shares) -> list[Best]:
    """Return the sentences of a text with the largest shares, the largest first."""
    spans = sentences(text)
    order = sorted(range(len(of_text)), key=lambda number: -of_text[number])[:SHOWN]
    found = (Best(number + 1, *spans[number], round(100 * of_text[number])) for number in order)
    return [best for best in found if best.percent > 0]


def sentences_of_tokens(spans: Sequence[Span], tokens: Sequence[Span]) -> npt.NDArray[np.int32]:
    """Return the number of the sentence of each token, from 0, int32 of shape (T,).

    A token belongs where its last character is, because its first one may be the space before it. A token without
    characters belongs to `NO_SENTENCE`.
    """
    starts = [start for start, _ in spans]
    numbers = [bisect_right(starts, stop - 1) - 1 if start < stop else NO_SENTENCE for start, stop in tokens]
    return np.array(numbers, np.int32)


def shares(similarities_ST: npt.NDArray[Any], sentences_T: npt.NDArray[np.int32], weights_S: Any = 1.0) -> Shares:
    """Return the share of each sentence in the score of a document.

    The first of several document tokens that are equally similar is the best one.

    Args:
        similarities_ST: of each token of the query with each token of the document.
        sentences_T: see `sentences_of_tokens`.
        weights_S: what the best match of each token of the query is multiplied by.

    Returns:
        Nothing if no token lies in a sentence, or the score is not positive and so has no shares.
    """
    best_S = similarities_ST.argmax(axis=1)
    parts_S = np.take_along_axis(similarities_ST, best_S[:, None], axis=1)[:, 0] * weights_S
    of_S = sentences_T[best_S]
    inside_S = of_S != NO_SENTENCE
    if parts_S.sum() <= 0 or not inside_S.any():
        return ()
    sums = np.bincount(of_S[inside_S], parts_S[inside_S])
    return tuple((sums / parts_S.sum()).round(4).tolist())
