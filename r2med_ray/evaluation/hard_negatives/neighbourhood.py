"""A map of a query and the documents around it: their vectors in the two directions in which they differ most.

The map is a principal component analysis of the vectors at unit length. Nothing in it is random. It shows where the
documents lie to each other, and is no evidence of a ranking, which has all dimensions; so each document has its rank
beside it, and the map says what share of the differences its two directions hold.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from r2med_ray.types import DocId, FloatMatrix, FloatVector, QueryId
from r2med_ray.vectors import unit_length

Role: TypeAlias = Literal["positive", "own", "foreign", "other"]
"""What a document is for the query: a positive, its own hard negative, another query's, or none of these."""


class Spot(NamedTuple):
    """A document on the map."""

    doc_id: DocId
    role: Role
    rank: int | None
    """From 1; None if it isn't among the ranked documents."""

    x: float
    y: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighbourhoodMap:
    """The map of one query and one system."""

    task: str
    system: str
    query_id: QueryId
    x: float
    y: float
    """The place of the query."""

    points: tuple[Spot, ...]
    """By id."""

    explained: tuple[float, float]
    """The share of the differences that lies in each of the two directions."""

    without_vector: int = 0
    """Positives and hard negatives of the query that the index has no vector of."""


def neighbourhood(
    task: str,
    system: str,
    query_id: QueryId,
    query: FloatVector,
    vectors: Mapping[DocId, FloatVector],
    roles: Mapping[DocId, Role],
    ranks: Mapping[DocId, int],
) -> NeighbourhoodMap:
    """Return the map of a query.

    Args:
        task: the task that was searched.
        system: the system that searched.
        query_id: the query.
        query: its vector, float32, shape (D,).
        vectors: document → vector, float32, shape (D,).
        roles: what each document is for the query, also of documents without a vector.
        ranks: document → its rank, for ranked documents.
    """
    doc_ids = sorted(vectors.keys() & roles.keys())
    places_N2, explained = principal_plane(np.stack([query, *(vectors[doc_id] for doc_id in doc_ids)]))
    (x, y), *places = places_N2.tolist()
    return NeighbourhoodMap(
        task=task,
        system=system,
        query_id=query_id,
        x=x,
        y=y,
        points=tuple(
            Spot(doc_id, roles[doc_id], ranks.get(doc_id), *place)
            for doc_id, place in zip(doc_ids, places, strict=True)
        ),
        explained=explained,
        without_vector=len(roles) - len(doc_ids),
    )


def principal_plane(vectors_ND: FloatMatrix) -> tuple[FloatMatrix, tuple[float, float]]:
    """Return the places of N vectors in the plane in which they differ most, float64, shape (N, 2), and the share of
    the differences that lies in each direction.

    The sign of a direction is that its component of greatest size is positive.
    """
    unit_ND = unit_length(vectors_ND.astype(np.float64))
    centred_ND = unit_ND - unit_ND.mean(axis=0)
    _, sizes, directions = np.linalg.svd(centred_ND, full_matrices=False)
    plane_2D = np.zeros((2, vectors_ND.shape[1]))
    plane_2D[: len(directions)] = directions[:2]
    greatest = plane_2D[np.arange(2), np.abs(plane_2D).argmax(axis=1)]
    plane_2D *= np.where(greatest < 0, -1, 1)[:, None]
    shares = np.zeros(2)
    if total := float(sizes @ sizes):
        shares[: len(sizes)] = sizes[:2] ** 2 / total
    return centred_ND @ plane_2D.T, (float(shares[0]), float(shares[1]))
