"""Everything that holds weights or calls a model's API: rows of the catalogue, encoders, rerankers, chat."""
