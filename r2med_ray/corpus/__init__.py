"""LOAD, SHARD: tasks and where their files are, readers per layout, and corpora as Parquet shards."""
