"""Reads NevIR's pairs, and writes them as a task with a pack of contrasts.

A record has `id`, two queries (`q1`, `q2`) and two documents (`doc1`, `doc2`): q1 asks for doc1, q2 for doc2, and
each document is the hard negative of the other query (Weller et al., arXiv 2305.07614). The folder that is written is
a task in R2MED's layout:

    corpus.jsonl  query.jsonl  qrels.jsonl      ids as in MTEB's version: <id>_doc1, <id>_q1, ...
    hard_negatives/contrasts.jsonl              one line per record
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from r2med_ray.corpus.records import read_records
from r2med_ray.errors import DataError
from r2med_ray.storage.csv_rows import read_csv
from r2med_ray.storage.ids import IdReader, text_of
from r2med_ray.storage.new_folders import new_folder

KIND = "negation"
"""What the documents of a record of NevIR differ in."""


def import_contrasts(file: Path, output: Path, *, kind: str = KIND) -> int:
    """Write a file in NevIR's shape as a task with contrasts, and return how many contrasts it has.

    Args:
        file: CSV with a header, JSON Lines, or Parquet.
        output: the folder of the task, which must not exist.
        kind: what the documents of a record differ in.

    Raises:
        ConfigError: `output` exists.
        DataError: a field is missing, an id is bad or comes twice, a text is blank, or the two queries or documents
            of a record are the same (names file and line); or the file has no record.
    """
    records = list(_checked(file))
    if not records:
        raise DataError(f"{file}: holds no records; expected id, q1, q2, doc1 and doc2 in each")
    with new_folder(output) as folder:
        (folder / "hard_negatives").mkdir()
        both = [(name, number, texts) for name, texts in records for number in (1, 2)]
        documents = ({"id": f"{name}_doc{number}", "text": texts[f"doc{number}"]} for name, number, texts in both)
        queries = ({"id": f"{name}_q{number}", "text": texts[f"q{number}"]} for name, number, texts in both)
        judged = ({"q_id": f"{name}_q{n}", "p_id": f"{name}_doc{n}", "score": 1} for name, n, _ in both)
        contrasts = (
            {
                "query_ids": [f"{name}_q{n}" for n in (1, 2)],
                "doc_ids": [f"{name}_doc{n}" for n in (1, 2)],
                "kind": kind,
            }
            for name, _ in records
        )
        _write(folder / "corpus.jsonl", documents)
        _write(folder / "query.jsonl", queries)
        _write(folder / "qrels.jsonl", judged)
        _write(folder / "hard_negatives" / "contrasts.jsonl", contrasts)
    return len(records)


def _checked(file: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the id of each record and its four texts by field."""
    ids, seen = IdReader(file), dict[str, str]()
    for record in read_csv(file) if file.suffix == ".csv" else read_records(file):
        name = ids.read(record.first_of(["id"]), where=record.where)
        if name in seen:
            raise DataError(f"{record.where}: id {name!r} is at {seen[name]} too; ids must be unique")
        seen[name] = record.where
        texts = {
            field: text_of(record.first_of([field]), where=record.where, field=field)
            for field in ("q1", "q2", "doc1", "doc2")
        }
        for field, text in texts.items():
            if not text.strip():
                raise DataError(f"{record.where}: record {name!r}: {field} has no text")
        for first, second in (("q1", "q2"), ("doc1", "doc2")):
            if texts[first] == texts[second]:
                raise DataError(f"{record.where}: record {name!r}: {first} and {second} are the same text")
        yield name, texts


def _write(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), encoding="utf-8")
