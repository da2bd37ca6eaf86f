"""The files of a pack of hard negatives, in two layouts, read as passages and labels.

Ours, whose files are Parquet or JSON Lines:

    passages.parquet    doc_id, text, writer (who or what wrote it), and any other provenance
    labels.parquet      query_id, doc_id, kind, positive_ids (the query's positives that it was made from)
    contrasts.parquet   query_ids, doc_ids, kind: two queries, and for each of them, in this order, the document of
                        the corpus that is a positive of it and a hard negative of the other one

A passage with `in_corpus: true` is a document of the corpus, with its text as the pack knows it. A pack has passages
and labels, contrasts, or all three.

That of the COMPSCI-646 group, with several rounds of generation in one folder. `<Task>` is the task's name without
hyphens, and `<round>` anything:

    <Task>_<round>_hp_id_to_hp.jsonl         hard_passage_id, hard_passage
    <Task>_<round>_qrel_extent.jsonl         q_id, p_id (of a hard passage), score
    <Task>_<round>_pos_id_to_hp_ids.jsonl    pos_id, hard_passage_ids

The `score` of that layout is always 1, although none of its passages is relevant; it is never read.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from r2med_ray.corpus.records import read_records
from r2med_ray.errors import DataError
from r2med_ray.storage.ids import IdReader, text_of
from r2med_ray.storage.jsonl import Record
from r2med_ray.storage.qrels import listed_ids, whole_grade
from r2med_ray.types import Contrast, DocId, Document, HardNegative, Qrels, QueryId

PASSAGES, LABELS, CONTRASTS = "passages", "labels", "contrasts"
HP_PASSAGES, HP_LABELS, HP_SOURCES = "hp_id_to_hp.jsonl", "qrel_extent.jsonl", "pos_id_to_hp_ids.jsonl"
UNKNOWN = "unknown"
"""The writer of the passages of a layout that doesn't name one."""


class Passage(NamedTuple):
    """A passage of a pack, and where it stands."""

    where: str
    document: Document
    writer: str
    in_corpus: bool = False
    """Whether it is a document of the corpus, and no passage that the pack brings."""


class Label(NamedTuple):
    """The statement that a passage is a hard negative for a query, and where it stands."""

    where: str
    query_id: QueryId
    doc_id: DocId
    negative: HardNegative


class PackFiles(NamedTuple):
    """What a folder holds."""

    passages: list[Passage]
    labels: list[Label]
    """Those of contrasts included."""

    contrasts: list[Contrast]


def read_files(folder: Path, task: str, qrels: Qrels) -> PackFiles:
    """Read the files of a folder in either layout.

    Raises:
        DataError: the folder has neither layout, or a record is wrong; names file and line.
    """
    own = {kind: path for kind in (PASSAGES, LABELS, CONTRASTS) if (path := _one(folder, kind))}
    if own.keys() >= {PASSAGES, LABELS} or own.keys() == {CONTRASTS}:
        contrasts = list(_contrasts(own[CONTRASTS])) if CONTRASTS in own else []
        return PackFiles(
            passages=list(_passages(own[PASSAGES])) if PASSAGES in own else [],
            labels=[
                *(_labels(own[LABELS]) if LABELS in own else ()),
                *(label for placed in contrasts for label in _labels_of(*placed)),
            ],
            contrasts=[contrast for _, contrast in contrasts],
        )
    key = task.replace("-", "")
    rounds = {kind: sorted(folder.glob(f"{key}_*_{kind}")) for kind in (HP_PASSAGES, HP_LABELS, HP_SOURCES)}
    if not rounds[HP_PASSAGES] or not rounds[HP_LABELS]:
        there = ", ".join(sorted(path.name for path in folder.glob("*"))[:6]) or "nothing"
        raise DataError(
            f"{folder}: no pack of hard negatives for {task}: expected {PASSAGES} and {LABELS}, or {CONTRASTS}, "
            f".parquet or .jsonl, or {key}_*_{HP_PASSAGES} and {key}_*_{HP_LABELS}; it has {there}"
        )
    sources = _sources(rounds[HP_SOURCES])
    return PackFiles(
        [passage for path in rounds[HP_PASSAGES] for passage in _hp_passages(path)],
        [label for path in rounds[HP_LABELS] for label in _hp_labels(path, sources, qrels)],
        [],
    )


