"""INTEROPERATE: MTEB's tasks, models and result files in both directions, Nano sets, texts for others."""
