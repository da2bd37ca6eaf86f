"""RERANK: puts the head of a ranking in a new order, by scores of pairs or by a language model's answers."""
