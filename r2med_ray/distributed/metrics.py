"""Ray's metrics of stages and waits. Each node exports them for Prometheus, with `ray_` before their names."""

from functools import cache

from ray.util.metrics import Counter, Gauge

TAGS = ("stage", "model")


@cache
def documents() -> Counter:
    """Return the counter of documents that workers have made something of."""
    return Counter("r2med_documents", "Documents that were tokenised or encoded", TAGS)


@cache
def tokens() -> Counter:
    """Return the counter of tokens that models have read of documents."""
    return Counter("r2med_tokens", "Tokens of documents that models have read", TAGS)


@cache
def shards_waiting() -> Gauge:
    """Return the gauge of shards that a stage has not finished."""
    return Gauge("r2med_shards_waiting", "Shards that a stage has not finished", TAGS)


@cache
def waited_for_nodes() -> Counter:
    """Return the counter of seconds that stages have waited for nodes."""
    return Counter("r2med_waited_for_nodes_seconds", "Seconds that a stage waited for nodes", ("stage",))
