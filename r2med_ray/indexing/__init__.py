"""ENCODE and INDEX: one batch and one shard; analysis, BM25, and vectors."""
