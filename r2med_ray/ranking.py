"""The one order of ranked documents: trec_eval's.

Documents are ordered by score as float32 descending, then by doc id by code point descending. trec_eval holds scores
as 32-bit floats and breaks ties by doc id (pytrec_eval issues 56; trec_eval issues 22). So a ranking that is cut or
merged in any other order would not be the ranking that is measured. Shard top-k, merge, fusion, reranking and run
files all use this module.

Shape letters: N documents.
"""

import itertools
import math
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from r2med_ray.errors import DataError
from r2med_ray.types import FloatVector, Ranking, ScoredDoc


def ordered(scores: npt.ArrayLike, doc_ids: Sequence[str], k: int) -> Ranking:
    """Return the k best of N documents, best first, with float32 scores; all if there are fewer than k.

    Args:
        scores: N numbers.
        doc_ids: N ids.
        k: length of the ranking.
    """
    rounded = np.asarray(scores, dtype=np.float32).tolist()
    descending = sorted(zip(rounded, doc_ids, strict=True), reverse=True)
    return tuple(ScoredDoc(doc_id, score) for score, doc_id in descending[: max(k, 0)])


def best(hits: Iterable[ScoredDoc], k: int) -> Ranking:
    """Return the k best hits, best first; all hits if there are fewer than k.

    The scores that come back are the float32 values that were compared.
    """
    hits = list(hits)
    return ordered([hit.score for hit in hits], [hit.doc_id for hit in hits], k)


def merge(rankings: Iterable[Ranking], k: int) -> Ranking:
    """Merge the rankings of disjoint shards into the ranking that one index would have given."""
    return best(itertools.chain.from_iterable(rankings), k)


def best_of_scores(scores_N: FloatVector, doc_ids: Sequence[str], k: int) -> Ranking:
    """Return the k best of all N documents of a shard. All documents with the score at the cut are compared.

    Args:
        scores_N: float32, shape (N,); document i is `doc_ids[i]`. -inf marks a document that is not a hit.
        doc_ids: N ids.
        k: length of the ranking.
    """
    candidates = np.flatnonzero(scores_N > -np.inf)
    if k < len(candidates):
        kept_scores = scores_N[candidates]
        kth_score = np.partition(kept_scores, -k)[-k]
        candidates = candidates[kept_scores >= kth_score]
    return ordered(scores_N[candidates], [doc_ids[i] for i in candidates.tolist()], k)


def require_finite(ranking: Iterable[ScoredDoc], *, stage: str, query_id: str) -> None:
    """Refuse NaN and infinities before they reach a measure.

    Raises:
        DataError: a score is not finite; names the stage, the query and the document.
    """
    for hit in ranking:
        if not math.isfinite(hit.score):
            raise DataError(
                f"{stage}: query {query_id!r}, document {hit.doc_id!r} has score {hit.score}; "
                "scores must be finite numbers"
            )
