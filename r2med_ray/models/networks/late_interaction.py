"""Late interaction encoders: networks that turn a text into one vector per token.

Queries are filled up and documents are masked as in the checkpoint's training. sentence-transformers reads from the
checkpoint how this is done: ColBERT's markers, queries that are filled up with [MASK], documents without punctuation
(Khattab and Zaharia 2020, arXiv 2004.12832). The library knows Stanford's checkpoints and PyLate's.

Shape letters: T tokens of a text, D size of a token's vector.
"""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from r2med_ray.cuts import Side, SideCuts
from r2med_ray.errors import ConfigError
from r2med_ray.models.catalog.checkpoints import LateInteractionRow
from r2med_ray.models.catalog.devices import batch_limits
from r2med_ray.models.catalog.sources import locate
from r2med_ray.models.networks.checkpoint_batches import CheckpointBatches
from r2med_ray.models.networks.checkpoints import NOT_READ
from r2med_ray.models.networks.loading import load_whole
from r2med_ray.models.networks.passes import is_stateless
from r2med_ray.types import Document

TokenVectors: TypeAlias = npt.NDArray[np.float16]


class LateInteractionEncoder:
    """Gives each token of a text a vector of unit length. Queries and documents use one checkpoint.

    Args:
        row: how the checkpoint is used.
        device: `cpu`, `cuda`, ...
        token_budget: most padded tokens of a forward pass.

    Raises:
        ConfigError, DataError: the checkpoint isn't there or doesn't fit its row.
    """

    def __init__(self, row: LateInteractionRow, *, device: str, token_budget: int) -> None:
        load = partial(_load, row, locate(row.model, row.revision), device)
        model = load_whole(f"model {row.name!r}", load, may_lack=NOT_READ, allow_pickle=row.allow_pickle)
        limits = batch_limits(device, token_budget, stateless=is_stateless(model))
        self._batches = CheckpointBatches(row, model, limits)

    def encode_queries(self, texts: Sequence[str]) -> list[TokenVectors]:
        """Return float16 of shape (T, D) per text: the text's tokens, and the tokens that fill it up."""
        return self._encode(texts, "query")

    def encode_documents(self, documents: Sequence[Document]) -> list[TokenVectors]:
        """Return float16 of shape (T, D) per document: its tokens, without the tokens that the checkpoint masks."""
        return self._encode([document.content for document in documents], "document")

    def encode_sentences(self, documents: Sequence[Document]) -> list[tuple[TokenVectors, npt.NDArray[np.int32]]]:
        """Return what `encode_documents` does, each with the number of the sentence of each token, shape (T,)."""
        texts = [document.content for document in documents]
        ids_of: dict[int, list[int]] = {}
        vectors = self._encode(texts, "document", ids_of)
        return [
            (vectors_TD, self._batches.sentences("document", text, ids_of[position]))
            for position, (text, vectors_TD) in enumerate(zip(texts, vectors, strict=True))
        ]

    def take_cuts(self) -> SideCuts:
        """Return what was cut since the last call."""
        return self._batches.take_cuts()

    def _encode(
        self, texts: Sequence[str], side: Side, ids_of: dict[int, list[int]] | None = None
    ) -> list[TokenVectors]:
        """Return the vectors of each text. `ids_of` gets the ids of the tokens that they are of, by position."""
        vectors_of: dict[int, TokenVectors] = {}

        def take(batch: list[int], output: Mapping[str, Any]) -> None:
            masks = output["attention_mask"].bool()
            for position, tokens_TD, mask_T in zip(batch, output["token_embeddings"], masks, strict=True):
                vectors_of[position] = tokens_TD[mask_T].half().cpu().numpy()
            if ids_of is not None:
                for position, ids_T, mask_T in zip(batch, output["input_ids"], masks, strict=True):
                    ids_of[position] = ids_T[mask_T].tolist()

        self._batches.run(texts, side, take)
        return [vectors_of[position] for position in range(len(texts))]


def _load(row: LateInteractionRow, folder: Path, device: str) -> Any:
    from sentence_transformers import MultiVectorEncoder
    from sentence_transformers.base.modules import Normalize, Transformer
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

    dtype = {"dtype": row.resolved_dtype(device)}
    trust = row.trust_remote_code
    if row.projection == "none":
        trusted = {"trust_remote_code": trust, "local_files_only": True}
        states = Transformer(
            str(folder), model_kwargs=dtype | trusted, config_kwargs=trusted, processor_kwargs=trusted
        )
        modules = [states, MultiVectorMask(), Normalize(module_input_name="token_embeddings")]
        return MultiVectorEncoder(modules=modules, device=device).eval()
    if not _is_late_interaction(folder):
        raise ConfigError(
            f"model {row.name!r}: {folder} has no projection layer, so it was not trained for late interaction. "
            "With `projection: none` the last hidden states of its tokens are the vectors"
        )
    return MultiVectorEncoder(
        str(folder), device=device, trust_remote_code=trust, model_kwargs=dtype, local_files_only=True
    ).eval()


def _is_late_interaction(folder: Path) -> bool:
    """Return whether a checkpoint has a projection. If not, sentence-transformers would make a random one."""
    settings = _json(folder / "config_sentence_transformers.json", {})
    modules = _json(folder / "modules.json", [])
    return (
        "HF_ColBERT" in (_json(folder / "config.json", {}).get("architectures") or ())
        or settings.get("model_type") in ("MultiVectorEncoder", "ColBERT")
        or any(module["type"].endswith(".Dense") for module in modules)
    )


def _json(path: Path, default: Any) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else default
