"""What names the artefacts of encoding and indexing, and the files in them."""

from collections.abc import Mapping, Sequence

from r2med_ray.artifacts import ArtifactKey, Json, fingerprint_queries
from r2med_ray.types import Corpus, CorpusShard, Query

VECTORS_FILE = "vectors.parquet"
TERMS_FILE = "terms.parquet"
DOCUMENT_FREQUENCIES_FILE = "document_frequencies.parquet"
INDEX_FILE = "index.parquet"


def vectors_key(shard: CorpusShard, skip_rows: Sequence[int], encoding: Mapping[str, Json]) -> ArtifactKey:
    """Return the key of a shard's vectors: its text, the rows that count, and the encoder's inputs."""
    return ArtifactKey("vectors", {"shard": shard.digest, "skip_rows": list(skip_rows), "encoding": dict(encoding)})


def query_vectors_key(queries: Sequence[Query], encoding: Mapping[str, Json]) -> ArtifactKey:
    """Return the key of the vectors of a task's queries."""
    return ArtifactKey("query-vectors", {"queries": fingerprint_queries(queries), "encoding": dict(encoding)})


def terms_key(shard: CorpusShard, skip_rows: Sequence[int], analyzer: Mapping[str, Json]) -> ArtifactKey:
    """Return the key of a shard's terms."""
    return ArtifactKey("terms", {"shard": shard.digest, "skip_rows": list(skip_rows), "analyzer": dict(analyzer)})


def bm25_key(
    corpus: Corpus, shard: CorpusShard, terms: ArtifactKey, skip_rows: Sequence[int], row: Mapping[str, Json]
) -> ArtifactKey:
    """Return the key of a shard's BM25 index: its terms, and the whole corpus, whose statistics it is scored with."""
    statistics = {"corpus": corpus.digest, "skip_rows": list(skip_rows)}
    return ArtifactKey("bm25", {"terms": terms.digest, "statistics": statistics, "row": dict(row)})


def ann_key(vectors: ArtifactKey, factory: str, library: str) -> ArtifactKey:
    """Return the key of a shard's trained index; an exact one is its vectors and has none."""
    return ArtifactKey("ann", {"vectors": vectors.digest, "factory": factory, "faiss": library})
