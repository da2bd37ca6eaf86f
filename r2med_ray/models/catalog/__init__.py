"""The catalogue of models: one row says what a model is, where its files are, and what it needs."""
