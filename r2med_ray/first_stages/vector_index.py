"""The vector index of one shard, out of stored vectors. One that FAISS had to train is an artefact of its own.

Shape letters: N documents of the shard, D embedding size.
"""

from r2med_ray.indexing.compression import cut_vectors
from r2med_ray.indexing.dense import DenseIndex
from r2med_ray.indexing.embedding import read_vectors
from r2med_ray.indexing.factory import EXACT
from r2med_ray.indexing.keys import ANN_FILE, VECTORS_FILE, ann_key
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import ArtifactKey


def open_vector_index(
    store: ArtifactStore, key: ArtifactKey, factory: str, *, cosine: bool, embed_dim: int | None = None
) -> DenseIndex:
    """Return the index of a shard's vectors.

    Args:
        store: where the vectors are; a trained index is kept there and read the next time.
        key: the key of the vectors.
        factory: FAISS factory string; `Flat` is exact.
        cosine: whether the vectors are brought to unit length first.
        embed_dim: how many components of each vector are kept, before that; all if None.

    Raises:
        ArtifactError: the vectors are not stored, or damaged.
        ConfigError: FAISS can't train such an index with these vectors.
    """
    stored = read_vectors(store.get(key).table(VECTORS_FILE))
    vectors_ND = cut_vectors(stored.vectors, embed_dim, unit=cosine)
    if factory == EXACT or not len(vectors_ND):
        return DenseIndex.build(stored.doc_ids, vectors_ND)
    trained = ann_key(key, factory, cosine, embed_dim)
    artifact = store.find(trained)
    if artifact is not None:
        return DenseIndex.from_bytes(stored.doc_ids, artifact.read(ANN_FILE))
    index = DenseIndex.build(stored.doc_ids, vectors_ND, factory)
    with store.create(trained) as writer:
        writer.write(ANN_FILE, index.to_bytes())
    return index
