"""REWRITE QUERY: texts that a language model writes or wrote for a query, cleaned and joined by query id."""
