"""SEARCH, FUSE, RERANK: queries for each kind of retriever, plain search over shards, and what follows it."""
