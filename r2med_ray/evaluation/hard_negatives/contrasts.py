"""Whether a system ranks both queries of a contrast right, each of which has the other's positive as hard negative.

`contrast_acc` is the mean over contrasts of the product, over the two queries, of [s(positive) > s(negative)]; equal
scores count ½ in their query, as in `pair_acc`. So a system that prefers the same document for both queries gets 0,
where `pair_acc` gives it ½. Chance is ¼, and a system that scores all documents equally gets exactly that. Higher is
better. NevIR calls it pairwise accuracy (arXiv 2305.07614); there, equal scores are wrong.
"""

from collections.abc import Sequence
from math import prod
from statistics import fmean

from r2med_ray.evaluation.hard_negatives.pairs import preferred, scores_of
from r2med_ray.types import Contrast, Run

CHANCE = 0.25


def contrast_accuracy(run: Run, contrasts: Sequence[Contrast], *, depth: int) -> float:
    """Return `contrast_acc`.

    Args:
        run: ranks both documents of a contrast for both queries; see `pairs.pair_accuracy`.
        contrasts: at least one.
        depth: how many documents the run was asked for.

    Raises:
        DataError: a ranking may have been cut above a document of a contrast; names the query.
    """
    return fmean(_both_right(run, contrast, depth) for contrast in contrasts)


def _both_right(run: Run, contrast: Contrast, depth: int) -> float:
    first, second = contrast.doc_ids
    return prod(
        preferred(scores_of(query_id, run.rankings.get(query_id, ()), contrast.doc_ids, depth), positive, negative)
        for query_id, positive, negative in zip(contrast.query_ids, (first, second), (second, first), strict=True)
    )
