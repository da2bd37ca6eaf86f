"""RERANK: puts the head of a ranking in a new order, by scores of pairs or a language model's answers."""
