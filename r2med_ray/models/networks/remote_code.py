"""Encoders whose checkpoint brings its own code, such as NV-Embed.

Shape letters: Q queries, B texts of a call, D embedding size.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from r2med_ray.cuts import CutCounter, Side, SideCuts
from r2med_ray.errors import ConfigError
from r2med_ray.models.catalog.devices import Dtype, batch_limits
from r2med_ray.models.catalog.encoders import EncoderRow, Prompts
from r2med_ray.models.catalog.sources import locate
from r2med_ray.models.networks.checkpoints import load_model
from r2med_ray.models.networks.passes import embed_batches
from r2med_ray.models.networks.tokens import lost_tokens
from r2med_ray.models.networks.told import tell_texts
from r2med_ray.types import Document, FloatMatrix

if TYPE_CHECKING:
    from torch import Tensor

OWN_CODE = "the checkpoint's own code reads the text; these are the tokens of the tokenizer beside it"


class RemoteCodeEncoder:
    """Embeds texts with a checkpoint's own `encode(texts, instruction, max_length)`. The instruction is the prompt.

    Args:
        row: how the checkpoint is used.
        model: the checkpoint, which tokenises texts itself.
        tokenizer: counts tokens for the micro-batches.
        prompts: the instructions for queries and documents.
        token_budget: most padded tokens of a call of `encode`.
    """

    def __init__(self, row: EncoderRow, model: Any, tokenizer: Any, prompts: Prompts, token_budget: int) -> None:
        self._row = row
        self._model = model
        self._tokenizer = tokenizer
        self._prompts = prompts
        self._limits = batch_limits(str(model.device), token_budget, stateless=False)
        self._cuts = CutCounter()

    @property
    def dim(self) -> int:
        return int(self._model.config.hidden_size)

    def encode_queries(self, texts: Sequence[str]) -> FloatMatrix:
        """Return float32 of shape (Q, D): row i is the vector of texts[i] with the query prompt."""
        max_length = self._row.query_max_length or self._row.max_length
        return self._encode(texts, self._prompts.query, max_length, "query")

    def encode_documents(self, documents: Sequence[Document]) -> FloatMatrix:
        """Return float32 of shape (B, D): row i is the vector of documents[i] with the document prompt."""
        texts = [document.content for document in documents]
        return self._encode(texts, self._prompts.document, self._row.max_length, "document")

    def encode_plain(self, texts: Sequence[str]) -> FloatMatrix:
        """Return float32 of shape (B, D): row i is the vector of texts[i] without a prompt."""
        return self._encode(texts, "", self._row.max_length, "query")

    def take_cuts(self) -> SideCuts:
        """Return what was cut since the last call, as the tokenizer counts it."""
        return self._cuts.take()

    def _encode(self, texts: Sequence[str], instruction: str, max_length: int, side: Side) -> FloatMatrix:
        def vectors_of(batch: list[int]) -> "Tensor":
            vectors: Tensor = self._model.encode(
                [texts[position] for position in batch], instruction=instruction, max_length=max_length
            )
            return vectors

        return embed_batches(
            self._lengths([instruction + text for text in texts], instruction, max_length, side),
            self._limits,
            vectors_of,
            dim=self.dim,
            unit_length=self._row.similarity == "cosine",
        )

    def _lengths(self, texts: list[str], instruction: str, max_length: int, side: Side) -> list[int]:
        if not texts:
            return []
        tokens = self._tokenizer(texts, truncation=True, max_length=max_length)
        kept = [len(ids) for ids in tokens["input_ids"]]
        lost = lost_tokens(self._tokenizer, tokens, texts, None, max_length)
        self._cuts.note(side, kept, lost, max_length)
        tell_texts(
            side,
            self._tokenizer,
            texts,
            tokens["input_ids"].__getitem__,
            lost,
            max_length,
            prompt=instruction,
            remarks=(OWN_CODE,),
        )
        return kept


def load_remote_code(
    row: EncoderRow, device: str, dtype: Dtype, *, token_budget: int
) -> Callable[[Prompts], RemoteCodeEncoder]:
    """Load a checkpoint together with its code, and return a function that makes its encoder for any prompts.

    Raises:
        ConfigError, DataError: the checkpoint isn't there or doesn't fit its row, or its code has no `encode`.
    """
    from transformers import AutoTokenizer

    folder = locate(row.model, row.revision)
    model = load_model(folder, row, dtype).to(device).eval()
    if not hasattr(model, "encode"):
        raise ConfigError(f"encoder {row.name!r}: {type(model).__name__} has no `encode`; give another `pooling`")
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
    return lambda prompts: RemoteCodeEncoder(row, model, tokenizer, prompts, token_budget)
