"""Loads corpus, queries and qrels of a task, and the documents of a shard or of a few ids."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from r2med_ray.corpora import Corpus, CorpusShard
from r2med_ray.corpus.checks import Finding, compare, require_common_query, require_expected, require_positive
from r2med_ray.corpus.convert import convert_corpus, load_corpus
from r2med_ray.corpus.duplicates import OnConflict
from r2med_ray.corpus.layouts import LAYOUTS, find_ranked_lists
from r2med_ray.corpus.nano import count_safeguards, safeguard_sentences
from r2med_ray.corpus.pieces import piece_starts
from r2med_ray.corpus.readers import read_qrels, read_queries
from r2med_ray.corpus.records import file_digest
from r2med_ray.corpus.shards import from_table, held_ids, locate, read_table, require_digest
from r2med_ray.corpus.sources import TaskSource
from r2med_ray.corpus.text_survey import survey_texts
from r2med_ray.errors import DataError
from r2med_ray.storage.arrow import numbers
from r2med_ray.storage.artifact import Artifact
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.ids import IdReader, Tally
from r2med_ray.storage.keys import fingerprint
from r2med_ray.types import DocId, Document, Qrels, Query, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardRows:
    """The rows and documents of a shard, without the rows that are skipped."""

    rows: npt.NDArray[np.int64]
    """Row numbers in the corpus, int64, shape (N,); `rows[i]` is the row of `documents[i]`."""

    documents: list[Document]

    piece_rows: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    """Row numbers at which the shard's second and further pieces begin; empty if it is not cut, or a piece itself."""


def load_task(
    source: TaskSource,
    store: ArtifactStore,
    *,
    documents_per_shard: int,
    shards: int | None = None,
    on_conflict: OnConflict = "error",
) -> Task:
    """Read queries and qrels, convert the corpus if the store doesn't have it, and check the three together.

    If the layout has splits, queries without qrels are left out. See `convert_corpus` for the arguments.

    Raises:
        DataError: a record is wrong (file and line), no query is judged or has a positive, or a count is unexpected.
    """
    files, layout = source.files, LAYOUTS[source.layout]
    query_ids, qrels_ids = IdReader(files.queries), IdReader(files.qrels)
    qrels, repeats = read_qrels(files.qrels, layout, qrels_ids)
    queries = read_queries(files.queries, layout, query_ids)
    require_common_query(source, queries, qrels)
    require_positive(source, queries, qrels)
    artifact = convert_corpus(
        source, store, documents_per_shard=documents_per_shard, shards=shards, on_conflict=on_conflict
    )
    corpus = load_corpus(artifact)
    in_corpus = _ids_in_corpus(store, corpus, queries, qrels)
    survey, judged = survey_texts(store, corpus), {doc_id for grades in qrels.values() for doc_id in grades}
    findings = compare(queries, qrels, in_corpus) + survey.findings(judged)
    if layout.has_splits:
        queries = [query for query in queries if query.query_id in qrels]
    ranked_lists = find_ranked_lists(source.folder, source.layout, source.split)
    counts = _counts(corpus, queries, qrels, findings) | count_safeguards(ranked_lists)
    require_expected(source, counts)
    warnings = [*query_ids.warnings(), *qrels_ids.warnings(), *artifact.attributes["warnings"], *repeats]
    warnings += [sentence for finding in findings for sentence in finding.sentences()] + safeguard_sentences(counts)
    return Task(
        name=source.name,
        suite=source.suite,
        revision=source.revision or _content_revision(source, artifact),
        corpus=replace(corpus, copied_rows=survey.copied_rows),
        queries=tuple(queries),
        qrels=qrels,
        folder=str(source.folder),
        ranked_lists={name: str(path) for name, path in ranked_lists.items()},
        warnings=tuple(warnings),
        counts=counts,
        identical_ids=frozenset(query.query_id for query in queries if query.query_id in in_corpus),
        unknown_excluded=frozenset().union(*(query.excluded for query in queries)) - in_corpus,
        same_texts=survey.of_judged(judged),
    )


