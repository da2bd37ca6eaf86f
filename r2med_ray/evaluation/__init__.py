"""EVALUATE: measures, TREC files, significance, published results."""
