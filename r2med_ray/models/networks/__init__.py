"""Checkpoints in memory: texts to vectors and to scores."""
