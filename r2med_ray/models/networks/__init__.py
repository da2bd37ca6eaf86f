"""Checkpoints in memory, which turn texts into vectors and pairs of texts into scores."""
