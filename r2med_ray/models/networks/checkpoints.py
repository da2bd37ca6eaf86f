"""Loads the checkpoint of an encoder: its tokenizer, and the functions that turn token ids into vectors.

Shape letters: B texts of a micro-batch, T tokens of the longest one, D embedding size.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from r2med_ray.errors import ConfigError
from r2med_ray.models.catalog.devices import Dtype, Share
from r2med_ray.models.catalog.encoders import EncoderRow
from r2med_ray.models.catalog.sources import locate
from r2med_ray.models.networks.loading import load_whole
from r2med_ray.models.networks.passes import is_stateless
from r2med_ray.models.networks.plain_modules import PlainModules, plain_modules
from r2med_ray.models.networks.pooling import POOLINGS, without_prompt

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

Features: TypeAlias = Mapping[str, "Tensor"]
"""`input_ids`, `attention_mask` and further keys of the tokenizer: int64 of shape (B, T), padded on the right."""


NOT_READ = ("pooler.",)
"""Beginnings of the names of weights that no network for token vectors reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A loaded encoder."""

    tokenizer: Any
    """A fast tokenizer of transformers."""

    text_vectors: Callable[[Features, int], "Tensor"]
    """Returns one vector per text, float32 of shape (B, D), with the length that the checkpoint gives the vector. The
    second argument is how many tokens a prompt takes at the start of each text. Some checkpoints leave these tokens
    out when they pool."""

    token_vectors: Callable[[Features], "Tensor"]
    """Returns the last hidden states, shape (B, T, hidden size)."""

    dim: int
    max_length: int
    """Most tokens that tokenizer and positions allow."""

    device: str
    packs: bool = False
    """Whether it computes texts of any lengths together without padding."""

    stateless: bool = False
    """Whether several passes can run at once; see `passes.is_stateless`."""


def load_network(row: EncoderRow, device: str, dtype: Dtype, share: Share = Share()) -> Network:  # noqa: B008
    """Load the checkpoint that reads a row's queries, for inference. `share` is for `engine: vllm` alone.

    Raises:
        ConfigError, DataError, OwnCodeError: the checkpoint isn't there (see `sources.locate`), isn't whole (see
            `loading.load_whole`), or doesn't fit its row.
    """
    if row.class_ or row.pooling == "encode":
        maker = f"class {row.class_}" if row.class_ else "`pooling: encode`"
        raise ConfigError(f"encoder {row.name!r}: {maker} gives vectors of whole texts only")
    folder = locate(row.model, row.revision)
    if row.engine == "vllm":
        from r2med_ray.models.networks.pooling_engine import load_pooling_engine  # which makes a `Network`

        return load_pooling_engine(folder, row, device, dtype, share)
    load = _sentence_transformer if row.pooling == "model" else _backbone
    return load(folder, row, device, dtype)


def load_model(folder: Path, row: EncoderRow, dtype: Dtype) -> Any:
    """Load the network that a checkpoint's `config.json` describes.

    Raises:
        DataError, OwnCodeError: see `loading.load_whole`.
    """
    from transformers import AutoModel

    load: Any = partial(AutoModel.from_pretrained, folder, dtype=dtype, trust_remote_code=row.trust_remote_code)
    return load_whole(f"encoder {row.name!r}", load, may_lack=NOT_READ, allow_pickle=row.allow_pickle)


def _backbone(folder: Path, row: EncoderRow, device: str, dtype: Dtype) -> Network:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=row.trust_remote_code)
    model = load_model(folder, row, dtype).to(device).eval()
    if row.attention == "bidirectional":
        model.config.is_causal = False  # transformers asks this whenever it makes a causal mask
    assert row.pooling is not None
    return _of_backbone(tokenizer, model, row, row.pooling, device, lambda vectors_BD, _: vectors_BD)


def _of_backbone(
    tokenizer: Any,
    model: Any,
    row: EncoderRow,
    pooling: str,
    device: str,
    finished: "Callable[[Tensor, torch.dtype], Tensor]",
) -> Network:
    """Return a network of transformers with a pooling.

    `finished` takes float32 vectors and the dtype of the states that they are pooled from.
    """
    import torch

    model.config.use_cache = False  # a causal model would keep the keys and values of every layer
    pool = POOLINGS[pooling]

    def token_vectors(features: Features) -> "Tensor":
        with torch.autocast(device.partition(":")[0], torch.float16, enabled=row.autocast):
            states: Tensor = model(**features).last_hidden_state
        return states

    def text_vectors(features: Features, prompt_tokens: int) -> "Tensor":
        mask_BT = features["attention_mask"]
        if row.exclude_prompt_from_pooling:
            mask_BT = without_prompt(mask_BT, prompt_tokens)
        states_BTD = token_vectors(features)
        return finished(pool(states_BTD.float(), mask_BT), states_BTD.dtype)

    return Network(
        tokenizer=tokenizer,
        text_vectors=text_vectors,
        token_vectors=token_vectors,
        dim=model.config.hidden_size,
        max_length=longest_input(tokenizer, model),
        device=device,
        stateless=is_stateless(model),
    )


def _sentence_transformer(folder: Path, row: EncoderRow, device: str, dtype: Dtype) -> Network:
    """Load a checkpoint of sentence-transformers, with transformers alone if that gives the same vectors."""
    if not (folder / "modules.json").is_file():
        raise ConfigError(
            f"encoder {row.name!r}: `pooling: model` needs a checkpoint of sentence-transformers, and {folder} "
            f"has no modules.json; give `pooling: mean`, `cls` or `last`"
        )
    plain = None if row.trust_remote_code else plain_modules(folder)
    network = plain and _plain(folder, row, plain, device, dtype)
    return network or _with_library(folder, row, device, dtype)


def _plain(folder: Path, row: EncoderRow, plain: PlainModules, device: str, dtype: Dtype) -> Network | None:
    """Load the network of a checkpoint with transformers; None if its tokenizer writes chat messages.

    As in the library, a mean is computed in float32 and rounded to `dtype`, in which its length is made 1.
    """
    from torch.nn.functional import normalize
    from transformers import AutoTokenizer

    limit = {} if plain.max_length is None else {"model_max_length": plain.max_length}
    tokenizer = AutoTokenizer.from_pretrained(folder, **limit)
    if tokenizer.chat_template is not None:
        return None
    model = load_model(folder, row, dtype).to(device).eval()

    def finished(vectors_BD: "Tensor", kept: "torch.dtype") -> "Tensor":
        rounded_BD = vectors_BD.to(kept)
        return (normalize(rounded_BD) if plain.unit_length else rounded_BD).float()

    return _of_backbone(tokenizer, model, row, plain.pooling, device, finished)


def _with_library(folder: Path, row: EncoderRow, device: str, dtype: Dtype) -> Network:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding

    def load() -> Any:
        return SentenceTransformer(
            str(folder), device=device, trust_remote_code=row.trust_remote_code, model_kwargs={"dtype": dtype}
        ).eval()

    model = load_whole(f"encoder {row.name!r}", load, may_lack=NOT_READ, allow_pickle=row.allow_pickle)
    if isinstance(model[0], StaticEmbedding):
        return _static_embedding(model, device)
    require_plain_text(model[0], row.name)
    if row.exclude_prompt_from_pooling:
        model.set_pooling_include_prompt(False)

    def text_vectors(features: Features, prompt_tokens: int) -> "Tensor":
        vectors: Tensor = model({**features, "prompt_length": prompt_tokens})["sentence_embedding"]
        return vectors.float()

    return Network(
        tokenizer=model.tokenizer,
        text_vectors=text_vectors,
        token_vectors=lambda features: model[0](dict(features))["token_embeddings"],
        dim=int(model.get_embedding_dimension() or model[0].get_embedding_dimension()),
        max_length=longest_input(model.tokenizer, model[0].model),
        device=device,
        stateless=is_stateless(model),
    )


def _static_embedding(model: Any, device: str) -> Network:
    """Load a table of token vectors. A text's vector is the mean over its tokens, special tokens left out."""
    from transformers import PreTrainedTokenizerFast

    tokenizer: Any = PreTrainedTokenizerFast(tokenizer_object=model[0].tokenizer)  # type: ignore[no-untyped-call]
    tokenizer.backend_tokenizer.post_processor = None

    def text_vectors(features: Features, prompt_tokens: int) -> "Tensor":
        mask_BT = features["attention_mask"].bool()
        ends_B = mask_BT.sum(dim=1).cumsum(dim=0)
        starts_B = ends_B.roll(1)
        starts_B[0] = 0
        texts = {"input_ids": features["input_ids"][mask_BT], "offsets": starts_B}
        vectors: Tensor = model(texts)["sentence_embedding"]
        return vectors.float()

    return Network(
        tokenizer=tokenizer,
        text_vectors=text_vectors,
        token_vectors=lambda features: model[0].embedding.weight[features["input_ids"]],
        dim=model[0].get_embedding_dimension(),
        max_length=tokenizer.model_max_length,
        device=device,
        stateless=is_stateless(model),
    )


def require_plain_text(module: Any, name: str) -> None:
    """Refuse a checkpoint of sentence-transformers that reads chat messages. This package writes no such messages."""
    if "message" in module.modality_config:
        raise ConfigError(f"model {name!r} reads chat messages instead of texts, which is not supported")


def longest_input(tokenizer: Any, model: "nn.Module") -> int:
    """Return the most tokens that a tokenizer lets through and a model has positions for.

    RoBERTa, XLM-R and MPNet start to count positions after the number of the padding token, so the positions up to
    this number are lost.
    """
    from torch import nn

    limit: int = getattr(model.config, "max_position_embeddings", tokenizer.model_max_length)
    for name, module in model.named_modules():
        if isinstance(module, nn.Embedding) and name.endswith("position_embeddings"):
            limit = module.num_embeddings - (0 if module.padding_idx is None else module.padding_idx + 1)
    longest: int = min(limit, tokenizer.model_max_length)
    return longest
