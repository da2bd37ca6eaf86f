"""Documents that can't be encoded: where a benchmark says so, they are left out of the artefact of their shard.

An artefact that lacks documents has a key of its own, and lists them with the reason. `on_bad_document: error` never
reads it. `skip` reads it before the whole artefact: what was left out once stays out, so a stored run goes on to be
the run of these vectors.
"""

from collections.abc import Mapping, Sequence

from r2med_ray.corpora import CorpusShard
from r2med_ray.first_stage import FirstStage, ShardedFirstStage
from r2med_ray.storage.artifact import Artifact
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import ArtifactKey, Json
from r2med_ray.storage.places import at_once
from r2med_ray.types import DocId, OnBadDocument, Task

LEFT_OUT = "left_out"
"""The attribute of an artefact that lists the documents that it lacks."""

FEW = 10
"""So many documents of a shard may always be left out, unless they are all of them."""

MOST = 0.05
"""Share of a shard's documents above which leaving out is refused: then the model is at fault, not the documents."""


def most_left_out(num_documents: int) -> int:
    """Return how many documents of a shard may be left out. It is always possible to encode one."""
    return min(max(FEW, int(MOST * num_documents)), num_documents - 1)


def key_without_bad(key: ArtifactKey) -> ArtifactKey:
    """Return the key of a shard's artefact that lacks the documents that can't be encoded."""
    return ArtifactKey(key.kind, {**key.inputs, "bad_documents": "left out"})


def key_of_stored(store: ArtifactStore, on_bad_document: OnBadDocument, key: ArtifactKey) -> ArtifactKey:
    """Return the key by which a shard's artefact is found.

    Args:
        store: where it may be.
        on_bad_document: whether documents may have been left out.
        key: the key of the whole artefact. It is returned if there is no other, stored or not.
    """
    if on_bad_document == "skip":
        without = key_without_bad(key)
        if store.find(without) is not None:
            return without
    return key


def find_shards(
    store: ArtifactStore,
    first_stage: ShardedFirstStage,
    task: Task,
    shards: Sequence[CorpusShard],
    device: str,
) -> list[Artifact | None]:
    """Return the artefact of some shards of a task, see `key_of_stored`; None for each that isn't stored."""

    def find(shard: CorpusShard) -> Artifact | None:
        key = first_stage.shard_key(task.name, task.corpus, shard, device)
        return store.find(key_of_stored(store, first_stage.on_bad_document, key))

    return at_once(find, shards)


def held_bytes(store: ArtifactStore, first_stage: ShardedFirstStage, task: Task, device: str) -> int:
    """Return how many bytes the indexes of all shards of a task hold between searches, by what is stored of them."""
    found = find_shards(store, first_stage, task, task.corpus.shards, device)
    return int(first_stage.held_share * sum(artifact.num_bytes for artifact in found if artifact))


def attributes_of(left_out: Mapping[DocId, str]) -> dict[str, Json]:
    """Return the attributes of an artefact that lacks documents: id → why it can't be encoded."""
    return {LEFT_OUT: dict(left_out)}


def left_out_of(
    store: ArtifactStore, first_stages: Sequence[FirstStage], task: Task, device: str
) -> dict[str, dict[DocId, str]]:
    """Return label of a first stage → id → why it can't be encoded, for all documents that its index lacks.

    A first stage whose index is whole has no entry.
    """
    found: dict[str, dict[DocId, str]] = {}
    for first_stage in first_stages:
        if first_stage.work == "nothing" or first_stage.on_bad_document == "error":
            continue
        lacking: dict[DocId, str] = {}
        keys = [first_stage.shard_key(task.name, task.corpus, shard, device) for shard in task.corpus.shards]
        for artifact in store.find_all(map(key_without_bad, keys)):
            lacking |= artifact.attributes[LEFT_OUT] if artifact else {}
        if lacking:
            found[first_stage.label] = lacking
    return found
