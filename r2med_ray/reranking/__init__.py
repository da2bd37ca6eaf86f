"""RERANK: the head of a ranking in a new order, by scores of pairs or by what a language model says."""
