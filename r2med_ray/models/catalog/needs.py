"""What must be there before a model can be used: plain values. A row states them, `models.at_hand` checks them."""

from dataclasses import dataclass
from typing import NamedTuple


class Source(NamedTuple):
    """A checkpoint or a tokenizer."""

    name: str
    """`org/name` on the Hub, a folder, or what else a row may give."""

    revision: str | None
    """Its commit on the Hub."""


class PythonModule(NamedTuple):
    """A Python module that must be importable."""

    name: str
    """The name before the first dot. To look for it imports nothing."""

    called: str
    """What people call it, e.g. "vLLM"."""

    how: str
    """The whole message where it is missing: who needs it, and how to get it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What one row needs. The rows that it names, e.g. a reranker's encoder, state their own needs."""

    key_variables: tuple[str, ...] = ()
    """Environment variables that hold the keys of services."""

    tokenizers: tuple[Source, ...] = ()
    """Tokenizers that cut and count the texts for a service."""

    modules: tuple[PythonModule, ...] = ()
    checkpoints: tuple[Source, ...] = ()
    memory_gb: float | None = None
    """What the model takes in memory, in GB; None where it takes none on this cluster."""

    workers: int = 1
    """How many devices share that memory."""
