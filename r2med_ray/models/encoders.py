"""Encoders: texts to vectors, in token-budget micro-batches.

Shape letters: Q queries, B texts of a call, D embedding size, T tokens of one text.
"""

from collections.abc import Callable, Sequence

from r2med_ray.errors import ConfigError, DataError
from r2med_ray.models.devices import Dtype, batch_limits, best_device
from r2med_ray.models.networks import Features, Network, load_network
from r2med_ray.models.rows import EncoderRow, Prompts, prompts_for
from r2med_ray.models.token_budget import pad, plan_batches, run_batches
from r2med_ray.types import Document, FloatMatrix


class TransformerEncoder:
    """Embeds texts with one checkpoint.

    Texts are tokenised once and grouped by length. The same list of texts gives the same bytes, for the same number
    of threads; in another list a text's vector may differ in the last bits.

    Args:
        row: how the checkpoint is used.
        network: the checkpoint.
        prompts: what stands before queries and documents.
        token_budget: most padded tokens of a forward pass.

    Raises:
        ConfigError: the row wants an end token and the tokenizer has none.
    """

    def __init__(self, row: EncoderRow, network: Network, prompts: Prompts, token_budget: int) -> None:
        self._network = network
        self._prompts = prompts
        self._limits = batch_limits(network.device, token_budget)
        self._unit_length = row.similarity == "cosine"
        self._max_length = min(row.max_length, network.max_length)
        self._query_max_length = min(row.query_max_length or row.max_length, network.max_length)
        self._missing_end = _missing_end(row, network)

    @property
    def dim(self) -> int:
        return self._network.dim

    def encode_queries(self, texts: Sequence[str]) -> FloatMatrix:
        """Return float32 of shape (Q, D), row i for texts[i] after the query prompt."""
        return self._encode([self._prompts.query + text for text in texts], self._query_max_length)

    def encode_documents(self, documents: Sequence[Document]) -> FloatMatrix:
        """Return float32 of shape (B, D), row i for documents[i] after the document prompt."""
        return self._encode([self._prompts.document + document.content for document in documents], self._max_length)

    def encode_plain(self, texts: Sequence[str]) -> FloatMatrix:
        """Return float32 of shape (B, D), row i for texts[i] and nothing before it."""
        return self._encode(texts, self._max_length)

    def token_vectors(self, texts: Sequence[str], prompt: str = "") -> list[FloatMatrix]:
        """Return a float32 matrix of shape (T, hidden size) per text: its tokens' last states, with unit length.

        Special tokens and the prompt's tokens are among them.
        """
        import torch

        tokens = self._tokenize([prompt + text for text in texts], self._max_length)
        states_of: dict[int, FloatMatrix] = {}

        def forward(batch: list[int]) -> None:
            states_BTD = self._network.token_vectors(self._features([tokens[position] for position in batch]))
            states = torch.nn.functional.normalize(states_BTD.float(), dim=-1).cpu().numpy()
            for position, states_TD in zip(batch, states, strict=True):
                states_of[position] = states_TD[: len(tokens[position])]

        self._run(tokens, forward)
        return [states_of[position] for position in range(len(tokens))]

    def _encode(self, texts: Sequence[str], max_length: int) -> FloatMatrix:
        import torch

        tokens = self._tokenize(texts, max_length)
        vectors_BD = torch.empty((len(texts), self.dim), dtype=torch.float32, device=self._network.device)

        def forward(batch: list[int]) -> None:
            vectors = self._network.text_vectors(self._features([tokens[position] for position in batch]))
            vectors_BD[batch] = torch.nn.functional.normalize(vectors) if self._unit_length else vectors

        self._run(tokens, forward)
        encoded: FloatMatrix = vectors_BD.cpu().numpy()
        return encoded

    def _run(self, tokens: Sequence[Sequence[int]], forward: Callable[[list[int]], None]) -> None:
        import torch

        with torch.inference_mode():
            run_batches(plan_batches([len(row) for row in tokens], self._limits), forward)

    def _tokenize(self, texts: Sequence[str], max_length: int) -> list[list[int]]:
        if not texts:
            return []
        kept = max_length - len(self._missing_end)
        encoded = self._network.tokenizer(list(texts), truncation=True, max_length=kept, return_attention_mask=False)
        tokens = [row + self._missing_end for row in encoded["input_ids"]]
        for position, row in enumerate(tokens):
            if not row:
                raise DataError(f"the text at position {position} of the batch has no tokens: {texts[position]!r}")
        return tokens

    def _features(self, tokens: Sequence[Sequence[int]]) -> Features:
        import torch

        padding = self._network.tokenizer.pad_token_id or 0
        features = {"input_ids": pad(tokens, padding), "attention_mask": pad([[1] * len(row) for row in tokens], 0)}
        return {name: torch.from_numpy(values).to(self._network.device) for name, values in features.items()}


def build_encoder(
    row: EncoderRow, *, task: str, device: str = "auto", dtype: Dtype | None = None, token_budget: int = 16_384
) -> TransformerEncoder:
    """Load the encoder of a row.

    Args:
        row: from the catalogue.
        task: name of the task, which may choose the instruction.
        device: `cpu`, `cuda`, `cuda:1`, ..., or `auto`.
        dtype: overrides the row's; None keeps it.
        token_budget: most padded tokens of a forward pass; a CPU takes no more than `devices.CPU_TOKENS`.

    Raises:
        ConfigError, DataError: the checkpoint isn't there or doesn't fit its row.
    """
    device = best_device() if device == "auto" else device
    network = load_network(row, device, dtype or row.resolved_dtype(device))
    return TransformerEncoder(row, network, prompts_for(row, task), token_budget)


def _missing_end(row: EncoderRow, network: Network) -> list[int]:
    """Return the end token in a list if the row wants one that the tokenizer doesn't write by itself."""
    end = network.tokenizer.eos_token_id
    if not row.append_eos:
        return []
    if end is None:
        raise ConfigError(f"encoder {row.name!r}: `append_eos`, and its tokenizer has no end token")
    return [] if network.tokenizer("a")["input_ids"][-1] == end else [end]
