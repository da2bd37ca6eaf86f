"""What is known of the texts of a whole corpus: which documents have the same text, and which have none.

It is an artefact of its own, made once per corpus. Shape letters: N rows of the corpus.
"""

import hashlib
from collections.abc import Set
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from r2med_ray.corpora import Corpus
from r2med_ray.corpus.checks import Finding
from r2med_ray.corpus.shards import from_table, read_ids, read_table
from r2med_ray.storage.artifact_writer import ArtifactWriter
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.ids import Tally
from r2med_ray.storage.keys import ArtifactKey, fingerprint
from r2med_ray.types import DocId

KIND = "text_survey"
SURVEY_VERSION = 2
"""Counts up when the same corpus gives another survey than before."""

_GROUPS, _BLANK = "same_texts.parquet", "blank.parquet"
_DIGEST = np.dtype([("high", np.uint64), ("low", np.uint64)])
"""128 bits of a text's BLAKE2b: equal digests are equal texts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSurvey:
    same_texts: tuple[tuple[DocId, ...], ...]
    """The documents of each text that several documents have. The text is title and text, as it is indexed."""

    copied_rows: tuple[int, ...]
    """The rows of these documents, ascending."""

    blank: tuple[DocId, ...]
    """Documents whose title and text are empty or only white space."""

    def of_judged(self, judged: Set[DocId]) -> tuple[tuple[DocId, ...], ...]:
        """Return the groups that hold a judged document."""
        return tuple(group for group in self.same_texts if not judged.isdisjoint(group))

    def same_as_judged(self, judged: Set[DocId]) -> list[DocId]:
        """Return the documents that have the same text as a judged document with another id."""
        groups = [(group, judged & set(group)) for group in self.of_judged(judged)]
        return [doc_id for group, known in groups for doc_id in group if known - {doc_id}]

    def findings(self, judged: Set[DocId]) -> list[Finding]:
        """Return what is reported of the texts of a task whose qrels name these documents."""
        return [
            Finding(
                name="blank_documents",
                says="documents are blank: they have neither a title nor a text",
                ids=Tally(self.blank),
            ),
            Finding(
                name="same_text_as_judged",
                says="documents have the same text as a judged document with another id",
                ids=Tally(self.same_as_judged(judged)),
            ),
        ]


def survey_texts(store: ArtifactStore, corpus: Corpus) -> TextSurvey:
    """Return the survey of a corpus without its duplicate rows, and make it if the store doesn't have it.

    Raises:
        ArtifactError: a shard is missing or damaged.
    """
    key = survey_key(corpus)
    if store.find(key) is None:
        with store.create(key) as writer:
            _survey(store, corpus, writer)
    artifact = store.get(key)
    groups: dict[int, list[DocId]] = {}
    table = artifact.table(_GROUPS)
    for group, doc_id in zip(table["group"].to_pylist(), table["doc_id"].to_pylist(), strict=True):
        groups.setdefault(group, []).append(doc_id)
    return TextSurvey(
        same_texts=tuple(map(tuple, groups.values())),
        copied_rows=tuple(table["row"].to_pylist()),
        blank=tuple(artifact.table(_BLANK)["doc_id"].to_pylist()),
    )


def with_copies(store: ArtifactStore, corpus: Corpus) -> Corpus:
    """Return a corpus that knows its copied rows. See `survey_texts`."""
    return replace(corpus, copied_rows=survey_texts(store, corpus).copied_rows)


def survey_key(corpus: Corpus) -> ArtifactKey:
    """Return the key of the survey of a corpus."""
    inputs = {
        "corpus": corpus.digest,
        "duplicates": fingerprint(list(corpus.duplicate_rows)),
        "survey": SURVEY_VERSION,
    }
    return ArtifactKey(KIND, inputs)


def _survey(store: ArtifactStore, corpus: Corpus, writer: ArtifactWriter) -> None:
    digests = bytearray()
    blank: list[int] = []
    for shard in corpus.shards:
        for row, document in enumerate(from_table(read_table(store, shard)), start=shard.start_row):
            content = document.content
            digests += hashlib.blake2b(content.encode(), digest_size=_DIGEST.itemsize).digest()
            if not content.strip():
                blank.append(row)
    digest_N = np.frombuffer(digests, _DIGEST)
    kept_N = np.ones(len(digest_N), np.bool_)
    kept_N[list(corpus.duplicate_rows)] = False
    rows = np.flatnonzero(kept_N)
    _, group, count = np.unique(digest_N[rows], return_inverse=True, return_counts=True)
    shared = count[group] > 1
    copied = rows[shared]
    same_texts = {"group": group[shared].astype(np.int64), "row": copied, "doc_id": _ids(store, corpus, copied)}
    writer.write_table(_GROUPS, pa.table(same_texts))
    writer.write_table(_BLANK, pa.table({"doc_id": _ids(store, corpus, np.intersect1d(rows, blank))}))


def _ids(store: ArtifactStore, corpus: Corpus, rows: npt.NDArray[np.int64]) -> pa.StringArray:
    """Return the ids of ascending rows."""
    found: list[DocId] = []
    for shard in corpus.shards:
        first, last = np.searchsorted(rows, [shard.start_row, shard.start_row + shard.num_rows])
        if first < last:
            found += read_ids(store, shard).take(pa.array(rows[first:last] - shard.start_row)).to_pylist()
    return pa.array(found, pa.string())
