"""A checkpoint in memory: its tokenizer, and tensors of token ids to tensors of vectors.

Shape letters: B texts of a micro-batch, T tokens of the longest one, D embedding size.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from r2med_ray.errors import ConfigError
from r2med_ray.models.devices import Dtype
from r2med_ray.models.pooling import POOLINGS
from r2med_ray.models.rows import EncoderRow
from r2med_ray.models.sources import locate

if TYPE_CHECKING:
    from torch import Tensor, nn

Features: TypeAlias = Mapping[str, "Tensor"]
"""`input_ids`, `attention_mask` and what else the tokenizer gives: int64 of shape (B, T)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A loaded encoder."""

    tokenizer: Any
    """A fast tokenizer of transformers."""

    text_vectors: Callable[[Features], "Tensor"]
    """To float32 of shape (B, D), of whatever length the checkpoint gives them."""

    token_vectors: Callable[[Features], "Tensor"]
    """To the last hidden states, shape (B, T, hidden size)."""

    dim: int
    max_length: int
    """Most tokens that tokenizer and positions allow."""

    device: str


def load_network(row: EncoderRow, device: str, dtype: Dtype) -> Network:
    """Load an encoder's checkpoint for inference.

    Raises:
        ConfigError, DataError: see `sources.locate`; or `pooling: model` doesn't fit the checkpoint.
    """
    folder = locate(row.model, row.revision)
    load = _sentence_transformer if row.pooling == "model" else _backbone
    return load(folder, row, device, dtype)


def _backbone(folder: Path, row: EncoderRow, device: str, dtype: Dtype) -> Network:
    from transformers import AutoModel, AutoTokenizer

    trust = row.trust_remote_code
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=trust)
    model = AutoModel.from_pretrained(folder, dtype=dtype, trust_remote_code=trust).to(device).eval()
    model.config.use_cache = False  # a causal model would keep the keys and values of every layer
    pool = POOLINGS[row.pooling]

    def token_vectors(features: Features) -> "Tensor":
        states: Tensor = model(**features).last_hidden_state
        return states

    return Network(
        tokenizer=tokenizer,
        text_vectors=lambda features: pool(token_vectors(features).float(), features["attention_mask"]),
        token_vectors=token_vectors,
        dim=model.config.hidden_size,
        max_length=longest_input(tokenizer, model),
        device=device,
    )


def _sentence_transformer(folder: Path, row: EncoderRow, device: str, dtype: Dtype) -> Network:
    from sentence_transformers import SentenceTransformer

    if not (folder / "modules.json").is_file():
        raise ConfigError(
            f"encoder {row.name!r}: `pooling: model` needs a checkpoint of sentence-transformers, and {folder} "
            f"has no modules.json; give `pooling: mean`, `cls` or `last`"
        )
    model: Any = SentenceTransformer(
        str(folder), device=device, trust_remote_code=row.trust_remote_code, model_kwargs={"dtype": dtype}
    ).eval()
    if not all(getattr(module, "include_prompt", True) for module in model):
        raise ConfigError(f"encoder {row.name!r}: its checkpoint pools without the prompt, which is not supported")
    require_plain_text(model[0], row.name)
    return Network(
        tokenizer=model.tokenizer,
        text_vectors=lambda features: model(dict(features))["sentence_embedding"].float(),
        token_vectors=lambda features: model[0](dict(features))["token_embeddings"],
        dim=int(model.get_embedding_dimension() or model[0].get_embedding_dimension()),
        max_length=longest_input(model.tokenizer, model[0].model),
        device=device,
    )


def require_plain_text(module: Any, name: str) -> None:
    """Refuse a checkpoint of sentence-transformers that reads chat messages, which this package doesn't write."""
    if "message" in module.modality_config:
        raise ConfigError(f"model {name!r} reads chat messages instead of texts, which is not supported")


def longest_input(tokenizer: Any, model: "nn.Module") -> int:
    """Return the most tokens that a tokenizer lets through and a model has positions for.

    RoBERTa, XLM-R and MPNet count positions from behind the padding token's, so those before it are lost.
    """
    from torch import nn

    limit: int = getattr(model.config, "max_position_embeddings", tokenizer.model_max_length)
    for name, module in model.named_modules():
        if isinstance(module, nn.Embedding) and name.endswith("position_embeddings"):
            limit = module.num_embeddings - (0 if module.padding_idx is None else module.padding_idx + 1)
    longest: int = min(limit, tokenizer.model_max_length)
    return longest
