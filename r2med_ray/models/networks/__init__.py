"""Checkpoints in memory: texts to vectors, and pairs of texts to scores."""
