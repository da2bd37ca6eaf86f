"""Encoders: networks that turn texts into vectors, each text alone on a CPU, in micro-batches on a GPU.

Shape letters: Q queries, B texts of a call, D embedding size, T tokens of one text.
"""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from r2med_ray.cuts import CutCounter, Side, SideCuts
from r2med_ray.errors import ConfigError
from r2med_ray.models.catalog.devices import BatchLimits, Dtype, Share, batch_limits, best_device, packed_limits
from r2med_ray.models.catalog.encoders import EncoderRow, Prompts, prompts_for
from r2med_ray.models.networks.checkpoints import Network, load_network
from r2med_ray.models.networks.passes import embed_batches, run_batches
from r2med_ray.models.networks.token_sentences import sentences_behind
from r2med_ray.models.networks.tokens import (
    Tokens,
    count_prompt_tokens,
    features,
    lengths,
    missing_end,
    spans,
    tokenize,
)
from r2med_ray.models.networks.told import tell_texts
from r2med_ray.types import Document, FloatMatrix


class TransformerEncoder:
    """Embeds texts with one checkpoint, or with one for queries and one for documents.

    Texts are tokenised once. On a CPU, a vector depends on its text alone, to the last bit. On a GPU, texts are
    grouped by length, and the same list of texts gives the same bytes; in another list, the last bits may differ.

    Args:
        row: how the checkpoint is used.
        network: the checkpoint.
        prompts: the texts that are put before queries and documents.
        token_budget: most padded tokens of a forward pass.
        documents: the checkpoint that reads documents; None if `network` reads them.

    Raises:
        ConfigError: the row wants an end token and the tokenizer has none, or the two checkpoints don't fit together.
    """

    def __init__(
        self,
        row: EncoderRow,
        network: Network,
        prompts: Prompts,
        token_budget: int,
        documents: Network | None = None,
    ) -> None:
        self._row = row
        self._queries = network
        self._documents = documents or network
        self._prompts = prompts
        self._limits = _limits(network, self._documents, token_budget)
        self._end = missing_end(row, network)
        self._cuts = CutCounter()
        if self._documents.dim != network.dim:
            raise ConfigError(
                f"encoder {row.name!r}: {row.model} gives {network.dim} components and {row.document_model} "
                f"{self._documents.dim}; they must agree"
            )

    @property
    def dim(self) -> int:
        return self._queries.dim

    def encode_queries(self, texts: Sequence[str]) -> FloatMatrix:
        """Return float32 of shape (Q, D): row i is the vector of texts[i] after the query prompt."""
        prompt, max_length = self._prompts.query, self._row.query_max_length or self._row.max_length
        tokens = self._tokens(self._queries, "query", prompt, texts, max_length)
        return self._encode(self._queries, tokens, prompt)

    def encode_documents(self, documents: Sequence[Document]) -> FloatMatrix:
        """Return float32 of shape (B, D): row i is the vector of documents[i] after the document prompt."""
        prompt, as_pair = self._prompts.document, self._row.document_as_pair
        texts = [document.title if as_pair else document.content for document in documents]
        seconds = [document.text for document in documents] if as_pair else None
        max_length = self._row.max_length
        tokens = self._tokens(self._documents, "document", prompt, texts, max_length, seconds=seconds)
        return self._encode(self._documents, tokens, prompt)

    def encode_plain(self, texts: Sequence[str]) -> FloatMatrix:
        """Return float32 of shape (B, D): row i is the vector of texts[i] without a prompt.

        The checkpoint for queries computes these vectors.
        """
        tokens = self._tokens(self._queries, "query", "", texts, self._row.max_length)
        return self._encode(self._queries, tokens, "")

    def take_cuts(self) -> SideCuts:
        """Return what was cut since the last call."""
        return self._cuts.take()

    def token_vectors(
        self, texts: Sequence[str], prompt: str = "", *, side: Side = "query", times: Sequence[int] | None = None
    ) -> list[FloatMatrix]:
        """Return the last states of each text's tokens, at unit length: float32 of shape (T, hidden size) per text.

        The states of special tokens and of the prompt's tokens are included. The checkpoint for queries computes all
        states.

        Args:
            texts: the texts.
            prompt: a text that is put before each of them.
            side: what the texts are, for the counts of what is cut.
            times: how often each text counts there; once if left out.
        """
        import torch

        network = self._queries
        tokens = self._tokens(network, side, prompt, texts, self._row.max_length, times=times)
        states_of: dict[int, FloatMatrix] = {}

        def forward(batch: list[int]) -> None:
            states_BTD = network.token_vectors(features(network, [tokens[position] for position in batch]))
            states = torch.nn.functional.normalize(states_BTD.float(), dim=-1).cpu().numpy()
            for position, states_TD in zip(batch, states, strict=True):
                states_of[position] = states_TD[: len(tokens[position]["input_ids"])]

        run_batches(lengths(tokens), self._limits, forward)
        return [states_of[position] for position in range(len(tokens))]

    def token_sentences(self, text: str, prompt: str = "") -> npt.NDArray[np.int32]:
        """Return the number of the sentence of each token that `token_vectors` returns of a text, shape (T,)."""
        return sentences_behind(
            prompt, text, spans(self._queries, prompt + text, self._row.max_length, end=self._end)
        )

    def _tokens(
        self,
        network: Network,
        side: Side,
        prompt: str,
        texts: Sequence[str],
        max_length: int,
        *,
        seconds: Sequence[str] | None = None,
        times: Sequence[int] | None = None,
    ) -> list[Tokens]:
        whole = [prompt + text for text in texts]

        def note(ids: Sequence[Sequence[int]], lost: Sequence[int], longest: int) -> None:
            self._cuts.note(side, [len(each) for each in ids], lost, longest, times)
            tell_texts(side, network.tokenizer, whole, ids.__getitem__, lost, longest, prompt=prompt, seconds=seconds)

        return tokenize(network, whole, max_length, seconds=seconds, end=self._end, note=note)

    def _encode(self, network: Network, tokens: Sequence[Tokens], prompt: str) -> FloatMatrix:
        prompt_tokens = count_prompt_tokens(network, prompt)
        return embed_batches(
            lengths(tokens),
            self._limits,
            lambda batch: network.text_vectors(features(network, [tokens[at] for at in batch]), prompt_tokens),
            dim=self.dim,
            unit_length=self._row.similarity == "cosine",
        )


