"""Rankings of many queries as arrays: 8 bytes per ranked document, and each distinct id once.

    RankedQueries    query_id → ranking; what a `Run` holds
    RankingArrays    the rankings alone, in the order of the queries; what shards answer

A tuple per document takes more than ten times as much. A ranking is made of the arrays whenever it is asked for, so
whoever goes from query to query holds the documents of one query at a time.

Shape letters: Q queries, H ranked documents of all queries, D distinct documents.
"""

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from r2med_ray.errors import DataError
from r2med_ray.storage.arrow import IntVector, codes, int_array, int_vector, text_array
from r2med_ray.types import DocId, FloatVector, QueryId, Ranking, ScoredDoc

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
    def of_positions(
        cls, doc_ids: Sequence[DocId], found: Sequence[tuple[IntVector, FloatVector]]
    ) -> "RankingArrays":
        """Return documents of a shard, found for Q queries, in the order in which they were found.

        Args:
            doc_ids: the ids of the shard.
            found: per query, positions in `doc_ids` and float32 scores. -inf marks a document that is not a hit.
        """
        none = np.zeros(0, np.int64)
        position_H = np.concatenate([none, *(positions for positions, _ in found)])
        score_H = np.concatenate([none.astype(np.float32), *(scores for _, scores in found)])
        place_H = np.repeat(np.arange(len(found)), [len(positions) for positions, _ in found])
        hits = np.flatnonzero(score_H > -np.inf)
        used_D, doc_H = np.unique(position_H[hits], return_inverse=True)
        return cls(
            text_array(doc_ids[position] for position in used_D.tolist()),
            doc_H.astype(np.int32),
            score_H[hits],
            bounds(np.bincount(place_H[hits], minlength=len(found))),
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
        return self._taken(slice(self.start[first], self.start[end]), self.lengths[first:end])

    def heads(self, depth: int) -> "RankingArrays":
        """Return the first `depth` documents of each ranking, with no other ids than theirs."""
        return self._taken(self._ranks < depth, np.minimum(self.lengths, depth))

    def rests(self, depth: int) -> "RankingArrays":
        """Return the documents of each ranking below the first `depth`, with no other ids than theirs."""
        return self._taken(self._ranks >= depth, np.maximum(self.lengths - depth, 0))

    def best(self, k: int) -> "RankingArrays":
        """Return the k best documents of each ranking, in the order of `ranking.ordered`."""
        place_H = np.repeat(np.arange(len(self), dtype=np.uint64), self.lengths)
        key_H = place_H << np.uint64(32) | _descending(self.score)
        order_H = np.argsort(key_H)
        sorted_H = key_H[order_H]
        if np.any(sorted_H[1:] == sorted_H[:-1]):
            order_H = np.lexsort((-self._order_of_ids[self.doc], key_H))
        return self._taken(order_H[self._ranks < k], np.minimum(self.lengths, max(k, 0)))

    def kth_scores(self, k: int) -> FloatVector:
        """Return the score of the k-th document of each ranking, float32 of shape (Q,); -inf where there is none."""
        scores_Q = np.full(len(self), -np.inf, np.float32)
        full = np.flatnonzero(self.lengths >= k) if k > 0 else np.zeros(0, np.int64)
        scores_Q[full] = self.score[self.start[full] + k - 1]
        return scores_Q

    @property
    def _order_of_ids(self) -> IntVector:
        """int64, shape (D,): the place of each id in their order by code point, which is that of UTF-8's bytes."""
        order_D = np.empty(len(self.doc_ids), np.int64)
        order_D[int_vector(pc.sort_indices(self.doc_ids))] = np.arange(len(self.doc_ids))
        return order_D

    def above(self, lower: "RankingArrays") -> "RankingArrays":
        """Return each ranking with that of the same place in `lower` below it."""
        both = RankingArrays.joined([self, lower])
        place_H = np.repeat(np.tile(np.arange(len(self)), 2), both.lengths)
        order_H = np.argsort(place_H, kind="stable")
        return RankingArrays(
            both.doc_ids, both.doc[order_H], both.score[order_H], bounds(self.lengths + lower.lengths)
        )

    def _taken(self, hits: slice | npt.NDArray[np.bool_] | IntVector, lengths: IntVector) -> "RankingArrays":
        """Return some of the ranked documents, with no other ids than theirs."""
        used_D, doc_H = np.unique(self.doc[hits], return_inverse=True)
        doc_ids = self.doc_ids.take(int_array(used_D.astype(np.int64)))
        return RankingArrays(doc_ids, doc_H.astype(np.int32), self.score[hits], bounds(lengths))

    def __eq__(self, other: object) -> bool:
        """Return whether all rankings are equal; `other` may be any sequence of rankings."""
        if not isinstance(other, RankingArrays | Sequence):
            return NotImplemented
        return len(self) == len(other) and all(map(operator.eq, self, other))

    __hash__ = None  # type: ignore[assignment]  # as that of every list

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


def _descending(score_H: FloatVector) -> npt.NDArray[np.uint64]:
    """Return numbers below 2³² that rise as the scores fall, and are equal for equal scores.

    The bits of a float, read as an integer, rise with a positive value and fall with a negative one, so those of the
    latter are turned over. −0 becomes 0, which it equals.
    """
    bits_H = (score_H + np.float32(0)).view(np.int32)
    rising_H = (bits_H ^ (bits_H >> 31 & 0x7FFFFFFF)).astype(np.int64)
    return (0x7FFFFFFF - rising_H).astype(np.uint64)


def bounds(lengths: npt.ArrayLike) -> IntVector:
    """Return int64, one more than there are lengths: where each ranking starts, and where the last one ends."""
    return np.append(0, np.cumsum(lengths, dtype=np.int64))
