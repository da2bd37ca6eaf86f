"""Rankings of many queries as arrays: 8 bytes per ranked document, and each distinct id once.

    RankedQueries    query_id → ranking; what a `Run` holds
    RankingArrays    the rankings alone, in the order of the queries; what shards answer

A tuple per document takes more than ten times as much. A ranking is made of the arrays whenever it is asked for, so
whoever goes from query to query holds the documents of one query at a time.

Shape letters: Q queries, H ranked documents of all queries, D distinct documents.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from r2med_ray.errors import DataError
from r2med_ray.storage.arrow import IntVector, codes, int_array, text_array
from r2med_ray.types import FloatVector, QueryId, Ranking, ScoredDoc

RANKINGS_AT_ONCE = 256
"""Rankings that exist as tuples while arrays are made of them."""


@dataclass(frozen=True, slots=True, eq=False)
class RankingArrays:
    """Rankings of Q queries in their order, one behind the other.

    Args:
        doc_ids: D distinct ids.
        doc: int32, shape (H,); the index in `doc_ids` of each ranked document.
        score: float32, shape (H,).
        start: int64, shape (Q + 1,); ranking q has the documents from `start[q]` up to `start[q + 1]`.
    """

    doc_ids: pa.StringArray
    doc: npt.NDArray[np.int32]
    score: FloatVector
    start: IntVector

    @classmethod
    def of(cls, rankings: Iterable[Ranking]) -> "RankingArrays":
        """Return rankings as arrays. They are taken a few at a time; a score that isn't float32 is rounded.

        Raises:
            DataError: an id has no UTF-8 form.
        """
        left = iter(rankings)
        return cls.joined(list(map(cls._of_few, iter(lambda: list(islice(left, RANKINGS_AT_ONCE)), []))))

    @classmethod
    def joined(cls, parts: Sequence["RankingArrays"]) -> "RankingArrays":
        """Return the rankings of all parts, one part behind the other."""
        doc_ids, code_D = codes(pa.chunked_array([part.doc_ids for part in parts], pa.string()))
        first = np.cumsum([0, *(len(part.doc_ids) for part in parts)])
        none = np.zeros(0, np.int32)
        code_D = code_D.astype(np.int32)
        return cls(
            doc_ids,
            np.concatenate([none, *(code_D[at:][part.doc] for at, part in zip(first, parts, strict=False))]),
            np.concatenate([none.view(np.float32), *(part.score for part in parts)]),
            bounds(np.concatenate([none, *(part.lengths for part in parts)])),
        )

    @classmethod
    def _of_few(cls, rankings: Sequence[Ranking]) -> "RankingArrays":
        hits = list(chain.from_iterable(rankings))
        doc_ids, doc_H = codes(text_array(hit.doc_id for hit in hits))
        with np.errstate(over="ignore"):  # a score that overflows is infinite, which whoever reads it refuses
            score_H = np.array([hit.score for hit in hits], np.float32)
        return cls(doc_ids, doc_H.astype(np.int32), score_H, bounds(list(map(len, rankings))))

    @property
    def lengths(self) -> IntVector:
        """int64, shape (Q,): how many documents each ranking has."""
        return np.diff(self.start)

    @property
    def _ranks(self) -> IntVector:
        """int64, shape (H,): the rank of each document in its ranking, from 0."""
        return np.arange(len(self.doc)) - np.repeat(self.start[:-1], self.lengths)

    def part(self, first: int, end: int) -> "RankingArrays":
        """Return the rankings from `first` up to `end`, with no other ids than theirs."""
        return self._kept(slice(self.start[first], self.start[end]), self.lengths[first:end])

    def heads(self, depth: int) -> "RankingArrays":
        """Return the first `depth` documents of each ranking, with no other ids than theirs."""
        return self._kept(self._ranks < depth, np.minimum(self.lengths, depth))

    def rests(self, depth: int) -> "RankingArrays":
        """Return the documents of each ranking below the first `depth`, with no other ids than theirs."""
        return self._kept(self._ranks >= depth, np.maximum(self.lengths - depth, 0))

    def above(self, lower: "RankingArrays") -> "RankingArrays":
        """Return each ranking with that of the same place in `lower` below it."""
        both = RankingArrays.joined([self, lower])
        place_H = np.repeat(np.tile(np.arange(len(self)), 2), both.lengths)
        order_H = np.argsort(place_H, kind="stable")
        return RankingArrays(
            both.doc_ids, both.doc[order_H], both.score[order_H], bounds(self.lengths + lower.lengths)
        )

    def _kept(self, hits: slice | npt.NDArray[np.bool_], lengths: IntVector) -> "RankingArrays":
        used_D, doc_H = np.unique(self.doc[hits], return_inverse=True)
        doc_ids = self.doc_ids.take(int_array(used_D.astype(np.int64)))
        return RankingArrays(doc_ids, doc_H.astype(np.int32), self.score[hits], bounds(lengths))

    def __len__(self) -> int:
        return len(self.start) - 1

    def __getitem__(self, place: int) -> Ranking:
        place = range(len(self))[place]
        hits = slice(self.start[place], self.start[place + 1])
        doc_ids = self.doc_ids.take(int_array(self.doc[hits].astype(np.int64))).to_pylist()
        return tuple(map(ScoredDoc, doc_ids, self.score[hits].tolist()))

    def __iter__(self) -> Iterator[Ranking]:
        return map(self.__getitem__, range(len(self)))


class RankedQueries(Mapping[QueryId, Ranking]):
    """The ranking of each query, held as arrays. It equals any mapping with the same rankings.

    Args:
        query_ids: Q distinct ids.
        arrays: their rankings, in their order.

    Raises:
        DataError: there are not as many distinct ids as rankings.
    """

    __slots__ = ("_place", "arrays")

    def __init__(self, query_ids: Iterable[QueryId], arrays: RankingArrays) -> None:
        self.arrays = arrays
        self._place = {query_id: place for place, query_id in enumerate(query_ids)}
        if len(self._place) != len(arrays):
            raise DataError(f"{len(arrays)} rankings for {len(self._place)} distinct query ids")

    @classmethod
    def of(cls, ranked: Iterable[tuple[QueryId, Ranking]]) -> "RankedQueries":
        """Return pairs of a query and its ranking as arrays; see `RankingArrays.of`."""
        query_ids: list[QueryId] = []

        def rankings() -> Iterator[Ranking]:
            for query_id, ranking in ranked:
                query_ids.append(query_id)
                yield ranking

        arrays = RankingArrays.of(rankings())
        return cls(query_ids, arrays)

    @classmethod
    def joined(cls, parts: Sequence[Mapping[QueryId, Ranking]]) -> "RankedQueries":
        """Return the rankings of all parts, which have no query in common."""
        arrays = RankingArrays.joined([as_arrays(part).arrays for part in parts])
        return cls(chain.from_iterable(parts), arrays)

    def parts(self, num_queries: int) -> Iterator["RankedQueries"]:
        """Yield the rankings of so many queries at a time, at least once."""
        query_ids = list(self)
        for first in range(0, max(1, len(self)), num_queries):
            end = min(first + num_queries, len(self))
            yield RankedQueries(query_ids[first:end], self.arrays.part(first, end))

    def heads(self, depth: int) -> "RankedQueries":
        """Return the first `depth` documents of each ranking."""
        return RankedQueries(self, self.arrays.heads(depth))

    def __getitem__(self, query_id: QueryId) -> Ranking:
        return self.arrays[self._place[query_id]]

    def __contains__(self, query_id: object) -> bool:
        return query_id in self._place

    def __iter__(self) -> Iterator[QueryId]:
        return iter(self._place)

    def __len__(self) -> int:
        return len(self._place)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        return self.keys() == other.keys() and all(ranking == other[query_id] for query_id, ranking in self.items())

    __hash__ = None  # type: ignore[assignment]  # as that of every mapping

    def __repr__(self) -> str:
        return f"RankedQueries({len(self)} queries, {len(self.arrays.doc)} ranked documents)"


def as_arrays(rankings: Mapping[QueryId, Ranking]) -> RankedQueries:
    """Return rankings as arrays: the same object if they are."""
    return rankings if isinstance(rankings, RankedQueries) else RankedQueries.of(rankings.items())


def bounds(lengths: npt.ArrayLike) -> IntVector:
    """Return int64, one more than there are lengths: where each ranking starts, and where the last one ends."""
    return np.append(0, np.cumsum(lengths, dtype=np.int64))