def _limits(queries: Network, documents: Network, token_budget: int) -> BatchLimits:
    if queries.packs:
        return packed_limits(token_budget)
    return batch_limits(queries.device, token_budget, stateless=queries.stateless and documents.stateless)


def load_encoder(
    row: EncoderRow, device: str, dtype: Dtype, *, share: Share
) -> Callable[[Prompts], TransformerEncoder]:
    """Load the checkpoints of a row, and return a function that makes the row's encoder for any prompts.

    `share` has the most padded tokens of a forward pass, and what `engine: vllm` may take besides.

    Raises:
        ConfigError, DataError: a checkpoint isn't there or doesn't fit its row.
    """
    network = load_network(row, device, dtype, share)
    documents = load_network(row.of_documents(), device, dtype) if row.document_model else None
    return lambda prompts: TransformerEncoder(row, network, prompts, share.token_budget, documents)


def build_encoder(
    row: EncoderRow, *, task: str, device: str = "auto", dtype: Dtype | None = None, token_budget: int = 16_384
) -> TransformerEncoder:
    """Load the encoder of a row for one task.

    Args:
        row: a row of the catalogue.
        task: name of the task, which may have an instruction of its own.
        device: `cpu`, `cuda`, `cuda:1`, ..., or `auto`.
        dtype: overrides the row's dtype; None keeps the row's.
        token_budget: most padded tokens of a forward pass; on a CPU a text is a pass of its own.

    Raises:
        ConfigError, DataError: see `load_encoder`.
    """
    device = best_device() if device == "auto" else device
    share = Share(token_budget=token_budget)
    load = load_encoder(row, device, dtype or row.resolved_dtype(device), share=share)
    return load(prompts_for(row, task))
