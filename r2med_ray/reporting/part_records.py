"""What a report is told of the parts of a system: how they were computed, and which models they are."""

from dataclasses import dataclass

ENCODE_QUERIES = "encode queries"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartRecord:
    """How a part of a system was computed for one arrow, as its artefacts say, whichever job made them."""

    arrow: str
    """`encode`, `tokenize`, `encode queries`, `rerank` or `write`."""

    part: str
    """The retriever, reranker or language model."""

    items: int
    """Documents, queries, pairs or texts of which it was measured."""

    seconds: float
    """Seconds of all workers together; for a language model, of all its requests."""

    unmeasured: int = 0
    """Artefacts that don't say how fast they were made."""

    computers: tuple[str, ...] = ()
    """The GPUs; for a CPU, its name and the threads. Empty where nobody knows."""

    dtypes: tuple[str, ...] = ()
    lengths: tuple[int, ...] = ()
    """Most tokens that were read of a text, as tokenizer, positions and checkpoint allow; for a language model, most
    tokens of an answer. Empty if there is no limit."""

    engines: tuple[str, ...] = ()
    """The libraries with their versions, vLLM, or a service."""

    tokens: int = 0
    """Tokens that a service counted; 0 if none did, and in reports from before they were recorded."""

    cost: str = ""
    """The work that a service was paid for, and its price, in words; empty if nothing was paid."""

    usd: float | None = None
    """What the services were paid, in US dollars; None if nothing was, or no row has a price."""

    @property
    def items_per_second(self) -> float | None:
        """Items per second of one worker; None if nothing was measured."""
        return self.items / self.seconds if self.seconds > 0 else None

    def describe(self) -> str:
        """Return all but the speed in one line."""
        told = [*self.dtypes, f"at most {' or '.join(map(str, self.lengths))} tokens" if self.lengths else ""]
        told += [f"on {' and '.join(self.computers)}" if self.computers else "", ", ".join(self.engines)]
        return f"{self.arrow} {self.part}: {', '.join(filter(None, told)) or 'not noted'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRecord:
    """A model of a system."""

    part: str
    """`rewriter`, `retriever` or `reranker`."""

    name: str
    """The name of its row."""

    model: str
    """The checkpoint, the service's model, or the encoder of a reranker."""

    revision: str = ""
    billions: float | None = None
    """Billions of parameters outside the embeddings; None if the row doesn't say it."""

    dimension: int | None = None
    """Size of its vectors; None for a model that makes no vectors of one text each."""

    license: str = ""
    on_hub: bool = False
    """Whether `model` is a repository of the Hugging Face Hub."""
