"""Token vectors of one shard: stored in float16, and searched by exact MaxSim over every document.

A score is the sum, over the query's tokens, of the greatest inner product with a document token (ColBERT, Khattab and
Zaharia 2020, arXiv 2004.12832).

A score depends on the query and the document alone, to the last bit. float16 numbers up to 1 are multiples of 2⁻²⁴,
so products of two such numbers are multiples of 2⁻⁴⁸. Rows have unit length, so every sum of the products stays below
2. Such a sum is exact in float64, in any order. The maxima are always added up in the same order.

Shape letters: N documents, T tokens of a shard's or a block's documents, S tokens of one query, D size of a vector.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from r2med_ray.errors import DataError
from r2med_ray.indexing.embedding import NAMED_IN_ERRORS
from r2med_ray.ranking import best_of_scores, merge
from r2med_ray.storage.arrow import numbers, whole
from r2med_ray.types import DocId, FloatMatrix, Ranking

HalfMatrix: TypeAlias = npt.NDArray[np.float16]
Floats: TypeAlias = npt.NDArray[np.floating[Any]]

TOKENS_PER_BLOCK = 2048
"""Document tokens that are multiplied at once: 2 MiB of float64 at 128 dimensions. A longer text is a block alone."""

QUERY_TOKENS_AT_ONCE = 256
"""Query tokens that are multiplied with a block at once. A core then does twice as many products per second as with
the 20 tokens of one query."""


class TokenVectors(NamedTuple):
    """The tokens of a shard. Rows `offsets[i]:offsets[i + 1]` of `vectors` belong to `doc_ids[i]`."""

    doc_ids: list[DocId]
    offsets: npt.NDArray[np.int64]
    vectors: HalfMatrix
    """float16, shape (T, D)."""


class TokenQuery(NamedTuple):
    """The tokens of a query. The best match of each token is multiplied by the token's weight."""

    vectors: HalfMatrix
    """float16, shape (S, D)."""

    weights: npt.NDArray[np.float64]
    """Shape (S,)."""


def token_table(
    rows: Sequence[int] | npt.NDArray[np.int64], ids: Sequence[str], vectors: Sequence[HalfMatrix]
) -> pa.Table:
    """Return token vectors as columns row, doc_id, tokens (lists of float16 vectors).

    Args:
        rows: the N rows of the corpus, or numbers of the queries.
        ids: N ids.
        vectors: float16 of shape (tokens of the text, D) per id, rows of unit length.

    Raises:
        DataError: there are not as many matrices as ids, a text has no token, or a number isn't finite; names the
            ids.
    """
    if len(vectors) != len(ids):
        raise DataError(f"the encoder returned the tokens of {len(vectors)} texts for {len(ids)}")
    usable = (len(of_text) and np.isfinite(of_text).all() for of_text in vectors)
    bad = [name for name, is_usable in zip(ids, usable, strict=True) if not is_usable]
    if bad:
        named = ", ".join(map(repr, bad[:NAMED_IN_ERRORS]))
        raise DataError(
            f"{len(bad)} of {len(ids)} texts have no tokens, or a vector that is not finite, e.g. {named}"
        )
    offsets = pa.array(np.cumsum([0, *map(len, vectors)]), pa.int32())
    joined_TD = np.concatenate(vectors) if vectors else np.zeros((0, 1), np.float16)
    tokens = pa.FixedSizeListArray.from_arrays(pa.array(joined_TD.ravel()), joined_TD.shape[1])
    return pa.table(
        {
            "row": pa.array(np.asarray(rows, np.int64)),
            "doc_id": pa.array(ids, pa.string()),
            "tokens": pa.ListArray.from_arrays(offsets, tokens),
        }
    )


def read_tokens(table: pa.Table) -> TokenVectors:
    """Return the vectors of a `token_table`."""
    column = whole(table["tokens"])
    tokens = column.flatten()
    offsets = np.cumsum(np.append(0, numbers(column.value_lengths())))
    vectors_TD = numbers(tokens.flatten()).reshape(-1, tokens.type.list_size)
    return TokenVectors(table["doc_id"].to_pylist(), offsets, vectors_TD)


