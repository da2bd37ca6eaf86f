"""Writes what was mined: as an evaluation pack, and as training files in the shapes of others.

pack/passages.parquet  pack/labels.parquet    what `hard_negatives:` of a benchmark file reads; `corpus.pack_files`
triplets.jsonl, .parquet                      anchor, positive, negative: sentence-transformers' `triplet`
n_tuples.jsonl, .parquet                      anchor, positive, negative_1 … negative_n: its `n-tuple`, for the
                                              queries that have all n
hard_negatives.jsonl                          qid, pos, neg by retriever, with `ce-score`: what BEIR trains with
candidates.parquet                            every candidate that was scored, with its verdict
manifest.json                                 settings, and counts of queries and of each verdict
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from r2med_ray.corpus.pack_files import LABELS, PASSAGES
from r2med_ray.corpus.packs import read_pack
from r2med_ray.negatives.mining import Candidate, Mined, MinedQuery
from r2med_ray.storage.keys import Json
from r2med_ray.storage.new_folders import new_folder
from r2med_ray.types import DocId

KIND = "mined"
PACK = "pack"
_FOUND = pa.list_(pa.struct({"retriever": pa.string(), "rank": pa.int32(), "score": pa.float64()}))
_PROVENANCE = pa.schema(
    {
        "query_id": pa.string(),
        "doc_id": pa.string(),
        "found": _FOUND,
        "cross_encoder": pa.string(),
        "cross_encoder_score": pa.float64(),
        "margin": pa.float64(),
        "verdict": pa.string(),
    }
)
_LABELS = pa.schema([("kind", pa.string()), ("positive_ids", pa.list_(pa.string())), *_PROVENANCE])
_PASSAGES = pa.schema({"doc_id": pa.string(), "text": pa.string(), "writer": pa.string(), "in_corpus": pa.bool_()})


def write_mined(mined: Mined, output: Path) -> None:
    """Write everything into a new folder, whole or not at all. The pack is read again as a benchmark will read it.

    Raises:
        ConfigError: the folder exists.
        DataError: nothing was chosen, or a label doesn't fit the task, e.g. because it is a positive of its query;
            names file, line and ids.
    """
    triplets, tuples = list(_triplets(mined)), list(_tuples(mined))
    with new_folder(output) as folder:
        (folder / PACK).mkdir()
        _write_parquet(folder / PACK / f"{PASSAGES}.parquet", _passages(mined), _PASSAGES)
        _write_parquet(folder / PACK / f"{LABELS}.parquet", _labels(mined), _LABELS)
        read_pack([folder / PACK], mined.task)
        for name, rows in {"triplets": triplets, "n_tuples": tuples}.items():
            _write_lines(folder / f"{name}.jsonl", rows)
            columns = ["anchor", "positive", *_negative_columns(name, mined.config.num_negatives)]
            _write_parquet(folder / f"{name}.parquet", rows, pa.schema([(column, pa.string()) for column in columns]))
        _write_lines(folder / "hard_negatives.jsonl", map(_beir, mined.queries))
        every = (_provenance(mined, query, each) for query in mined.queries for each in query.candidates)
        _write_parquet(folder / "candidates.parquet", every, _PROVENANCE)
        manifest = _manifest(mined) | {"triplets": len(triplets), "n_tuples": len(tuples)}
        (folder / "manifest.json").write_text(f"{json.dumps(manifest, indent=1, ensure_ascii=False)}\n", "utf-8")


def _negative_columns(name: str, num_negatives: int) -> list[str]:
    return ["negative"] if name == "triplets" else [f"negative_{number}" for number in range(1, num_negatives + 1)]


def _passages(mined: Mined) -> Iterator[dict[str, Json]]:
    chosen = {each.doc_id for query in mined.queries for each in query.chosen}
    for doc_id in sorted(chosen):
        text, writer = mined.documents[doc_id].content, f"the corpus of {mined.task.name}"
        yield {"doc_id": doc_id, "text": text, "writer": writer, "in_corpus": True}


def _labels(mined: Mined) -> Iterator[dict[str, Json]]:
    for query in mined.queries:
        for each in query.chosen:
            yield _provenance(mined, query, each) | {"kind": KIND, "positive_ids": []}


def _provenance(mined: Mined, query: MinedQuery, candidate: Candidate) -> dict[str, Json]:
    return {
        "query_id": query.query.query_id,
        "doc_id": candidate.doc_id,
        "found": [found._asdict() for found in candidate.found],
        "cross_encoder": mined.config.cross_encoder,
        "cross_encoder_score": candidate.score,
        "margin": candidate.margin,
        "verdict": candidate.verdict,
    }


def _triplets(mined: Mined) -> Iterator[dict[str, str]]:
    for query, positive, negatives in _texts(mined):
        for negative in negatives:
            yield {"anchor": query, "positive": positive, "negative": negative}


def _tuples(mined: Mined) -> Iterator[dict[str, str]]:
    names = _negative_columns("n_tuples", mined.config.num_negatives)
    for query, positive, negatives in _texts(mined):
        if len(negatives) == len(names):
            yield {"anchor": query, "positive": positive, **dict(zip(names, negatives, strict=True))}


def _texts(mined: Mined) -> Iterator[tuple[str, str, list[str]]]:
    """Yield query, positive and negatives as texts, for each positive of each query."""
    for query in mined.queries:
        negatives = [mined.documents[each.doc_id].content for each in query.chosen]
        for positive in query.positives:
            yield query.query.text, mined.documents[positive].content, negatives


def _beir(query: MinedQuery) -> dict[str, Json]:
    negatives: dict[str, list[Json]] = {}
    for each in query.chosen:
        for found in each.found:
            negatives.setdefault(found.retriever, []).append(_with_score(each.doc_id, each.score))
    positives = [_with_score(doc_id, score) for doc_id, score in query.positives.items()]
    return {"qid": query.query.query_id, "pos": positives, "neg": negatives}


def _with_score(doc_id: DocId, score: float) -> dict[str, Json]:
    return {"pid": doc_id, "ce-score": score}


def _manifest(mined: Mined) -> dict[str, Json]:
    return {
        "format": "r2med_ray mined negatives 1",
        "task": mined.task.name,
        "revision": mined.task.revision,
        "config": mined.config.model_dump(mode="json"),
        "retrievers": {first_stage.label: first_stage.settings() for first_stage in mined.retrievers},
        "cross_encoder": mined.scorer.model_dump(mode="json", by_alias=True, exclude_defaults=True),
        "counts": dict(mined.counts),
        "verdicts": mined.verdicts,
    }


def _write_lines(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    path.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), encoding="utf-8")


def _write_parquet(path: Path, rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> None:
    pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), path, compression="zstd")
