"""A converted corpus: its shards, and what is known of their rows."""

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class CorpusShard:
    """A contiguous range of rows of a converted corpus, stored as one Parquet file."""

    index: int
    path: str
    """Path inside the store's file system."""

    start_row: int
    num_rows: int
    digest: str
    """Digest of the shard's rows, ids, titles and texts: unchanged text keeps its vectors."""

    ids_digest: str = ""
    """Digest of the shard's ids, for those who read no more; empty if the shard was stored without it."""

    text_bytes: int = 0
    """Bytes of titles and texts in UTF-8; 0 if the shard was stored without it."""

    def its(self, rows: Iterable[int]) -> tuple[int, ...]:
        """Return those of the corpus' rows that lie in this shard."""
        return tuple(row for row in rows if self.start_row <= row < self.start_row + self.num_rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Corpus:
    """A converted corpus: Parquet shards with columns row, doc_id, title, text.

    Documents are read where they are used, never all in the driver.
    """

    key: str
    """Key of the artefact that holds the shards."""

    digest: str
    shards: tuple[CorpusShard, ...]
    counted: tuple[CorpusShard, ...] | None = None
    """The shards that BM25's statistics are taken from; None if they are the corpus' own."""

    duplicate_rows: tuple[int, ...] = ()
    """Rows whose id another row has too: of each id, all rows but one. Duplicate rows are skipped, unless a published
    protocol indexes them."""

    copied_rows: tuple[int, ...] = ()
    """Rows whose text other rows have too, see `text_survey`."""

    seconds: float | None = field(default=None, compare=False)
    """Seconds that converting it took; None if they were not noted."""

    @property
    def counted_shards(self) -> tuple[CorpusShard, ...]:
        return self.shards if self.counted is None else self.counted

    @property
    def prepared(self) -> tuple[CorpusShard, ...]:
        """The shards that a search needs something of: its own, and those that are only counted."""
        return tuple(dict.fromkeys((*self.shards, *self.counted_shards)))

    @property
    def num_rows(self) -> int:
        return sum(shard.num_rows for shard in self.shards)

    @property
    def num_documents(self) -> int:
        # A duplicate row may be in a shard that is counted and not searched; such shards come first.
        return self.num_rows - sum(row >= self.shards[0].start_row for row in self.duplicate_rows)

    def duplicates_in(self, shard: CorpusShard) -> tuple[int, ...]:
        """Return the duplicate rows that lie in one shard."""
        return shard.its(self.duplicate_rows)
