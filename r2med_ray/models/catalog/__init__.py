"""Rows of the catalogue: what a model is, where it lies, and what it takes."""
