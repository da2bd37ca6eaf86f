"""First stages: what a benchmark file may name as a retriever, one class per kind.

A new kind is a class that fulfils `first_stage.FirstStage`, a row of `kinds.KINDS`, which finds it by name, and a row
of `distributed.first_stages.PARTS`, which says what it does on a cluster. Nothing else asks what kind a stage is.
"""
