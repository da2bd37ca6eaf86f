"""Distributed, reasoning-driven medical retrieval benchmarking on Ray."""
