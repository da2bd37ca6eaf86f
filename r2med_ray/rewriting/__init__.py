"""REWRITE QUERY: texts that a language model wrote for a query, cleaned and joined by query id."""
