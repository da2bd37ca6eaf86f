"""The files of an artefact that holds reranking scores, and the artefact's key.

scores.parquet    query_id (string), scores (list of float64: one per candidate, in their order), values (the same; a
                  column that is there if a language model's answers gave numbers), sentences-1 (one list of
                  float64 per candidate: see `sentences.Shares`; a column that is there if a scorer told them)
repairs.json      the repairs of a language model's answers; absent if nothing was repaired or unreadable
cuts.json         what was cut off queries and documents; absent if that isn't known
example.json      what was read of one pair; absent if that isn't known
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, get_args

import pyarrow as pa

from r2med_ray.cuts import Cuts, Side, SideCuts, from_json, to_json
from r2med_ray.protocols import Candidates
from r2med_ray.sentences import SPLITTER
from r2med_ray.storage.artifact import Artifact
from r2med_ray.storage.artifact_writer import as_parquet
from r2med_ray.storage.keys import ArtifactKey, Json, canonical_json, fingerprint
from r2med_ray.types import Repairs, Reranking

KIND = "rerank"
SCORES_FILE = "scores.parquet"
REPAIRS_FILE = "repairs.json"
CUTS_FILE = "cuts.json"
EXAMPLE_FILE = "example.json"

_SCORES = pa.list_(pa.float64())


def scores_key(inputs: Mapping[str, Json], work: Sequence[Candidates], *, sees_scores: bool = False) -> ArtifactKey:
    """Return the key of the scores of these candidates.

    Args:
        inputs: everything about the reranker that changes a score.
        work: the candidates. Queries, documents and their order are part of the key; expansions aren't.
        sees_scores: whether the reranker is shown the first stage's scores. If so, they are part of the key.
    """
    shown = [
        [query.query_id, query.text, [[document.doc_id, document.content] for document in documents]]
        for query, documents, _ in work
    ]
    key = {**inputs, "pairs": fingerprint(shown)}
    if sees_scores:
        key["scores"] = fingerprint([list(candidates.scores) for candidates in work])
    return ArtifactKey(KIND, key)


def reranking_files(reranking: Reranking) -> dict[str, bytes]:
    """Return file name → content for scores and repairs. Equal rerankings have equal bytes."""
    columns = {"query_id": list(reranking.scores), "scores": pa.array(reranking.scores.values(), _SCORES)}
    if reranking.values is not None:
        columns["values"] = pa.array([reranking.values[query_id] for query_id in reranking.scores], _SCORES)
    if reranking.sentences is not None:
        of_queries = [list(map(list, reranking.sentences[query_id])) for query_id in reranking.scores]
        columns[SPLITTER] = pa.array(of_queries, pa.list_(_SCORES))
    files = {SCORES_FILE: as_parquet(pa.table(columns)).to_pybytes()}
    if reranking.repairs.query_ids:
        files[REPAIRS_FILE] = canonical_json(asdict(reranking.repairs)).encode()
    if reranking.cuts is not None:
        cuts = {side: to_json(each) for side, each in reranking.cuts.items()}
        files[CUTS_FILE] = canonical_json(cuts).encode()
    if reranking.example is not None:
        files[EXAMPLE_FILE] = canonical_json(reranking.example).encode()
    return files


def read_reranking(artifact: Artifact) -> Reranking:
    """Return the reranking that an artefact with the files of `reranking_files` holds.

    Raises:
        ArtifactError: a file is missing or damaged.
    """
    table = artifact.table(SCORES_FILE)
    query_ids = table["query_id"].to_pylist()
    values, sentences = (
        table[name].to_pylist() if name in table.column_names else None for name in ("values", SPLITTER)
    )
    return Reranking(
        scores=dict(zip(query_ids, table["scores"].to_pylist(), strict=True)),
        values=dict(zip(query_ids, values, strict=True)) if values is not None else None,
        repairs=Repairs(**(_read(artifact, REPAIRS_FILE) or {})),
        cuts=_read_cuts(artifact),
        example=_read(artifact, EXAMPLE_FILE),
        sentences=None
        if sentences is None
        else {query_id: [*map(tuple, found)] for query_id, found in zip(query_ids, sentences, strict=True)},
    )


def _read_cuts(artifact: Artifact) -> SideCuts | None:
    stored = _read(artifact, CUTS_FILE)
    if stored is None:
        return None
    read: dict[Side, Cuts | None] = {side: from_json(stored.get(side)) for side in get_args(Side)}
    return {side: cuts for side, cuts in read.items() if cuts is not None}


def _read(artifact: Artifact, file: str) -> Any:
    """Return the content of a JSON file; None if the artefact doesn't have it."""
    return json.loads(artifact.read(file).to_pybytes()) if file in artifact.files else None