def query_table(query_ids: Sequence[str], parts: Sequence[Sequence[HalfMatrix]]) -> pa.Table:
    """Return queries as a `token_table` with a column weights (float64), one number per token.

    A query's score is the sum of the scores of its parts. The first part is the query itself. A generated text weighs
    as much as the query, however long it is: each match of part p is multiplied by S₁ / Sₚ, the tokens of the query
    over the tokens of the part.

    Raises:
        DataError: a query has no token, or a number isn't finite; names the queries.
    """
    table = token_table(range(len(query_ids)), query_ids, [np.concatenate(of_query) for of_query in parts])
    weights = [[len(of_query[0]) / len(part) for part in of_query for _ in part] for of_query in parts]
    return table.append_column("weights", pa.array(weights, pa.list_(pa.float64())))


def read_queries(table: pa.Table) -> list[TokenQuery]:
    """Return the queries of a `query_table` in the form that an index takes."""
    tokens = read_tokens(table)
    return [
        TokenQuery(tokens.vectors[start:stop], np.array(weights.as_py()))
        for (start, stop), weights in zip(pairwise(tokens.offsets), table["weights"], strict=True)
    ]


class TokenForm(Protocol):
    """The tokens of a shard, in the form in which they are multiplied with those of queries."""

    def asked(self, vectors_SD: HalfMatrix) -> tuple[Floats, npt.NDArray[np.float64]]:
        """Return the tokens of queries in that form, shape (S, D), and what each is to be multiplied with, (S,)."""
        ...

    def block(self, rows: slice) -> Floats:
        """Return some tokens of documents in that form, shape (T, D)."""
        ...

    def products(self, rows: slice, block_TD: Any, asked_SD: Any) -> Floats:
        """Return the inner products of tokens of queries with a block, shape (S, T)."""
        ...


class StoredTokens(NamedTuple):
    """Tokens as they are stored, multiplied in float64."""

    vectors: HalfMatrix

    def asked(self, vectors_SD: HalfMatrix) -> tuple[Floats, npt.NDArray[np.float64]]:
        return vectors_SD.astype(np.float64), np.ones(len(vectors_SD))

    def block(self, rows: slice) -> Floats:
        return self.vectors[rows].astype(np.float64)

    def products(self, rows: slice, block_TD: Floats, asked_SD: Floats) -> Floats:
        products_ST: Floats = asked_SD @ block_TD.T
        return products_ST


def maxsim(
    form: TokenForm, offsets: npt.NDArray[np.int64], queries: Sequence[TokenQuery], scores_QN: FloatMatrix
) -> None:
    """Write down the score of every document for every query.

    Args:
        form: the tokens of N documents.
        offsets: rows `offsets[i]:offsets[i + 1]` of the tokens belong to document i.
        queries: Q queries.
        scores_QN: float32, shape (Q, N); gets the scores.
    """
    groups = []
    for group in (range(*run) for run in _runs(_offsets(queries), QUERY_TOKENS_AT_ONCE)):
        asked_SD, scales_S = form.asked(np.concatenate([queries[q].vectors for q in group]))
        places = [slice(*ends) for ends in pairwise(_offsets([queries[q] for q in group]))]
        weights = [queries[q].weights * scales_S[place] for q, place in zip(group, places, strict=True)]
        groups.append((asked_SD, list(zip(group, places, weights, strict=True))))
    for first, stop in _runs(offsets, TOKENS_PER_BLOCK):
        bounds = offsets[first : stop + 1]
        rows = slice(bounds[0], bounds[-1])
        block_TD = form.block(rows)
        for asked_SD, of_queries in groups:
            # The maximum of neighbours in memory takes an eighth of the time that a maximum over rows takes.
            best_SN = np.maximum.reduceat(form.products(rows, block_TD, asked_SD), bounds[:-1] - bounds[0], axis=1)
            for q, place, weights_S in of_queries:
                # numpy adds up numbers that are neighbours in memory in one order, whatever N is.
                best_NS = np.ascontiguousarray(best_SN[place].T)
                scores_QN[q, first:stop] = (best_NS * weights_S).sum(axis=1)


