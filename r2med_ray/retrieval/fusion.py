"""Fuses several rankings of one task into one.

A document's fused score is the sum, over the runs, of the run's weight × the document's worth in that run:

- `rrf`: the worth is 1 / (k + rank), rank from 1. An absent document gets 0 (Cormack, Clarke and Büttcher 2009).
- `sum`: the worth is the score as it comes. An absent document gets 0 (CombSUM, Fox and Shaw 1994).
- `minmax`: the worth is (score - min) / (max - min) of the list: 1 for the best document, 0 for the last. An absent
  document gets 0. If all scores of a list are equal, each document gets 1, because each is the best. A list of one
  document is such a list.
- `zscore`: the worth is (score - mean) / standard deviation of the list. An absent document gets the worth of the
  list's last document; 0 is the list's mean and would put an unseen document above half of the seen ones. If all
  scores of a list are equal, each document gets 0.

- `rsf` and `dbsf` are those of MTEB's `HybridSearch`. `rsf` is `minmax`, but if all scores of a list are equal, each
  document gets 0.5. `dbsf` maps the range from 3 standard deviations below the list's mean to 3 above it to 0 to 1,
  and cuts off what lies outside; if all scores are equal (σ < 1e-9), each document gets 0.5. An absent one gets 0.

Sums are exactly rounded (`math.fsum`), so the order of the runs doesn't matter. Ties are ordered by `ranking`. `nano`
is `rrf` with the cut and the ties of NanoR2MED's hybrid (see `nano_hybrid`); its scores only tell the ranks.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from r2med_ray.errors import ConfigError, DataError
from r2med_ray.ranking import best_of_scores, require_finite
from r2med_ray.ranking_arrays import RankedQueries
from r2med_ray.retrieval.nano_hybrid import hybrid_list
from r2med_ray.retrieval.ranked_lists import in_order
from r2med_ray.settings.config import FusionConfig
from r2med_ray.types import DocId, QueryId, Ranking, Run


class _Worth(NamedTuple):
    """The worth of a list's documents (`of`), and of all other documents (`absent`)."""

    of: dict[DocId, float]
    absent: float


def fuse(runs: Sequence[Run], config: FusionConfig, *, tag: str, k: int) -> Run:
    """Fuse runs over the same queries.

    Args:
        runs: one or more.
        config: method, constant, weights, and how many documents of each ranking take part.
        tag: tag of the new run.
        k: length of its rankings.

    Raises:
        ConfigError: there are no runs, or not as many weights as runs.
        DataError: a run answers other queries than the first one, or a score is not finite.
    """
    weights = config.weights or (1.0,) * len(runs)
    if not runs or len(weights) != len(runs):
        raise ConfigError(f"fusion of {len(runs)} runs with {len(weights)} weights; give one weight per run")
    _require_same_queries(runs)
    return Run(
        tag=tag,
        rankings=RankedQueries.of(
            (query_id, fuse_one(query_id, [run.rankings[query_id] for run in runs], weights, config, k))
            for query_id in runs[0].rankings
        ),
    )


def fuse_lists(lists: Sequence[Sequence[DocId]], *, k: int) -> Ranking:
    """Return one ranking of lists of documents, best first, without scores: one list as it is, several by `rrf`."""
    if len(lists) == 1:
        return in_order(lists[0][:k])
    return fuse_one("", [in_order(doc_ids) for doc_ids in lists], (1.0,) * len(lists), FusionConfig(), k)


def fuse_one(
    query_id: QueryId, rankings: Sequence[Ranking], weights: Sequence[float], config: FusionConfig, k: int
) -> Ranking:
    """Return the ranking that `fuse` makes of several rankings of one query.

    Raises:
        DataError: a score is not finite.
    """
    for ranking in rankings:
        require_finite(ranking, stage="fuse", query_id=query_id)
    if config.method == "nano":
        ranked = [[hit.doc_id for hit in ranking[: config.depth]] for ranking in rankings]
        return in_order(hybrid_list(ranked, k=config.k, weights=weights)[:k])
    worths = [_worth(ranking[: config.depth], config) for ranking in rankings]
    doc_ids = list({doc_id for worth in worths for doc_id in worth.of})
    sums = [
        math.fsum(weight * worth.of.get(doc_id, worth.absent) for weight, worth in zip(weights, worths, strict=True))
        for doc_id in doc_ids
    ]
    return best_of_scores(np.array(sums, dtype=np.float32), doc_ids, k)


def _worth(ranking: Ranking, config: FusionConfig) -> _Worth:
    doc_ids = [hit.doc_id for hit in ranking]
    if config.method == "rrf":
        return _Worth({doc_id: 1.0 / (config.k + rank) for rank, doc_id in enumerate(doc_ids, start=1)}, 0.0)
    if config.method == "sum":
        return _Worth({hit.doc_id: hit.score for hit in ranking}, 0.0)
    if not ranking:
        return _Worth({}, 0.0)
    scores_N = np.array([hit.score for hit in ranking], dtype=np.float64)
    lowest, highest = scores_N.min(), scores_N.max()
    constant = lowest == highest
    if config.method in ("minmax", "rsf"):
        worth = 1.0 if config.method == "minmax" else 0.5
        worths_N = np.full_like(scores_N, worth) if constant else (scores_N - lowest) / (highest - lowest)
        return _Worth(dict(zip(doc_ids, worths_N.tolist(), strict=True)), 0.0)
    if config.method == "dbsf":
        reach = 3 * scores_N.std()
        above_N = scores_N - (scores_N.mean() - reach)
        worths_N = np.full_like(scores_N, 0.5) if reach < 3e-9 else np.clip(above_N / (2 * reach), 0, 1)
        return _Worth(dict(zip(doc_ids, worths_N.tolist(), strict=True)), 0.0)
    worths_N = np.zeros_like(scores_N) if constant else (scores_N - scores_N.mean()) / scores_N.std()
    return _Worth(dict(zip(doc_ids, worths_N.tolist(), strict=True)), float(worths_N.min()))


def _require_same_queries(runs: Sequence[Run]) -> None:
    first = runs[0]
    for run in runs[1:]:
        if difference := first.rankings.keys() ^ run.rankings.keys():
            raise DataError(
                f"runs {first.tag!r} and {run.tag!r} don't answer the same queries: {len(difference)} are in one "
                f"of them only, e.g. {min(difference)!r}"
            )
