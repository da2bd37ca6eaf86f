"""LIVE: a person's question answered by the systems of a benchmark, step by step, on a page."""
