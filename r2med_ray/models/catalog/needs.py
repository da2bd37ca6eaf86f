"""The needs of a model, as plain values: a row states them, and `models.at_hand` checks them."""

from dataclasses import dataclass
from typing import NamedTuple


class Source(NamedTuple):
    """A checkpoint or a tokenizer."""

    name: str
    """`org/name` on the Hub, a folder, or another form that a row may have."""

    revision: str | None
    """The commit on the Hub."""


class PythonModule(NamedTuple):
    """A Python module that must be importable."""

    name: str
    """The module's name before the first dot. A search for this name imports nothing."""

    called: str
    """The name that people use for the module, e.g. "vLLM"."""

    how: str
    """The whole message if the module is missing: who needs it, and how to get it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """The needs of one row. Rows that it names, e.g. a reranker's encoder, state their own needs."""

    key_variables: tuple[str, ...] = ()
    """Environment variables that hold the keys of services."""

    tokenizers: tuple[Source, ...] = ()
    """Tokenizers that cut and count the texts for a service."""

    modules: tuple[PythonModule, ...] = ()
    checkpoints: tuple[Source, ...] = ()
    memory_gb: float | None = None
    """Memory that the model takes, in GB; None if it takes none on this cluster."""

    workers: int = 1
    """How many devices share that memory."""
