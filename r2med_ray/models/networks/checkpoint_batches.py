"""Runs texts through a checkpoint of sentence-transformers, in micro-batches of a token budget.

Tokens, masks and query expansion are the checkpoint's own; `token_budget` decides which texts go together.

Shape letters: B texts of a block or a micro-batch, T tokens of the longest one.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from r2med_ray.cuts import CutCounter, Side, SideCuts
from r2med_ray.errors import ConfigError
from r2med_ray.models.catalog.checkpoints import SIDES, CheckpointRow
from r2med_ray.models.catalog.devices import BatchLimits
from r2med_ray.models.networks.checkpoints import longest_input, require_plain_text
from r2med_ray.models.networks.passes import run_batches
from r2med_ray.models.networks.token_sentences import token_sentences
from r2med_ray.models.networks.tokens import lost_of_full
from r2med_ray.models.networks.told import tell_texts

TEXTS_PER_BLOCK = 1024
"""Texts that are tokenised at once. Each text is padded to the length of the longest."""

Take: TypeAlias = Callable[[list[int], Mapping[str, Any]], None]
"""A function that is given the positions of a micro-batch's texts, and the checkpoint's output for these texts; maybe
in several threads at once."""


class CheckpointBatches:
    """Runs texts through a checkpoint. On a CPU each text goes alone; elsewhere the same texts give the same
    micro-batches.

    Args:
        row: how the checkpoint is used.
        model: a `SparseEncoder` or `MultiVectorEncoder` in evaluation mode.
        limits: the limits on a forward pass.

    Raises:
        ConfigError: the checkpoint reads chat messages, or has no route for queries or documents.
    """

    def __init__(self, row: CheckpointRow, model: Any, limits: BatchLimits) -> None:
        self._model = model
        self._limits = limits
        self._cuts = CutCounter()
        self._inputs = inputs = {side: _input_module(row, model, side) for side in SIDES}
        for module in inputs.values():
            module.tokenizer.padding_side = "right"
        self._prompts = {"query": row.query_prompt, "document": row.document_prompt}
        self._max_lengths: dict[Side, int | None] = {
            "query": _query_length(row, inputs["query"]),
            "document": min(row.max_length, _longest(inputs["document"])),
        }
        self._reads = {side: _reads(inputs[side], side, self._max_lengths[side]) for side in SIDES}

    def run(self, texts: Sequence[str], side: Side, take: Take) -> None:
        """Give `take` every text once, in micro-batches.

        Raises:
            DataError: a single text doesn't fit into memory.
        """
        for start in range(0, len(texts), TEXTS_PER_BLOCK):
            self._run_block(texts[start : start + TEXTS_PER_BLOCK], start, side, take)

    def sentences(self, side: Side, text: str, ids_T: Sequence[int]) -> npt.NDArray[np.int32]:
        """Return the number of the sentence of each token of a text that has been run; see `token_sentences`."""
        return token_sentences(self._inputs[side].tokenizer, self._prompt(side) or "", text, ids_T)

    def take_cuts(self) -> SideCuts:
        """Return what was cut since the last call."""
        return self._cuts.take()

    def _prompt(self, side: Side) -> str | None:
        prompt = self._prompts[side]
        named: str | None = self._model.prompts.get(side) if prompt is None else prompt
        return named

    def _run_block(self, texts: Sequence[str], start: int, side: Side, take: Take) -> None:
        import torch

        prompt = self._prompt(side)
        features = self._model.preprocess(list(texts), prompt=prompt, task=side, max_length=self._max_lengths[side])
        read_BT = features["attention_mask"].bool()
        own_BT = read_BT
        if "query_expansion_positions" in features:
            filled_BT = features["query_expansion_positions"].bool()
            read_BT, own_BT = read_BT | filled_BT, read_BT & ~filled_BT
        whole = [(prompt or "") + text for text in texts]
        lost = self._note_cuts(side, whole, own_BT.sum(dim=1).tolist())

        def ids_of(at: int) -> list[int]:
            ids: list[int] = features["input_ids"][at][read_BT[at]].tolist()
            return ids

        tell_texts(side, self._inputs[side].tokenizer, whole, ids_of, lost, self._reads[side], prompt=prompt or "")
        lengths_B = read_BT.sum(dim=1).tolist()

        def forward(batch: list[int]) -> None:
            longest = max(lengths_B[position] for position in batch)
            of_batch = {
                name: value[batch, :longest].to(self._model.device) if isinstance(value, torch.Tensor) else value
                for name, value in features.items()
            }
            take([start + position for position in batch], self._model(of_batch, task=side))

        run_batches(lengths_B, self._limits, forward)

    def _note_cuts(self, side: Side, texts: Sequence[str], kept: Sequence[int]) -> list[int]:
        """Count what was cut off each text, and return it.

        `kept` are the tokens of each text itself, without those that fill it up.
        """
        module, longest = self._inputs[side], self._reads[side]
        # A table of weights reads no special tokens.
        lost = lost_of_full(module.tokenizer, kept, texts, longest, special=hasattr(module, "model"))
        self._cuts.note(side, kept, lost, longest)
        return lost


def _input_module(row: CheckpointRow, model: Any, side: Side) -> Any:
    """Return the module that reads one side's texts."""
    from sentence_transformers.base.modules import Router, Transformer

    module: Any = model[0]
    if isinstance(module, Router):
        routes: Any = module.sub_modules
        if side not in routes:
            raise ConfigError(f"model {row.name!r} has no route for a {side}, only {', '.join(routes)}")
        module = routes[side][0]
    if isinstance(module, Transformer):
        require_plain_text(module, row.name)
    return module


def _longest(module: Any) -> int:
    """Return the most tokens that an input module reads. A module that only looks weights up has no such limit."""
    if hasattr(module, "model"):
        return longest_input(module.tokenizer, module.model)
    return int(module.tokenizer.model_max_length)


def _reads(module: Any, side: Side, max_length: int | None) -> int:
    """Return the most tokens that an input module keeps of one side's texts, when it is asked for `max_length`."""
    if not hasattr(module, "model"):  # it heeds nothing but its tokenizer
        return _longest(module)
    expansion = getattr(module, "query_expansion", None) if side == "query" else None
    return max(max_length or 0, expansion["length"] if expansion is not None else 0)


def _query_length(row: CheckpointRow, module: Any) -> int | None:
    """Return how many tokens of a query are kept; None if the checkpoint fills every query up to a fixed length."""
    expansion = getattr(module, "query_expansion", None)
    if expansion is not None and expansion["strategy"] == "fixed":
        if row.query_max_length:
            module.query_length = None
            module.query_expansion = {**expansion, "length": min(row.query_max_length, _longest(module))}
        return None
    wanted = row.query_max_length or getattr(module, "query_length", None)
    return min(wanted, _longest(module)) if wanted else _longest(module)
