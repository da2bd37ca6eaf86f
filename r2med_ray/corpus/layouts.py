"""The layouts of collections: which files a folder holds, and the field names of their records."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from r2med_ray.corpus.ir_collections import is_address
from r2med_ray.errors import DataError
from r2med_ray.settings.registry import Registry
from r2med_ray.storage.qrels import JUDGEMENT_FIELDS


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The files and fields of one kind of collection.

    File names are globs in order of preference; `{split}` is filled in. Fields are in order of preference too.
    """

    corpus: tuple[str, ...]
    queries: tuple[str, ...]
    qrels: tuple[str, ...]
    id_fields: tuple[str, ...]
    text_fields: tuple[str, ...]
    drops_empty: bool = False
    """Whether a document or query without a text is left out, and counted."""

    ranked_lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Name of a set of ranked lists, one per query, that may come with the collection → file of the set."""

    judgement_fields: tuple[tuple[str, ...], ...] = JUDGEMENT_FIELDS
    """Fields of query, document and grade in JSON Lines and Parquet. A field that lists documents needs no grade."""

    excluded_field: str = ""
    """Field with the documents that must not be in a query's ranking; empty if the layout has no such field."""

    @property
    def has_splits(self) -> bool:
        """Whether the queries of all splits share one file. The queries of a split are those that its qrels name."""
        return _name_a_split(self.qrels) and not _name_a_split(self.queries)


def _name_a_split(patterns: Sequence[str]) -> bool:
    return any("{split}" in pattern for pattern in patterns)


def _bright(documents: str, gold_ids: str) -> Layout:
    examples = _bright_files("examples")
    return Layout(
        corpus=_bright_files(documents),
        queries=examples,
        qrels=examples,
        id_fields=("id",),
        text_fields=("content", "query"),
        judgement_fields=(("id",), (gold_ids,)),
        excluded_field="excluded_ids",
    )


def _bright_files(config: str) -> tuple[str, ...]:
    return (f"{config}/{{split}}-00000-of-*.parquet", f"{config}/{{split}}.parquet", f"{config}/{{split}}.jsonl")


def _nano(config: str) -> tuple[str, ...]:
    return (f"{config}/{{split}}.parquet", f"{config}/{{split}}-00000-of-*.parquet")


LAYOUTS = Registry(
    "layout",
    [
        (
            "r2med",
            Layout(
                corpus=("corpus.jsonl", "corpus.jsonl.gz"),
                queries=("query.jsonl", "query.jsonl.gz"),
                qrels=("qrels.jsonl", "qrels.jsonl.gz", "qrels.txt"),
                id_fields=("id",),
                text_fields=("text",),
            ),
        ),
        (
            "beir",
            Layout(
                corpus=("corpus.jsonl", "corpus.jsonl.gz"),
                queries=("queries.jsonl", "queries.jsonl.gz", "queries.tsv", "queries.tsv.gz"),
                qrels=("qrels/{split}.tsv", "qrels/{split}.tsv.gz", "qrels/{split}.jsonl"),
                id_fields=("_id",),
                text_fields=("text",),
            ),
        ),
        (
            "trec",
            Layout(
                corpus=("corpus*.jsonl", "corpus*.jsonl.gz"),
                queries=("topics*", "*topics*"),
                qrels=("qrels*", "*.qrels", "*.qrel"),
                id_fields=("_id", "id", "docno", "topic_id"),
                text_fields=("contents", "text", "question"),
            ),
        ),
        (
            "nano",
            Layout(
                corpus=_nano("corpus"),
                queries=_nano("queries"),
                qrels=_nano("qrels"),
                id_fields=("_id",),
                text_fields=("text",),
                drops_empty=True,
                ranked_lists={
                    "bm25": _nano("bm25"),
                    "dense": _nano("harrier_oss_v1_270m"),
                    "reranking_hybrid": _nano("reranking_hybrid"),
                },
            ),
        ),
        ("bright", _bright("documents", "gold_ids")),
        ("bright-long", _bright("long_documents", "gold_ids_long")),
        (
            "ir_datasets",
            Layout(
                corpus=("docs",),
                queries=("queries",),
                qrels=("qrels",),
                id_fields=("_id",),
                text_fields=("text",),
            ),
        ),
    ],
)
"""`r2med`: R2MED's eight tasks (R2MED's README says `qrels.txt`, its code reads `qrels.jsonl`).
`beir`: BEIR and MTEB.
`trec`: topics (TSV, or a layout of `corpus.topics`), qrels with four columns, and a corpus as JSON Lines like
Anserini's. BioGen's topics ask their `question`.
`nano`: the Nano sets of HAKARI-Bench, six configs whose splits are the tasks. The qrels are all positive and have no
grade.
`bright`: BRIGHT, with a split per domain. Each query comes with its gold and its excluded documents.
`bright-long`: BRIGHT with its documents before they were cut into passages.
`ir_datasets`: the records of that package in place of files; see `ir_collections`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFiles:
    corpus: Path
    queries: Path
    qrels: Path


def find_files(folder: Path, layout: str, split: str) -> TaskFiles:
    """Return the three files of a collection.

    Raises:
        ConfigError: the layout is unknown.
        DataError: a file is missing, or two files fit.
    """
    row = LAYOUTS[layout]
    if is_address(folder):
        return TaskFiles(corpus=folder / "docs", queries=folder / "queries", qrels=folder / "qrels")
    files = {}
    for kind, patterns in (("corpus", row.corpus), ("queries", row.queries), ("qrels", row.qrels)):
        names = [pattern.format(split=split) for pattern in patterns]
        path = _find(folder, names)
        if path is None:
            raise DataError(f"{folder}: no {' or '.join(names)}, which the layout {layout!r} needs")
        files[kind] = path
    return TaskFiles(**files)


def find_ranked_lists(folder: Path, layout: str, split: str) -> dict[str, Path]:
    """Return name → file of the ranked lists that came with a collection.

    Raises:
        DataError: two files fit one list.
    """
    found = {
        name: _find(folder, [pattern.format(split=split) for pattern in patterns])
        for name, patterns in LAYOUTS[layout].ranked_lists.items()
    }
    return {name: path for name, path in found.items() if path is not None}


def _find(folder: Path, patterns: Sequence[str]) -> Path | None:
    for pattern in patterns:
        found = sorted(folder.glob(pattern))
        if len(found) > 1:
            names = ", ".join(path.name for path in found)
            raise DataError(f"{folder}: {pattern!r} matches several files: {names}; keep one of them")
        if found:
            return found[0]
    return None
