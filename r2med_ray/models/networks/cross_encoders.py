"""Cross-encoders: networks that read a query and a document together, and give a score.

Shape letters: N pairs of a call, B pairs of a micro-batch, T tokens of the longest one, C classes.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from r2med_ray.cuts import CutCounter, SideCuts
from r2med_ray.errors import ConfigError, DataError
from r2med_ray.models.catalog.devices import batch_limits
from r2med_ray.models.catalog.rerankers import RerankerRow
from r2med_ray.models.catalog.sources import locate
from r2med_ray.models.networks.checkpoints import longest_input, require_plain_text
from r2med_ray.models.networks.last_layers import ClassifierHead, last_layer
from r2med_ray.models.networks.loading import load_whole, pickle_guard
from r2med_ray.models.networks.pair_cuts import PairCut, cut_by_tokenizer, note_pairs, query_lengths
from r2med_ray.models.networks.passes import is_stateless, run_batches
from r2med_ray.models.networks.token_budget import pad
from r2med_ray.models.networks.told import TextAround, tell_pairs

if TYPE_CHECKING:
    from torch import Tensor


class CrossEncoderScorer:
    """Scores pairs of any queries with the raw logit of a sequence classifier, computed in float32.

    A classifier that is a causal language model reads the last real token, whatever its padding token is.

    Args:
        row: how the checkpoint is used. `max_length` is lowered to what tokenizer and positions allow.
        device: `cpu`, `cuda`, ...
        token_budget: most padded tokens of a forward pass; on a CPU a pair is a pass of its own.

    Raises:
        ConfigError: the checkpoint has several classes, and the row doesn't say which one is the score; or see
            `sources.locate`.
        DataError, OwnCodeError: see `sources.locate` and `loading.load_whole`.
    """

    def __init__(self, row: RerankerRow, *, device: str, token_budget: int = 16_384) -> None:
        module, model, self._tokenizer, self._logits, classes = _load(row, device)
        self._max_length = min(row.max_length, longest_input(self._tokenizer, model))
        self._class = _score_class(row, classes)
        self._prompts = row.query_prompt, row.document_prompt
        self._limits = batch_limits(device, token_budget, stateless=is_stateless(module))
        self._device = device
        self._cuts = CutCounter()

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return one logit per (query, document), in the order of the pairs. No pairs give [].

        Raises:
            DataError: a pair doesn't fit into memory, even alone.
        """
        import torch

        if not pairs:
            return []
        texts = [(self._prompts[0] + query, self._prompts[1] + document) for query, document in pairs]
        inputs = self._tokenizer(
            [query for query, _ in texts],
            [document for _, document in texts],
            truncation="longest_first",
            max_length=self._max_length,
            return_attention_mask=True,
        )
        lengths = [len(ids) for ids in inputs["input_ids"]]
        cuts = self._note_cuts(texts, lengths)
        around = [
            (TextAround(self._prompts[0], query), TextAround(self._prompts[1], document)) for query, document in pairs
        ]
        tell_pairs(self._tokenizer, around, inputs["input_ids"], cuts, self._max_length)
        fill = {"input_ids": self._tokenizer.pad_token_id or 0}
        scores_N = torch.empty(len(pairs), dtype=torch.float32, device=self._device)

        def forward(batch: list[int]) -> None:
            padded = {
                name: pad([rows[position] for position in batch], fill.get(name, 0)) for name, rows in inputs.items()
            }
            features = {name: torch.from_numpy(values_BT).to(self._device) for name, values_BT in padded.items()}
            logits_BC = self._logits(features).reshape(len(batch), -1)
            scores_N[batch] = logits_BC[:, self._class].float()

        run_batches(lengths, self._limits, forward)
        scores: list[float] = scores_N.tolist()
        return scores

    def take_cuts(self) -> SideCuts:
        """Return what was cut off the queries and documents of all pairs since the last call."""
        return self._cuts.take()

    def _note_cuts(self, texts: Sequence[tuple[str, str]], lengths: Sequence[int]) -> list[PairCut]:
        return note_pairs(
            self._cuts,
            query_lengths(self._tokenizer, [query for query, _ in texts]),
            lengths,
            cut_by_tokenizer(self._tokenizer, texts, lengths, self._max_length),
            around=self._tokenizer.num_special_tokens_to_add(pair=True),
            max_length=self._max_length,
        )


class _Classifier(NamedTuple):
    module: Any
    """All layers: the model, and what sentence-transformers may put after it."""

    model: Any
    tokenizer: Any
    logits: Callable[[Mapping[str, "Tensor"]], "Tensor"]
    """Returns logits of shape (B, C), or (B,) for one class."""

    classes: int


