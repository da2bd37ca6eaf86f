"""The vector index of one shard, out of stored vectors. What FAISS trained and filled is kept in artefacts.

Shape letters: N documents of the shard, D embedding size, S documents of the sample.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from r2med_ray.indexing.approximate import needs_training, train
from r2med_ray.indexing.compression import cut_vectors
from r2med_ray.indexing.dense import DenseIndex
from r2med_ray.indexing.embedding import read_vectors
from r2med_ray.indexing.factory import EXACT, training_size
from r2med_ray.indexing.keys import ANN_FILE, TRAINED_FILE, VECTORS_FILE, ann_key, trained_key
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import ArtifactKey, Json
from r2med_ray.types import FloatMatrix


def train_vector_index(
    store: ArtifactStore,
    keys: Sequence[ArtifactKey],
    factory: str,
    *,
    num_rows: int,
    cosine: bool,
    embed_dim: int | None = None,
    attributes: Mapping[str, Json],
) -> ArtifactKey | None:
    """Train an index on a sample of all shards, unless that is stored, and return the key of what was trained.

    Args:
        store: where the vectors are, and where the trained index is kept.
        keys: the keys of the vectors of each shard.
        factory: FAISS factory string.
        num_rows: the documents of all these shards.
        cosine: whether the vectors are brought to unit length first.
        embed_dim: how many components of each vector are kept, before that; all if None.
        attributes: what is noted with the trained index.

    Returns:
        None if there is nothing to learn, or nothing to learn from.

    Raises:
        ArtifactError: vectors are not stored, or damaged.
        ConfigError: FAISS can't train such an index with these vectors.
    """
    key = trained_key(keys, factory, cosine, embed_dim)
    if store.find(key) is not None:
        return key
    first_ND = next((found for found in _vectors(store, keys, embed_dim, cosine=cosine) if len(found)), None)
    if first_ND is None or not needs_training(factory, first_ND.shape[1]):
        return None
    share = min(1.0, training_size(factory) / num_rows)
    trained = train(_sample(_vectors(store, keys, embed_dim, cosine=cosine), share), factory)
    with store.create(key) as writer:
        writer.attributes.update(attributes)
        writer.write(TRAINED_FILE, trained)
    return key


def open_vector_index(
    store: ArtifactStore,
    key: ArtifactKey,
    factory: str,
    *,
    cosine: bool,
    embed_dim: int | None = None,
    trained: ArtifactKey | None = None,
) -> DenseIndex:
    """Return the index of a shard's vectors.

    Args:
        store: where the vectors are; a filled index is kept there and read the next time.
        key: the key of the vectors.
        factory: FAISS factory string; `Flat` is exact.
        cosine: whether the vectors are brought to unit length first.
        embed_dim: how many components of each vector are kept, before that; all if None.
        trained: what `train_vector_index` returned.

    Raises:
        ArtifactError: the vectors are not stored, or damaged.
        ConfigError: FAISS can't build such an index from these vectors.
    """
    stored = read_vectors(store.get(key).table(VECTORS_FILE))
    vectors_ND = cut_vectors(stored.vectors, embed_dim, unit=cosine)
    if factory == EXACT or not len(vectors_ND):
        return DenseIndex.build(stored.doc_ids, vectors_ND)
    filled = ann_key(key, factory, cosine, embed_dim, trained.digest if trained else None)
    artifact = store.find(filled)
    if artifact is not None:
        return DenseIndex.from_bytes(stored.doc_ids, artifact.read(ANN_FILE), factory)
    empty = bytes(store.get(trained).read(TRAINED_FILE)) if trained else None
    index = DenseIndex.build(stored.doc_ids, vectors_ND, factory, empty)
    with store.create(filled) as writer:
        writer.write(ANN_FILE, index.to_bytes())
    return index


def _sample(shards: Iterable[FloatMatrix], share: float) -> FloatMatrix:
    """Return a share of each shard's vectors, rounded up and drawn with a seed: float32 of shape (S, D)."""
    draw = np.random.default_rng(0)
    drawn = [
        vectors_ND[np.sort(draw.choice(len(vectors_ND), math.ceil(share * len(vectors_ND)), replace=False))]
        for vectors_ND in shards
        if len(vectors_ND)
    ]
    return np.ascontiguousarray(np.concatenate(drawn), np.float32)


def _vectors(
    store: ArtifactStore, keys: Sequence[ArtifactKey], embed_dim: int | None, *, cosine: bool
) -> Iterator[FloatMatrix]:
    for key in keys:
        stored = read_vectors(store.get(key).table(VECTORS_FILE))
        yield cut_vectors(stored.vectors, embed_dim, unit=cosine)
