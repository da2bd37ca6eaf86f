"""What an approximate search missed, measured against exact search."""

from dataclasses import dataclass

CLOSE_TO_EXACT = 0.99
"""Recall from which an approximate search counts as close to exact search."""

NOTICED = 0.01
"""Loss of the mean nDCG@10 from which it doesn't, whatever its recall."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approximation:
    """What an approximate search missed."""

    search: str
    """The label of the first stage, which holds the index and its search parameters."""

    recall: float
    """The share of the documents of exact search that the approximate search found, over the sampled queries."""

    num_sampled: int
    """Queries that were searched for exactly, too."""

    depth: int
    """Documents that both searches were asked for."""

    num_queries: int
    """Queries of the approximate search."""

    num_short: int
    """Queries with fewer documents than exact search would find."""

    ndcg_change: float | None = None
    """The mean nDCG@10 of the sampled queries minus that of exact search; None without positives, and where nobody
    measures."""

    bytes_per_document: int | None = None
    """Bytes of a document's vector in the first pass; None if they are not known, and for an index of FAISS."""

    exact_bytes: int | None = None
    """Bytes of a document's vector in exact search, in float32; None as above."""

    @property
    def is_close(self) -> bool:
        """Whether next to nothing was missed. Reports and logs warn of other searches."""
        lost = -(self.ndcg_change or 0.0)
        return self.recall >= CLOSE_TO_EXACT and not self.num_short and lost < NOTICED

    def __str__(self) -> str:
        changes = f"; nDCG@10 changes by {100 * self.ndcg_change:+.2f}" if self.ndcg_change is not None else ""
        size = f"; {self.bytes_per_document} bytes per document in place of {self.exact_bytes}"
        return (
            f"{self.search} finds {100 * self.recall:.2f} of the first {self.depth} documents of exact search "
            f"(0-100, {self.num_sampled} queries); {self.num_short} of {self.num_queries} rankings are shorter than "
            f"those of exact search{changes}{size if self.bytes_per_document else ''}"
        )