def _load(row: RerankerRow, device: str) -> _Classifier:
    """Load a classifier with sentence-transformers, or a backbone and an adapter that together are a classifier."""
    folder = locate(row.model, row.revision)
    network = _merged(folder, row, device) if row.adapter else _cross_encoder(folder, row, device)
    layer = last_layer(network.module, network.classes, row.resolved_dtype(device), f"reranker {row.name!r}")
    # Code that comes with a checkpoint may look for the padding token, and many classifiers need to know some token.
    config = network.model.config
    config.pad_token_id = config.get_text_config().pad_token_id = network.tokenizer.pad_token_id or 0
    if layer is None:
        return network
    head = ClassifierHead(network.model, layer, f"reranker {row.name!r}")
    return network._replace(logits=lambda features: head.read(network.logits, features))


def _cross_encoder(folder: Path, row: RerankerRow, device: str) -> _Classifier:
    from sentence_transformers import CrossEncoder
    from sentence_transformers.cross_encoder.modules import LogitScore

    _require_classifier(folder, row.name)

    def load() -> Any:
        return CrossEncoder(
            str(folder),
            device=device,
            trust_remote_code=row.trust_remote_code,
            model_kwargs={"dtype": row.resolved_dtype(device)},
        ).eval()

    scorer = load_whole(f"reranker {row.name!r}", load, allow_pickle=row.allow_pickle)
    require_plain_text(scorer[0], row.name)
    if any(isinstance(module, LogitScore) for module in scorer):
        raise ConfigError(
            f"reranker {row.name!r}: {folder} holds a language model whose score is the logit of a word; "
            f"give `kind: yes-no`"
        )
    return _Classifier(
        scorer, scorer[0].model, scorer.tokenizer, lambda features: scorer(features)["scores"], scorer.num_labels
    )


def _merged(folder: Path, row: RerankerRow, device: str) -> _Classifier:
    """Merge LoRA weights into their backbone, as RankLLaMA is published (Ma et al. 2023, arXiv 2310.08319)."""
    import peft
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    adapter = locate(row.adapter, row.adapter_revision)
    with pickle_guard(f"reranker {row.name!r}", allowed=row.allow_pickle):
        weights = peft.load_peft_weights(str(adapter), device="cpu")
    heads = [name.removeprefix("base_model.model.") for name in weights if "lora_" not in name]

    def load() -> Any:
        return AutoModelForSequenceClassification.from_pretrained(
            folder, num_labels=1, dtype=row.resolved_dtype(device), trust_remote_code=row.trust_remote_code
        )

    backbone = load_whole(f"reranker {row.name!r}", load, may_lack=heads, allow_pickle=row.allow_pickle)
    config = peft.PeftConfig.from_pretrained(str(adapter))
    config.base_model_name_or_path = None  # where the adapter was trained, the backbone had another place
    adapted: Any = peft.get_peft_model(backbone, config)
    try:
        unlike: Any = peft.set_peft_model_state_dict(adapted, weights)
    except KeyError as error:  # of a layer that is to be taken whole from the adapter
        raise DataError(f"reranker {row.name!r}: the weight {error} is not in {adapter}") from error
    missing = [name for name in unlike.missing_keys if ".default" in name]
    if missing or unlike.unexpected_keys:
        raise DataError(
            f"reranker {row.name!r}: the adapter in {adapter} doesn't fit {folder}: it lacks {len(missing)} weights, "
            f"and has {len(unlike.unexpected_keys)} others, e.g. {[*missing, *unlike.unexpected_keys][0]!r}"
        )
    model = adapted.merge_and_unload().to(device).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=row.trust_remote_code)
    return _Classifier(model, model, tokenizer, lambda features: model(**features).logits, model.config.num_labels)


def _require_classifier(folder: Path, name: str) -> None:
    """Refuse an encoder or a language model. transformers would give it a random head."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    architectures = config.get("architectures") or ["model of no known kind"]
    is_classifier = any(architecture.endswith("ForSequenceClassification") for architecture in architectures)
    if not is_classifier and not (folder / "modules.json").is_file():
        raise ConfigError(
            f"reranker {name!r}: {folder} holds a {architectures[0]}, and a cross-encoder is a sequence classifier"
        )


def _score_class(row: RerankerRow, num_classes: int) -> int:
    if row.score_class is None and num_classes > 1:
        raise ConfigError(
            f"reranker {row.name!r}: its checkpoint has {num_classes} classes; `score_class` must name one"
        )
    if row.score_class is not None and row.score_class >= num_classes:
        raise ConfigError(
            f"reranker {row.name!r}: `score_class` is {row.score_class}, and its checkpoint has {num_classes} classes"
        )
    return row.score_class or 0
