"""Cross-encoders: networks that read a query and a document together, and give a score.

Shape letters: N pairs of a call, B pairs of a micro-batch, T tokens of the longest one, C classes.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from r2med_ray.errors import ConfigError
from r2med_ray.models.catalog.devices import batch_limits
from r2med_ray.models.catalog.rerankers import RerankerRow
from r2med_ray.models.catalog.sources import locate
from r2med_ray.models.networks.checkpoints import longest_input, require_plain_text
from r2med_ray.models.networks.token_budget import pad, plan_batches, run_batches

if TYPE_CHECKING:
    from torch import Tensor


class CrossEncoderScorer:
    """Scores pairs of any queries with the raw logit of a sequence classifier.

    Args:
        row: how the checkpoint is used. `max_length` is lowered to what tokenizer and positions allow.
        device: `cpu`, `cuda`, ...
        token_budget: most padded tokens of a forward pass; on a CPU a pair is a pass of its own.

    Raises:
        ConfigError: the checkpoint has several classes, and the row doesn't say which one is the score; or see
            `sources.locate`.
        DataError: see `sources.locate`.
    """

    def __init__(self, row: RerankerRow, *, device: str, token_budget: int = 16_384) -> None:
        model, self._tokenizer, self._logits, classes = _load(row, device)
        self._max_length = min(row.max_length, longest_input(self._tokenizer, model))
        self._class = _score_class(row, classes)
        self._prompts = row.query_prompt, row.document_prompt
        self._limits = batch_limits(device, token_budget)
        self._device = device

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return one logit per (query, document), in the order of the pairs. No pairs give [].

        Raises:
            DataError: a pair doesn't fit into memory, even alone.
        """
        import torch

        if not pairs:
            return []
        inputs = self._tokenizer(
            [self._prompts[0] + query for query, _ in pairs],
            [self._prompts[1] + document for _, document in pairs],
            truncation="longest_first",
            max_length=self._max_length,
            return_attention_mask=True,
        )
        fill = {"input_ids": self._tokenizer.pad_token_id or 0}
        scores_N = torch.empty(len(pairs), dtype=torch.float32, device=self._device)

        def forward(batch: list[int]) -> None:
            padded = {
                name: pad([rows[position] for position in batch], fill.get(name, 0)) for name, rows in inputs.items()
            }
            features = {name: torch.from_numpy(values_BT).to(self._device) for name, values_BT in padded.items()}
            logits_BC = self._logits(features).reshape(len(batch), -1)
            scores_N[batch] = logits_BC[:, self._class].float()

        with torch.inference_mode():
            run_batches(plan_batches([len(ids) for ids in inputs["input_ids"]], self._limits), forward)
        scores: list[float] = scores_N.tolist()
        return scores


class _Classifier(NamedTuple):
    model: Any
    tokenizer: Any
    logits: Callable[[Mapping[str, "Tensor"]], "Tensor"]
    """Returns logits of shape (B, C), or (B,) for one class."""

    classes: int


def _load(row: RerankerRow, device: str) -> _Classifier:
    """Load a classifier with sentence-transformers, or a backbone and an adapter that together are a classifier."""
    folder = locate(row.model, row.revision)
    if row.adapter:
        return _load_merged(folder, row, device)
    from sentence_transformers import CrossEncoder

    _require_classifier(folder, row.name)
    scorer: Any = CrossEncoder(
        str(folder),
        device=device,
        trust_remote_code=row.trust_remote_code,
        model_kwargs={"dtype": row.resolved_dtype(device)},
    ).eval()
    require_plain_text(scorer[0], row.name)
    return _Classifier(
        scorer[0].model, scorer.tokenizer, lambda features: scorer(features)["scores"], scorer.num_labels
    )


def _load_merged(folder: Path, row: RerankerRow, device: str) -> _Classifier:
    """Merge LoRA weights into their backbone, as RankLLaMA is published (Ma et al. 2023, arXiv 2310.08319)."""
    from peft import PeftModel
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(folder)
    backbone: Any = AutoModelForSequenceClassification.from_pretrained(
        folder, num_labels=1, dtype=row.resolved_dtype(device)
    )
    adapter = locate(row.adapter, row.adapter_revision)
    model = PeftModel.from_pretrained(backbone, adapter).merge_and_unload().to(device).eval()
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.unk_token or tokenizer.eos_token
    model.config.pad_token_id = tokenizer.pad_token_id  # the head reads the last token before the padding
    return _Classifier(model, tokenizer, lambda features: model(**features).logits, model.config.num_labels)


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
