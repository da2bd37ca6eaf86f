"""Counts of what was cut, which stand in the manifest of the artefact that was made of the texts.

The counts are no part of a key: they follow from what is. An artefact from before they were taken has none, and then
they are unknown.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import pyarrow as pa

from r2med_ray.cuts import Cuts, PartCuts, from_json, sum_of, to_json
from r2med_ray.first_stage import FirstStage, Maker, ShardedFirstStage
from r2med_ray.first_stages.bad_documents import find_shards
from r2med_ray.first_stages.query_blocks import blocks
from r2med_ray.storage.artifact import Artifact
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import Json
from r2med_ray.types import Query, Task

CUTS = "cuts"
"""The attribute of an artefact that holds the counts."""

SAME = "same_vectors"
"""The attribute that holds the number of queries that have the same vector as another of their block."""

_NAMES = ("row", "doc_id", "query_id")
"""Columns that say which query a vector is of."""


def cuts_made(maker: Maker) -> Cuts | None:
    """Return what a maker has cut since it was asked last; None if it can't say.

    A generated text that is embedded like a document counts among the texts of the queries.
    """
    cuts = maker.take_cuts()
    return None if cuts is None else sum_of(cuts.values())


def same_vectors(queries: Sequence[Query], tables: Mapping[str, pa.Table]) -> int | None:
    """Return how many queries have the same vector, to the last bit, as a query with another text.

    Returns:
        None if the tables don't hold one row per query.
    """
    if not tables or any(table.num_rows != len(queries) for table in tables.values()):
        return None
    vectors = [
        table.drop_columns([name for name in _NAMES if name in table.column_names]) for table in tables.values()
    ]
    texts_of: defaultdict[bytes, list[object]] = defaultdict(list)
    for row, query in enumerate(queries):
        content = b"".join(_content(table.slice(row, 1)) for table in vectors)
        texts_of[content].append((query.text, query.expansions))
    return sum(len(texts) for texts in texts_of.values() if len(set(texts)) > 1)


def document_cuts(store: ArtifactStore, task: Task, first_stage: FirstStage, device: str) -> Cuts | None:
    """Return what was cut off a task's documents; None if a shard doesn't say it, or nothing can be cut."""
    reader = _reader(first_stage)
    if reader is None:
        return None
    return sum_of(map(_noted, find_shards(store, reader, task, task.corpus.shards, device)))


def search_cuts(
    store: ArtifactStore,
    task: Task,
    first_stage: FirstStage,
    queries: Sequence[Query],
    documents: Cuts | None,
    device: str,
) -> PartCuts | None:
    """Return what was cut for one search; None if nothing can be cut.

    Args:
        store: holds what was made of the queries.
        task: is searched.
        first_stage: searches.
        queries: what it is asked.
        documents: the answer of `document_cuts`.
        device: what encoders compute on.
    """
    reader = _reader(first_stage)
    if reader is None:
        return None
    keys = [reader.queries_key(task.name, block, device) for block in blocks(queries)]
    made = [None if key is None else store.find(key) for key in keys]
    same: list[int | None] = [each.attributes.get(SAME) if each else None for each in made]
    of_all = None if None in same else sum(filter(None, same))
    return _part(reader, queries, sum_of(map(_noted, made)), documents, of_all)


def run_attributes(cuts: PartCuts | None) -> dict[str, Json]:
    """Return the attributes of a stored run."""
    if cuts is None:
        return {}
    return {CUTS: {"query": to_json(cuts.query), "document": to_json(cuts.document)}, SAME: cuts.same}


def run_cuts(first_stage: FirstStage, queries: Sequence[Query], run: Artifact) -> PartCuts | None:
    """Return what was cut for a stored run of some queries; None if nothing can be cut."""
    reader = _reader(first_stage)
    if reader is None:
        return None
    noted = run.attributes.get(CUTS) or {}
    query, document = (from_json(noted.get(side)) for side in ("query", "document"))
    return _part(reader, queries, query, document, run.attributes.get(SAME))


def _reader(first_stage: FirstStage) -> ShardedFirstStage | None:
    """Return the first stage if a model reads its texts, which may cut them; None if whole texts count."""
    if first_stage.work == "nothing":
        return None
    return None if first_stage.work == "tokenize" else first_stage


def _part(
    reader: ShardedFirstStage,
    queries: Sequence[Query],
    query: Cuts | None,
    document: Cuts | None,
    same: int | None,
) -> PartCuts:
    """Return the counts of one search. `same` is how many of its queries share their vector, counted per block."""
    return PartCuts(
        part=reader.label,
        of="texts",
        query=query,
        document=document,
        queries=len(queries),
        same=same,
        encoder=reader.exact.label if reader.exact else "",
    )


def _noted(artifact: Artifact | None) -> Cuts | None:
    return from_json(artifact.attributes.get(CUTS)) if artifact else None


def _content(row: pa.Table) -> bytes:
    """Return bytes that are equal if and only if the values of the row are."""
    parts: list[bytes] = []
    for column in row.columns:
        values = column.combine_chunks()
        while pa.types.is_list(values.type) or pa.types.is_fixed_size_list(values.type):
            values = values.flatten()
            parts.append(f"{len(values)} ".encode())
        plain = pa.types.is_primitive(values.type) and values.null_count == 0
        parts.append(values.to_numpy().tobytes() if plain else repr(values.to_pylist()).encode())
    return b"".join(parts)
