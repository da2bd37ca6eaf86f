"""Sparse encoders: networks that turn a text into weights of vocabulary entries.

The weight of an entry in SPLADE is the greatest log(1 + relu(logit)) over the tokens of a text (Formal et al. 2021,
arXiv 2109.10086). Some checkpoints read only documents with a network; the weights of a query's tokens come from a
table. sentence-transformers knows both kinds.

Shape letters: B texts of a call, V entries of the vocabulary.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r2med_ray.cuts import Side, SideCuts
from r2med_ray.errors import ConfigError
from r2med_ray.models.catalog.checkpoints import SparseRow
from r2med_ray.models.catalog.devices import BatchLimits, batch_limits
from r2med_ray.models.catalog.sources import locate
from r2med_ray.models.networks.checkpoint_batches import CheckpointBatches
from r2med_ray.models.networks.checkpoints import NOT_READ
from r2med_ray.models.networks.last_layers import last_layer, multiply_in_float32
from r2med_ray.models.networks.loading import load_whole
from r2med_ray.models.networks.passes import is_stateless
from r2med_ray.types import Document

if TYPE_CHECKING:
    from scipy.sparse import csr_array
    from torch import Tensor

LOGITS_AT_ONCE = 2**27
"""Most logits of one forward pass. A pass makes one logit per token and vocabulary entry. The logits take 0.5 GiB in
float32, and the activation takes as much again."""


class SparseEncoder:
    """Gives each text a sparse vector. Queries and documents use one checkpoint.

    Args:
        row: how the checkpoint is used.
        device: `cpu`, `cuda`, ...
        token_budget: most padded tokens of a forward pass; fewer if the vocabulary is large.

    Raises:
        ConfigError, DataError: the checkpoint isn't there or doesn't fit its row.
    """

    def __init__(self, row: SparseRow, *, device: str, token_budget: int) -> None:
        model = _load(row, locate(row.model, row.revision), device)
        _take_maximum_first(model)
        self._dims = {"query": row.query_max_active_dims, "document": row.max_active_dims}
        self._vocabulary = len(model.tokenizer)
        limits = batch_limits(device, token_budget, stateless=is_stateless(model))
        self._batches = CheckpointBatches(row, model, _with_few_logits(limits, self._vocabulary))

    def encode_queries(self, texts: Sequence[str]) -> "csr_array":
        """Return float32 of shape (B, V) with sorted indices: row i is the vector of texts[i]."""
        return self._encode(texts, "query")

    def encode_documents(self, documents: Sequence[Document]) -> "csr_array":
        """Return float32 of shape (B, V) with sorted indices: row i is the vector of documents[i]."""
        return self._encode([document.content for document in documents], "document")

    def take_cuts(self) -> SideCuts:
        """Return what was cut since the last call."""
        return self._batches.take_cuts()

    def _encode(self, texts: Sequence[str], side: Side) -> "csr_array":
        import numpy as np
        from scipy.sparse import csr_array, vstack
        from sentence_transformers.util import select_max_active_dims

        parts: list[tuple[list[int], csr_array]] = []

        def take(batch: list[int], output: Mapping[str, Any]) -> None:
            weights_BV = select_max_active_dims(output["sentence_embedding"], self._dims[side])
            parts.append((batch, csr_array(weights_BV.float().cpu().numpy())))

        self._batches.run(texts, side, take)
        if not parts:
            return csr_array((0, self._vocabulary))
        positions = [position for batch, _ in parts for position in batch]
        return vstack([rows for _, rows in parts], format="csr")[np.argsort(positions)]


def _load(row: SparseRow, folder: Path, device: str) -> Any:
    """Load a checkpoint whose weights of entries are computed in float32 from the logits on.

    In bfloat16, the weight of an entry has 8 digits, so many documents would have the same score for a short query.
    """
    from sentence_transformers import SparseEncoder as Checkpoint
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sparse_encoder.modules import SparseAutoEncoder

    owner = f"model {row.name!r}"
    dtype = row.resolved_dtype(device)

    def load() -> Any:
        return Checkpoint(
            str(folder),
            device=device,
            trust_remote_code=row.trust_remote_code,
            model_kwargs={"dtype": dtype},
            local_files_only=True,
        ).eval()

    model = load_whole(owner, load, may_lack=NOT_READ, allow_pickle=row.allow_pickle)
    settings = [path for name in ("modules.json", "router_config.json") for path in folder.rglob(name)]
    has_autoencoder = any("SparseAutoEncoder" in path.read_text(encoding="utf-8") for path in settings)
    for module in model.modules():
        if isinstance(module, SparseAutoEncoder) and not has_autoencoder:
            raise ConfigError(
                f"{owner}: {folder} is no sparse encoder, and sentence-transformers would give it random weights; a "
                f"sparse encoder has a masked language model, or modules of its own"
            )
        if isinstance(module, Transformer) and module.transformer_task == "fill-mask":
            layer = last_layer(module.model, module.model.config.vocab_size, dtype, owner)
            if layer is not None:
                multiply_in_float32(layer)
    return model


def _take_maximum_first(model: Any) -> None:
    """Let SPLADE's pooling take the maximum over tokens before the activation, not after it.

    The vectors are the same, because the activation rises with the logit. sentence-transformers activates every logit
    of every token; this takes as long as computing the logits.
    """
    from sentence_transformers.sparse_encoder.modules import SpladePooling

    for module in model.modules():
        if isinstance(module, SpladePooling) and module.pooling_strategy == "max":
            module.forward = partial(_pool_maximum, module.forward)  # type: ignore[method-assign]


def _pool_maximum(
    pool: Callable[[dict[str, "Tensor"]], dict[str, "Tensor"]], features: dict[str, "Tensor"]
) -> dict[str, "Tensor"]:
    logits_BTV, mask_BT = features["token_embeddings"], features["attention_mask"]
    logits_BTV[mask_BT == 0] = 0
    one_token = {"token_embeddings": logits_BTV.amax(dim=1, keepdim=True), "attention_mask": mask_BT[:, :1]}
    return {**features, "sentence_embedding": pool(one_token)["sentence_embedding"]}


def _with_few_logits(limits: BatchLimits, vocabulary: int) -> BatchLimits:
    most = max(1, min(limits.most, LOGITS_AT_ONCE // vocabulary))
    return limits._replace(most=most, few=min(limits.few, most))
