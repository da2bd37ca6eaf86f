"""Queries in blocks, so that memory is bounded however many there are."""

from collections.abc import Sequence

from r2med_ray.types import Query

MOST_QUERIES = 10_000
"""Queries that are prepared and searched together. A block of so many vectors of 4,096 dimensions has 160 MB."""


def blocks(queries: Sequence[Query]) -> list[Sequence[Query]]:
    """Return queries in blocks of `MOST_QUERIES`, at least one. An artefact is made of each block."""
    return [queries[at : at + MOST_QUERIES] for at in range(0, max(1, len(queries)), MOST_QUERIES)]
