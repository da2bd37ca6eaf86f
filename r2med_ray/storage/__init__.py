"""Files that are kept and read: artefacts, JSON Lines, Parquet."""
