"""Ray's metrics of stages and waits. Each node exports them for Prometheus, with `ray_` before their names.

Each is made when it is asked for first, because Ray has to run by then.
"""

from functools import cache, partial

from ray.util.metrics import Counter, Gauge

TAGS = ("stage", "model")

documents = cache(partial(Counter, "r2med_documents", "Documents that were tokenised or encoded", TAGS))
tokens = cache(partial(Counter, "r2med_tokens", "Tokens of documents that models have read", TAGS))
shards_waiting = cache(partial(Gauge, "r2med_shards_waiting", "Shards, or pieces, that are not finished", TAGS))
waited_for_nodes = cache(
    partial(Counter, "r2med_waited_for_nodes_seconds", "Seconds that a stage waited for nodes", ("stage",))
)
