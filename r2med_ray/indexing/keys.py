"""Keys of the artefacts of encoding and indexing, and names of the files in them."""

import importlib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import metadata

from r2med_ray.corpora import CorpusShard
from r2med_ray.indexing.analysis import ANALYZER
from r2med_ray.indexing.factory import description_of
from r2med_ray.storage.keys import ArtifactKey, Json, fingerprint, fingerprint_queries
from r2med_ray.types import Query

VECTORS_FILE = "vectors.parquet"
QUERY_VECTORS_FILE = "vectors.parquet"
TERMS_FILE = "terms.parquet"
COUNTS_FILE = "counts.parquet"
ANN_FILE = "index.faiss"
TRAINED_FILE = "trained.faiss"
WEIGHTS_FILE = "weights.arrow"

ALONE = "alone"
"""Name of the rows, in the key of a shard's vectors, that are encoded each in a call of its own."""


def vectors_key(
    shard: CorpusShard,
    skip_rows: Sequence[int],
    encoding: Mapping[str, Json],
    kind: str = "vectors",
    alone: Sequence[int] = (),
    pieces: int = 1,
) -> ArtifactKey:
    """Return the key of a shard's vectors of one kind.

    The key is made of the digest of the shard's text, the rows that are left out, the encoder's inputs, and, where
    vectors of one call may depend on each other, the rows that are encoded alone and the number of pieces.
    """
    inputs = {"shard": shard.digest, "skip_rows": list(skip_rows), "encoding": dict(encoding)}
    together = ({ALONE: list(alone)} if alone else {}) | ({"pieces": pieces} if pieces > 1 else {})
    return ArtifactKey(kind, inputs | together)


def query_vectors_key(queries: Sequence[Query], encoding: Mapping[str, Json], kind: str = "vectors") -> ArtifactKey:
    """Return the key of the vectors of a task's queries."""
    return ArtifactKey(f"query-{kind}", {"queries": fingerprint_queries(queries), "encoding": dict(encoding)})


def terms_key(shard: CorpusShard, skip_rows: Sequence[int], analyzer: str = ANALYZER) -> ArtifactKey:
    """Return the key of a shard's terms. All variants of BM25 with this analyzer share them."""
    return ArtifactKey("terms", {"shard": shard.digest, "skip_rows": list(skip_rows), "analyzer": analyzer})


def bm25_key(
    terms: ArtifactKey, counted: Sequence[ArtifactKey], variant: Mapping[str, Json], *, is_counted: bool
) -> ArtifactKey:
    """Return the key of the weights of a shard's terms.

    Args:
        terms: the key of the shard's terms.
        counted: the keys of the terms of all shards that the corpus statistics count.
        variant: the inputs of the row of BM25.
        is_counted: whether the shard is one of them.
    """
    corpus = fingerprint([key.digest for key in counted])
    return ArtifactKey(
        "bm25", {"terms": terms.digest, "corpus": corpus, "variant": dict(variant), "is_counted": is_counted}
    )


def trained_key(
    vectors: Sequence[ArtifactKey], factory: str, unit_length: bool, embed_dim: int | None = None
) -> ArtifactKey:
    """Return the key of the empty index that was trained on a sample of some shards' vectors.

    The search parameters of the factory string change nothing of it, so they are not in the key.
    """
    digests: list[Json] = [key.digest for key in vectors]
    return ArtifactKey("ann-trained", {"vectors": digests, **_of_index(factory, unit_length, embed_dim)})


def ann_key(
    vectors: ArtifactKey, factory: str, unit_length: bool, embed_dim: int | None = None, trained: str | None = None
) -> ArtifactKey:
    """Return the key of a shard's filled index. An exact index has no key of its own: its vectors are stored.

    Args:
        vectors: the key of the shard's vectors.
        factory: FAISS factory string; its search parameters are not in the key.
        unit_length: whether the vectors are brought to unit length first.
        embed_dim: how many components of each vector are kept, before that; all if None.
        trained: the digest of the key of the trained index; None if nothing had to be trained.
    """
    inputs = {"vectors": vectors.digest, **_of_index(factory, unit_length, embed_dim)}
    return ArtifactKey("ann", inputs | ({"trained": trained} if trained else {}))


def _of_index(factory: str, unit_length: bool, embed_dim: int | None) -> dict[str, Json]:
    inputs: dict[str, Json] = {"factory": description_of(factory), "unit_length": unit_length}
    return inputs | {"faiss": faiss_version()} | ({"embed_dim": embed_dim} if embed_dim else {})


@cache
def faiss_version() -> str:
    """Return the version of FAISS, which is installed as `faiss-cpu`, as one of several `faiss-gpu`, or from source.

    The version is read from the installed distribution. If there is none, FAISS is imported and asked.
    """
    try:
        return metadata.version("faiss-cpu")
    except metadata.PackageNotFoundError:
        distributions = metadata.packages_distributions().get("faiss", [])
    if distributions:
        return metadata.version(min(distributions))
    version: str = importlib.import_module("faiss").__version__
    return version
