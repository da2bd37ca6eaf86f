"""Reasoning-driven medical retrieval benchmarks as one Ray job.

load → shard → encode → index → rewrite → search → fuse → rerank → evaluate → report

    corpus       LOAD, SHARD             models       what holds weights
    indexing     ENCODE, INDEX           rewriting    REWRITE
    retrieval    SEARCH, FUSE, RERANK    evaluation   EVALUATE
    reporting    REPORT                  distributed, serving   the same on Ray

`pipeline` is the flow in one function; `benchmark` runs it for every system on every task.
"""
