"""How a pair that is too long is cut, and counts of what was cut off queries and documents.

A tokenizer of transformers cuts a pair by the same rule (`truncation="longest_first"`).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from r2med_ray.cuts import CutCounter
from r2med_ray.models.networks.tokens import whole_lengths


class PairCut(NamedTuple):
    """Tokens of a pair's query and document before and after the cut."""

    query: int
    document: int
    kept_query: int
    kept_document: int


def cut_pair(query: int, document: int, room: int) -> PairCut:
    """Return how many tokens of a pair's texts are kept in a room of so many tokens.

    The longer text is cut, until both have the same length. So each text has half of the room at least, or is whole:
    a passage is cut to what a query leaves, and a query that leaves less than half of the room is cut itself.
    """
    if query + document <= room:
        return PairCut(query, document, query, document)
    shorter = min(query, document, room // 2)
    kept = (shorter, room - shorter) if query <= document else (room - shorter, shorter)
    return PairCut(query, document, *kept)


def cut_inside(encoding: Any, query: tuple[int, int], document: int, most: int) -> tuple[list[int], PairCut]:
    """Cut query and document out of one text that holds both, and leave all that is around them.

    A token that is partly outside of the two belongs to what is around them.

    Args:
        encoding: the whole text's tokens, from a fast tokenizer.
        query: where the query begins and ends, in characters.
        document: where the document begins; it ends with the text.
        most: tokens to keep.

    Returns:
        The ids of the tokens that are kept, and the counts.
    """
    starts, ends = zip(*encoding.offsets, strict=True)
    first = bisect_left(starts, query[0])
    stop = max(first, bisect_right(ends, query[1]))
    last = max(stop, bisect_left(starts, document))
    around = first + last - stop
    cut = cut_pair(stop - first, len(starts) - last, max(0, most - around))
    ids = encoding.ids
    kept = [*ids[: first + cut.kept_query], *ids[stop:last], *ids[last : last + cut.kept_document]]
    return kept, cut


def cut_by_tokenizer(
    tokenizer: Any, pairs: Sequence[tuple[str, str]], lengths: Sequence[int], max_length: int
) -> dict[int, PairCut]:
    """Return position → counts of the pairs that a tokenizer filled up to `max_length`, by `longest_first`.

    Args:
        tokenizer: cut the pairs.
        pairs: the texts that it was given.
        lengths: tokens of each pair after the cut, special tokens included.
        max_length: the length to which it cut.
    """
    full = [position for position, length in enumerate(lengths) if length >= max_length]
    texts = list(dict.fromkeys(text for position in full for text in pairs[position]))
    length_of = dict(zip(texts, whole_lengths(tokenizer, texts, special=False), strict=True))
    room = max_length - tokenizer.num_special_tokens_to_add(pair=True)
    return {
        position: cut_pair(length_of[pairs[position][0]], length_of[pairs[position][1]], room) for position in full
    }


def note_pairs(
    counter: CutCounter,
    queries: Sequence[int],
    lengths: Sequence[int],
    cut: Mapping[int, PairCut],
    *,
    around: int,
    max_length: int,
) -> list[PairCut]:
    """Count and return what was cut off the queries and documents of pairs.

    Args:
        counter: gets the counts.
        queries: tokens of each pair's query.
        lengths: tokens of each pair. Those of a pair that isn't in `cut` are its query, its document and `around`.
        cut: position → counts of the pairs that may have been cut.
        around: tokens of a pair that belong to neither text.
        max_length: most tokens of a pair.
    """
    counts = [
        cut.get(position) or cut_pair(query, max(0, length - around - query), length)
        for position, (query, length) in enumerate(zip(queries, lengths, strict=True))
    ]
    counter.note(
        "query", [each.kept_query for each in counts], [each.query - each.kept_query for each in counts], max_length
    )
    counter.note(
        "document",
        [each.kept_document for each in counts],
        [each.document - each.kept_document for each in counts],
        max_length,
    )
    return counts


def query_lengths(tokenizer: Any, queries: Sequence[str]) -> list[int]:
    """Return the tokens of each query, without special tokens. A query that comes several times is read once."""
    distinct = list(dict.fromkeys(queries))
    length_of = dict(zip(distinct, whole_lengths(tokenizer, distinct, special=False), strict=True))
    return [length_of[query] for query in queries]
