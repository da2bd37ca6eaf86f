"""First stages: what a benchmark file may name as a retriever, one module per kind.

A kind is a class that fulfils `first_stage.FirstStage` and owns the pure callables of its work: what is made of a
shard and of queries, the index of a shard, and what the index is asked. `kinds.KINDS` has the kinds by noun, and
`kinds.register` adds one from outside this package. Nothing else asks what kind a first stage is.
"""
