"""LOAD, SHARD: tasks and the places of their files, readers per layout, and corpora as Parquet shards."""
