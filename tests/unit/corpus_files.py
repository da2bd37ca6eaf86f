"""Writes small collections for the tests of the corpus room."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from r2med_ray.corpus.sources import TaskSource

BENCHMARK_FILES = [
    path
    for path in sorted((Path(__file__).parents[2] / "jobs").glob("*.yaml"))
    if "\nsystems:" in path.read_text(encoding="utf-8")
]
"""The benchmark files of jobs/; the settings of its other jobs have no systems."""

DOCUMENTS = {
    "d1": "cat sits mat",
    "d2": "dog barks loud",
    "d3": "bird flies high",
    "d4": "fish swims deep",
    "d5": "cow eats grass",
    "d6": "horse runs fast",
}
QUERIES = {"q1": "cat", "q2": "dog", "q3": "zzz"}
QRELS = [("q1", "d1", 1), ("q2", "d2", 1), ("q3", "d6", 1)]


def write_jsonl(path: Path, records: Iterable[Mapping[str, object]]) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def write_r2med(
    folder: Path,
    *,
    corpus: Iterable[tuple[object, object]] = tuple(DOCUMENTS.items()),
    queries: Iterable[tuple[object, object]] = tuple(QUERIES.items()),
    qrels: Iterable[tuple[object, object, object]] = tuple(QRELS),
    expected: Mapping[str, int] | None = None,
) -> TaskSource:
    """Write the three files of R2MED's layout. The default is six documents and three queries."""
    folder.mkdir(parents=True, exist_ok=True)
    write_jsonl(folder / "corpus.jsonl", ({"id": doc_id, "text": text} for doc_id, text in corpus))
    write_jsonl(folder / "query.jsonl", ({"id": query_id, "text": text} for query_id, text in queries))
    write_jsonl(folder / "qrels.jsonl", ({"q_id": q, "p_id": d, "score": score} for q, d, score in qrels))
    return TaskSource(name="Tiny", suite="Tiny", folder=folder, layout="r2med", expected=expected or {})
