"""INTEROPERATE: MTEB's tasks, models and result files, in both directions; collections as Nano sets."""
