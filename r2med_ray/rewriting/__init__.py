"""REWRITE: texts that a language model writes, or wrote earlier, for a query."""
