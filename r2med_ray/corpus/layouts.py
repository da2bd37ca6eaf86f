"""Which files a collection's folder holds, and what the fields of its JSON records are called."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from r2med_ray.errors import DataError
from r2med_ray.registry import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """File names are globs in order of preference, `{split}` is filled in; fields are in order of preference."""

    corpus: tuple[str, ...]
    queries: tuple[str, ...]
    qrels: tuple[str, ...]
    id_fields: tuple[str, ...]
    text_fields: tuple[str, ...]

    @property
    def has_splits(self) -> bool:
        """Whether the queries of several qrels share one file, so that a split takes those that its qrels name."""
        return any("{split}" in pattern for pattern in self.qrels)


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
                queries=("topics*",),
                qrels=("qrels*", "*.qrels", "*.qrel"),
                id_fields=("_id", "id", "docno"),
                text_fields=("contents", "text"),
            ),
        ),
    ],
)
"""`r2med`: R2MED's eight tasks (its README says `qrels.txt`, its code reads `qrels.jsonl`). `beir`: BEIR and MTEB.
`trec`: topics (TSV or `<top>`), qrels with four columns, a corpus as JSON Lines like Anserini's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFiles:
    corpus: Path
    queries: Path
    qrels: Path


def find_files(folder: Path, layout: str, split: str) -> TaskFiles:
    """Return the three files of a collection.

    Raises:
        ConfigError: the layout is unknown.
        DataError: a file is missing, or two could be meant.
    """
    row = LAYOUTS[layout]
    return TaskFiles(
        corpus=_find(folder, row.corpus, layout),
        queries=_find(folder, row.queries, layout),
        qrels=_find(folder, [pattern.format(split=split) for pattern in row.qrels], layout),
    )


def _find(folder: Path, patterns: Sequence[str], layout: str) -> Path:
    for pattern in patterns:
        found = sorted(folder.glob(pattern))
        if len(found) > 1:
            names = ", ".join(path.name for path in found)
            raise DataError(f"{folder}: {pattern!r} matches {names}; keep the one that is meant")
        if found:
            return found[0]
    raise DataError(f"{folder}: no {' or '.join(patterns)}, which the layout {layout!r} needs")
