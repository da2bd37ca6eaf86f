"""ENCODE, INDEX: analysis, BM25 and vectors, for one batch and one shard."""
