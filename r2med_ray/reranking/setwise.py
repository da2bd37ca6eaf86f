"""Sorts candidates by a question of one kind: which of these few is the best? (Zhuang et al. 2024, arXiv 2310.09497)

A sort is a generator: it yields the positions that are to be shown, and is sent the place of the best of them. Only
the first `top` places are found. The others keep the order that they had.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Literal, TypeAlias

Sort: TypeAlias = Literal["heap", "bubble"]

Picking: TypeAlias = Generator[list[int], int, list[int]]
"""Yields positions, is sent the place of the best of them from 0, and returns all positions, the best first."""


def heap_sort(order: Sequence[int], size: int, top: int) -> Picking:
    """Find the best `top` by a heap whose nodes have `size` - 1 children, so that a question shows `size`."""
    heap = list(order)
    for place in reversed(range((len(heap) - 2) // (size - 1) + 1)):
        yield from _sift(heap, place, size - 1)
    best: list[int] = []
    while heap and len(best) < top:
        best.append(heap[0])
        last = heap.pop()
        if heap and len(best) < top:
            heap[0] = last
            yield from _sift(heap, 0, size - 1)
    return _with_rest(best, order)


def bubble_sort(order: Sequence[int], size: int, top: int) -> Picking:
    """Find the best `top` one after the other: the best of each window rises to the window's first place."""
    ranked = list(order)
    for place in range(min(top, len(ranked) - 1)):
        start = max(place, len(ranked) - size)
        while True:
            best = yield ranked[start : start + size]
            ranked[start], ranked[start + best] = ranked[start + best], ranked[start]
            if start == place:
                break
            start = max(place, start - (size - 1))
    return _with_rest(ranked[:top], order)


def _with_rest(best: Sequence[int], order: Sequence[int]) -> list[int]:
    found = {*best}
    return [*best, *(position for position in order if position not in found)]


def _sift(heap: list[int], place: int, children: int) -> Generator[list[int], int, None]:
    """Let the position at a place sink until none of its children is better."""
    while (first := place * children + 1) < len(heap):
        nodes = [place, *range(first, min(first + children, len(heap)))]
        best = nodes[(yield [heap[node] for node in nodes])]
        if best == place:
            return
        heap[place], heap[best] = heap[best], heap[place]
        place = best


SORTS: Mapping[Sort, Callable[[Sequence[int], int, int], Picking]] = {"heap": heap_sort, "bubble": bubble_sort}
