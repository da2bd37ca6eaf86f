"""vLLM's pooling runner as the network of an encoder.

The engine runs in the process of the encoder, and is given the tokens that this package has cut. In a process of
its own, its scheduler would put together what happens to have arrived, and the last bits of a vector depend on the
texts that share a matrix product. Here, the same list of texts gives the same bytes. For the same reason, nothing is
kept of the beginnings of texts that went before.

Shape letters: B texts of a batch, D embedding size.
"""

import gc
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from r2med_ray.errors import ConfigError
from r2med_ray.models.catalog import vllm
from r2med_ray.models.catalog.devices import Dtype, Share
from r2med_ray.models.catalog.encoders import EncoderRow
from r2med_ray.models.catalog.vllm_pooling import Pooled, pooled_by_vllm, where
from r2med_ray.models.networks.checkpoints import Features, Network, longest_input

if TYPE_CHECKING:
    from torch import Tensor

SHARE_OF_MEMORY = 0.9
"""Part of a GPU's memory that an engine with the whole GPU takes."""

GIB = 2**30
_SETTINGS = {**vllm.PRIVATE, "VLLM_ENABLE_V1_MULTIPROCESSING": "0"}
_RUNNING: "weakref.WeakSet[Any]" = weakref.WeakSet()
"""The engine of this process. It ends, and gives its memory back, when nothing refers to it."""


def load_pooling_engine(folder: Path, row: EncoderRow, device: str, dtype: Dtype, share: Share) -> Network:
    """Start an engine for a row's checkpoint in this process.

    Raises:
        ConfigError: vLLM isn't installed, is built for another device, doesn't compute what the row describes, or
            can't start with the checkpoint; or another engine runs in this process.
    """
    import torch
    from transformers import AutoConfig, AutoModel, AutoTokenizer

    pooled = pooled_by_vllm(row, folder)
    tokenizer: Any = AutoTokenizer.from_pretrained(folder)
    if pooled.max_length:
        tokenizer.model_max_length = pooled.max_length
    config = AutoConfig.from_pretrained(folder)
    build: Any = AutoModel.from_config
    with torch.device("meta"):
        longest = longest_input(tokenizer, build(config))
    most = min(max(row.max_length, row.query_max_length or 0), longest)
    engine = _started(folder, row, device, pooled, share, {"dtype": dtype, "max_model_len": most})

    def text_vectors(features: Features, prompt_tokens: int) -> "Tensor":
        lengths_B = features["attention_mask"].sum(dim=1).tolist()
        rows = zip(features["input_ids"].tolist(), lengths_B, strict=True)
        prompts = [{"prompt_token_ids": ids[:length]} for ids, length in rows]
        answers = engine.encode(prompts, pooling_task="embed", use_tqdm=False)
        vectors_BD = torch.stack([answer.outputs.data for answer in answers]).float()
        return torch.nn.functional.normalize(vectors_BD) if pooled.unit_length else vectors_BD

    def token_vectors(features: Features) -> "Tensor":
        raise ConfigError(f"{where(row)} gives vectors of whole texts only; leave `engine` out")

    return Network(
        tokenizer=tokenizer,
        text_vectors=text_vectors,
        token_vectors=token_vectors,
        dim=config.hidden_size,
        max_length=longest,
        device="cpu",  # takes the tokens; the engine moves them
        packs=True,
    )


def _started(
    folder: Path, row: EncoderRow, device: str, pooled: Pooled, share: Share, settings: dict[str, Any]
) -> Any:
    """Return a `vllm.LLM` of a checkpoint.

    Raises:
        ConfigError: see `load_pooling_engine`.
    """
    gc.collect()
    if _RUNNING:
        raise ConfigError(
            f"{where(row)} can't start, because the engine of another encoder runs in this process; take one of them "
            f"to another process, or leave `engine` out"
        )
    with _surroundings():
        try:
            from vllm import LLM
            from vllm.config import PoolerConfig
            from vllm.platforms import current_platform
        except ImportError as error:
            raise ConfigError(f"{where(row)} needs vLLM on every worker ({error}): {vllm.HOW_TO_GET}") from error
        if current_platform.device_type != device:
            raise ConfigError(
                f"{where(row)} computes on {device!r} here, and this vLLM is built for "
                f"{current_platform.device_type!r}: {vllm.HOW_TO_GET}"
            )
        try:
            engine = LLM(
                model=str(folder),
                runner="pooling",
                convert="embed",
                pooler_config=PoolerConfig(seq_pooling_type=pooled.pooling.upper(), use_activation=False),
                load_format="auto" if row.allow_pickle else "safetensors",
                max_num_batched_tokens=max(share.token_budget, settings["max_model_len"]),
                enable_prefix_caching=False,
                distributed_executor_backend="uni",
                **memory_of(device, share),
                **settings,
            )
        except (ValueError, RuntimeError, NotImplementedError) as error:
            raise ConfigError(f"{where(row)} can't start with {folder}: {error}") from error
    _RUNNING.add(engine)
    weakref.finalize(engine, engine.llm_engine.engine_core.shutdown).atexit = False
    return engine


def memory_of(device: str, share: Share) -> dict[str, Any]:
    """Return how much memory an engine takes. On a CPU, it compiles nothing, which would take minutes."""
    if device == "cuda":
        return {"gpu_memory_utilization": SHARE_OF_MEMORY * min(share.gpus, 1.0)}
    return {"kv_cache_memory_bytes": share.kv_cache_gib * GIB, "enforce_eager": True}


@contextmanager
def _surroundings() -> Iterator[None]:
    """Give vLLM its environment variables, and undo what it changes in the process: those of others, and torch."""
    import torch

    environment, set_num_threads = dict(os.environ), torch.set_num_threads
    os.environ.update(_SETTINGS)
    try:
        yield
    finally:
        torch.set_num_threads = set_num_threads
        os.environ.clear()
        os.environ.update(environment)