def _counts(corpus: Corpus, queries: Sequence[Query], qrels: Qrels, findings: Sequence[Finding]) -> dict[str, int]:
    excluded = sum(len(query.excluded) for query in queries)
    return {
        "rows": corpus.num_rows,
        "documents": corpus.num_documents,
        "duplicates": len(corpus.duplicate_rows),
        "queries": len(queries),
        "qrels": sum(len(grades) for grades in qrels.values()),
        **{finding.name: finding.ids.count for finding in findings},
        **({"excluded": excluded} if excluded else {}),
    }


def read_task_queries(source: TaskSource) -> list[Query]:
    """Return the queries that `load_task` gives a task, without looking at its corpus.

    Raises:
        DataError: a record is wrong (file and line).
    """
    files, layout = source.files, LAYOUTS[source.layout]
    queries = read_queries(files.queries, layout, IdReader(files.queries))
    if not layout.has_splits:
        return queries
    qrels, _ = read_qrels(files.qrels, layout, IdReader(files.qrels))
    return [query for query in queries if query.query_id in qrels]


def read_shard(store: ArtifactStore, shard: CorpusShard, *, skip_rows: Collection[int] = ()) -> ShardRows:
    """Read the documents of a shard, without the rows of the corpus that `skip_rows` names.

    Raises:
        ArtifactError: the shard is missing or damaged, or its content is not what its digest says.
    """
    return _rows(read_table(store, shard), skip_rows)


def rows_of_table(
    table: pa.Table, shard: CorpusShard, *, skip_rows: Collection[int] = (), pieces: int = 1
) -> ShardRows:
    """Return the rows and documents of a whole shard that is in memory already; see `read_shard`.

    Raises:
        ArtifactError: the table is not what the shard's digest says.
    """
    require_digest(table, shard)
    starts = piece_starts(table, pieces)
    return replace(_rows(table, skip_rows), piece_rows=numbers(table["row"])[starts])


def rows_of_piece(table: pa.Table, *, skip_rows: Collection[int] = ()) -> ShardRows:
    """Return the rows and documents of one piece of a shard that was checked when it was read."""
    return _rows(table, skip_rows)


def fetch_documents(store: ArtifactStore, corpus: Corpus, doc_ids: Iterable[DocId]) -> dict[DocId, Document]:
    """Return the documents of some ids. Memory holds one shard at a time.

    If an id comes twice, the text of its last row counts: an earlier row with another text is skipped.

    Raises:
        DataError: the corpus lacks some of the ids; names the first of them.
        ArtifactError: see `read_shard`.
    """
    wanted = set(doc_ids)
    found: dict[DocId, Document] = {}
    for shard, ids in locate(store, corpus, wanted):
        table = read_table(store, shard)
        table = table.filter(pc.is_in(table["doc_id"], value_set=pa.array(ids)))
        found |= {document.doc_id: document for document in from_table(table)}
    missing = Tally(sorted(wanted - found.keys()))
    if missing.count:
        raise DataError(missing.sentences(f"of {len(wanted)} documents are not in the corpus")[0])
    return found


def _rows(table: pa.Table, skip_rows: Collection[int]) -> ShardRows:
    if skip_rows:
        table = table.filter(np.isin(numbers(table["row"]), list(skip_rows), invert=True))
    return ShardRows(rows=numbers(table["row"]), documents=from_table(table))


def _ids_in_corpus(store: ArtifactStore, corpus: Corpus, queries: Sequence[Query], qrels: Qrels) -> set[DocId]:
    asked = {query.query_id for query in queries}.union(*qrels.values(), *(query.excluded for query in queries))
    return held_ids(store, corpus, asked)


def _content_revision(source: TaskSource, artifact: Artifact) -> str:
    """Return a revision for a folder of the user's own, made from the digests of its files."""
    files = source.files
    digests = [artifact.inputs["file"], file_digest(files.queries), file_digest(files.qrels)]
    return f"content-{fingerprint(digests)[:12]}"