class LateInteractionIndex:
    """The index of one shard, ready to be searched with the token vectors of queries. Every document is a hit.

    Args:
        parts: the tokens of the shard's documents, some documents in each part.
    """

    def __init__(self, parts: Sequence[TokenVectors]) -> None:
        self._parts = parts

    def search(self, queries: Sequence[TokenQuery], k: int) -> list[Ranking]:
        """Return up to k hits for each query, in the order of `ranking.best`."""
        return best_of_parts(
            [(part.doc_ids, StoredTokens(part.vectors), part.offsets) for part in self._parts], queries, k
        )

    def score(self, queries: Sequence[TokenQuery], candidates: Sequence[Sequence[DocId]]) -> list[Ranking]:
        """Return the candidates of each query that the shard has, with the scores that a search gives them."""
        return score_parts(self._parts, queries, candidates)


def best_of_parts(
    parts: Sequence[tuple[Sequence[DocId], TokenForm, npt.NDArray[np.int64]]], queries: Sequence[TokenQuery], k: int
) -> list[Ranking]:
    """Return up to k documents for each query, in the order of `ranking.best`.

    Args:
        parts: the ids of some documents, their tokens, and the offsets of `maxsim`.
        queries: Q queries.
        k: length of the rankings.
    """
    doc_ids = [doc_id for ids, _, _ in parts for doc_id in ids]
    scores_QN = np.empty((len(queries), len(doc_ids)), np.float32)
    end = 0
    for ids, form, offsets in parts:
        start, end = end, end + len(ids)
        maxsim(form, offsets, queries, scores_QN[:, start:end])
    return [best_of_scores(scores_N, doc_ids, k) for scores_N in scores_QN]


def score_parts(
    parts: Iterable[TokenVectors], queries: Sequence[TokenQuery], candidates: Sequence[Sequence[DocId]]
) -> list[Ranking]:
    """Return the candidates of each query that are among some documents, scored by MaxSim.

    Args:
        parts: the tokens of some documents, part by part.
        queries: Q queries.
        candidates: Q lists of ids.
    """
    wanted_by: dict[DocId, list[int]] = {}
    for number, wanted in enumerate(candidates):
        for doc_id in wanted:
            wanted_by.setdefault(doc_id, []).append(number)
    found: list[list[Ranking]] = [[] for _ in queries]
    for part in parts:
        places: dict[int, list[int]] = {}
        for place, doc_id in enumerate(part.doc_ids):
            for number in wanted_by.get(doc_id, ()):
                places.setdefault(number, []).append(place)
        for number, kept in places.items():
            found[number] += LateInteractionIndex([_taken(part, kept)]).search([queries[number]], len(kept))
    return [merge(rankings, len(wanted)) for rankings, wanted in zip(found, candidates, strict=True)]


def _taken(tokens: TokenVectors, places: Sequence[int]) -> TokenVectors:
    """Return the tokens of some documents."""
    bounds = [(tokens.offsets[place], tokens.offsets[place + 1]) for place in places]
    return TokenVectors(
        [tokens.doc_ids[place] for place in places],
        np.cumsum([0, *(stop - start for start, stop in bounds)]),
        np.concatenate([tokens.vectors[start:stop] for start, stop in bounds]),
    )


def _offsets(queries: Sequence[TokenQuery]) -> npt.NDArray[np.int64]:
    return np.cumsum([0, *(len(query.vectors) for query in queries)])


def _runs(offsets: npt.NDArray[np.int64], most: int) -> Iterator[tuple[int, int]]:
    """Yield (first, last + 1) of runs of texts with at most `most` tokens. A longer text is a run alone."""
    first = 0
    while first < len(offsets) - 1:
        fitting = int(np.searchsorted(offsets, offsets[first] + most, side="right")) - 1
        yield first, max(fitting, first + 1)
        first = max(fitting, first + 1)