def _one(folder: Path, kind: str) -> Path | None:
    found = [path for ending in ("parquet", "jsonl") if (path := folder / f"{kind}.{ending}").is_file()]
    if len(found) > 1:
        raise DataError(f"{found[0]} and {found[1]}: expected one of the two")
    return found[0] if found else None


def _passages(path: Path) -> Iterator[Passage]:
    ids = IdReader(path)
    for record in read_records(path):
        in_corpus = record.values.get("in_corpus") or False
        if not isinstance(in_corpus, bool):
            raise DataError(f"{record.where}: in_corpus is {in_corpus!r:.80}; expected true or false")
        passage = _passage(record, ids, "doc_id", "text", _text(record, "writer"))
        yield passage._replace(in_corpus=in_corpus)


def _labels(path: Path) -> Iterator[Label]:
    ids = IdReader(path)
    for record in read_records(path):
        grade = record.values.get("grade", 0)
        if whole_grade(grade, record.where) > 0:
            raise DataError(f"{record.where}: a hard negative has grade {grade}; a label of a pack is no judgement")
        positives = record.values.get("positive_ids")
        negative = HardNegative(
            kind=_text(record, "kind"),
            positives=_ids(record, "positive_ids", ids) if positives is not None else (),
        )
        yield _label(record, ids, "query_id", "doc_id", negative)


def _contrasts(path: Path) -> Iterator[tuple[str, Contrast]]:
    """Yield where each contrast stands, and the contrast."""
    ids = IdReader(path)
    for record in read_records(path):
        queries, documents = (_two(record, field, ids) for field in ("query_ids", "doc_ids"))
        kind = record.values.get("kind")
        yield record.where, Contrast(queries, documents, "" if kind is None else _text(record, "kind"))


def _labels_of(where: str, contrast: Contrast) -> Iterator[Label]:
    for query_id, positive, negative in zip(
        contrast.query_ids, contrast.doc_ids, contrast.doc_ids[::-1], strict=True
    ):
        yield Label(where, query_id, negative, HardNegative(kind=contrast.kind, positives=(positive,)))


def _hp_passages(path: Path) -> Iterator[Passage]:
    ids = IdReader(path)
    for record in read_records(path):
        yield _passage(record, ids, "hard_passage_id", "hard_passage", UNKNOWN)


def _hp_labels(path: Path, sources: Mapping[DocId, set[DocId]], qrels: Qrels) -> Iterator[Label]:
    ids = IdReader(path)
    for record in read_records(path):
        label = _label(record, ids, "q_id", "p_id", HardNegative())
        grades = qrels.get(label.query_id, {})
        positives = sorted(doc_id for doc_id in sources.get(label.doc_id, ()) if grades.get(doc_id, 0) > 0)
        yield label._replace(negative=HardNegative(positives=tuple(positives)))


def _sources(paths: list[Path]) -> dict[DocId, set[DocId]]:
    """Return passage → the positives that it was made from, over all rounds."""
    sources: dict[DocId, set[DocId]] = {}
    for path in paths:
        ids = IdReader(path)
        for record in read_records(path):
            positive = ids.read(record.first_of(["pos_id"]), where=record.where)
            for doc_id in _ids(record, "hard_passage_ids", ids):
                sources.setdefault(doc_id, set()).add(positive)
    return sources


def _passage(record: Record, ids: IdReader, id_field: str, text_field: str, writer: str) -> Passage:
    doc_id = ids.read(record.first_of([id_field]), where=record.where)
    text = _text(record, text_field)
    if not text.strip():
        raise DataError(f"{record.where}: passage {doc_id!r} has no text")
    return Passage(record.where, Document(doc_id=doc_id, text=text), writer)


def _label(record: Record, ids: IdReader, query_field: str, doc_field: str, negative: HardNegative) -> Label:
    query_id, doc_id = (ids.read(record.first_of([name]), where=record.where) for name in (query_field, doc_field))
    return Label(record.where, query_id, doc_id, negative)


def _ids(record: Record, field: str, ids: IdReader) -> tuple[DocId, ...]:
    return tuple(ids.read(value, where=record.where) for value in listed_ids(record, (field,)))


def _two(record: Record, field: str, ids: IdReader) -> tuple[str, str]:
    found = _ids(record, field, ids)
    if len(found) != 2 or found[0] == found[1]:
        raise DataError(f"{record.where}: {field} is {list(found)!r:.80}; expected two different ids")
    return found[0], found[1]


def _text(record: Record, field: str) -> str:
    return text_of(record.first_of([field]), where=record.where, field=field)
