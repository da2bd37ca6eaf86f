"""What is kept and read: artefacts, JSON Lines, Parquet."""
