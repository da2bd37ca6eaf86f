"""Measures of how often, and how early, a run ranks hard negatives. See `placed` for the notation.

| measure                 | is                                                                         | lower is |
|-------------------------|----------------------------------------------------------------------------|----------|
| `hn_success@k`          | share of Q_h with a document of H_q among the first k                      | better   |
| `hn_precision@k`        | mean over Q_h of the documents of H_q among the first k, divided by k      | better   |
| `hn_recall@k`           | mean over Q_h of the documents of H_q among the first k, divided by H_q's  | better   |
| `hn_mrr@K`              | mean over Q_h of 1 / rank of the first document of H_q; 0 if there is none | better   |
| `foreign_hn_success@k`  | as above, with F_q and over Q                                              | better   |
| `foreign_hn_precision@k`| as above, with F_q and over Q                                              | better   |
| `pos_first_rate`        | share of Q_h whose first positive is above the first document of H_q       | worse    |

A query with neither among the first K counts ½ in `pos_first_rate`. Beside the foreign measures stands what a random
ranking would have (`chance`), because F_q grows with the pack.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, comb
from statistics import fmean

from r2med_ray.evaluation.hard_negatives.placed import Placed
from r2med_ray.types import QueryId


def hard_negative_measures(
    found: Mapping[QueryId, Placed], *, cutoffs: Sequence[int], depth: int
) -> dict[str, float]:
    """Return measure → value for the hard negatives of a query's own.

    Args:
        found: see `placed`.
        cutoffs: the values of k.
        depth: K.
    """
    own = [query for query in found.values() if query.num_own]
    values: dict[str, float] = {}
    for k in cutoffs:
        within = [_within(query.own, k) for query in own]
        values[f"hn_success@{k}"] = fmean(count > 0 for count in within)
        values[f"hn_precision@{k}"] = fmean(count / k for count in within)
        values[f"hn_recall@{k}"] = fmean(count / query.num_own for count, query in zip(within, own, strict=True))
    values[f"hn_mrr@{depth}"] = fmean(1 / query.own[0] if query.own else 0.0 for query in own)
    values["pos_first_rate"] = fmean(map(_positive_first, own))
    values["neither_found"] = fmean(not query.positives and not query.own for query in own)
    return values


def foreign_measures(
    found: Mapping[QueryId, Placed], *, cutoffs: Sequence[int], num_documents: int
) -> dict[str, float]:
    """Return measure → value for the hard negatives of other queries, and `<measure> chance`.

    Args:
        found: see `placed`.
        cutoffs: the values of k.
        num_documents: documents of the corpus, hard negatives included.
    """
    queries = found.values()
    values: dict[str, float] = {}
    for k in cutoffs:
        within = [_within(query.foreign, k) for query in queries]
        drawn = min(k, num_documents)
        values[f"foreign_hn_success@{k}"] = fmean(count > 0 for count in within)
        values[f"foreign_hn_success@{k} chance"] = fmean(
            1 - comb(num_documents - query.num_foreign, drawn) / comb(num_documents, drawn) for query in queries
        )
        values[f"foreign_hn_precision@{k}"] = fmean(count / k for count in within)
        values[f"foreign_hn_precision@{k} chance"] = fmean(
            drawn * query.num_foreign / num_documents / k for query in queries
        )
    return values


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRanks:
    """`hn_first_rank`: the rank of the first document of H_q, for each query of Q_h; higher is better.

    A quantile is the least rank that at least this share of the queries doesn't exceed. It is None if that query is
    censored: its hard negatives are all beyond K. So no query is dropped.
    """

    ranks: tuple[int, ...]
    """Ranks of the queries that are not censored, ascending."""

    num_queries: int

    @property
    def censored(self) -> float:
        """The share of queries whose hard negatives are all beyond K."""
        return 1 - len(self.ranks) / self.num_queries

    @property
    def median(self) -> int | None:
        return self.quantile(0.5)

    @property
    def quartiles(self) -> tuple[int | None, int | None]:
        """The ends of the interquartile range."""
        return self.quantile(0.25), self.quantile(0.75)

    def quantile(self, share: float) -> int | None:
        place = ceil(share * self.num_queries) - 1
        return self.ranks[place] if place < len(self.ranks) else None


def first_ranks(found: Mapping[QueryId, Placed]) -> FirstRanks:
    """Return `hn_first_rank`."""
    own = [query.own for query in found.values() if query.num_own]
    return FirstRanks(ranks=tuple(sorted(ranks[0] for ranks in own if ranks)), num_queries=len(own))


def _within(ranks: Sequence[int], k: int) -> int:
    return sum(rank <= k for rank in ranks)


def _positive_first(query: Placed) -> float:
    if not query.positives and not query.own:
        return 0.5
    return float(bool(query.positives) and (not query.own or query.positives[0] < query.own[0]))
