"""Cross-encoders: rerankers that read query and document together.

Shape letters: N pairs of a call, B pairs of a micro-batch, T tokens of the longest one, C classes.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from r2med_ray.errors import ConfigError
from r2med_ray.models.devices import batch_limits
from r2med_ray.models.networks import longest_input, require_plain_text
from r2med_ray.models.rows import RerankerRow
from r2med_ray.models.sources import locate
from r2med_ray.models.token_budget import pad, plan_batches, run_batches


class CrossEncoderScorer:
    """Scores pairs with the raw logit of a sequence classifier, whatever query they belong to.

    Args:
        row: how the checkpoint is used; `max_length` is cut down to what tokenizer and positions allow.
        device: `cpu`, `cuda`, ...
        token_budget: most padded tokens of a forward pass; a CPU takes no more than `devices.CPU_TOKENS`.

    Raises:
        ConfigError: the checkpoint has several classes and the row doesn't say which one is the score, or it
            isn't there; see `sources.locate`.
        DataError: see `sources.locate`.
    """

    def __init__(self, row: RerankerRow, *, device: str, token_budget: int = 16_384) -> None:
        from sentence_transformers import CrossEncoder

        folder = locate(row.model, row.revision)
        _require_classifier(folder, row.name)
        self._model: Any = CrossEncoder(
            str(folder),
            device=device,
            trust_remote_code=row.trust_remote_code,
            model_kwargs={"dtype": row.resolved_dtype(device)},
        ).eval()
        require_plain_text(self._model[0], row.name)
        self._tokenizer = self._model.tokenizer
        self._max_length = min(row.max_length, longest_input(self._tokenizer, self._model[0].model))
        self._class = _score_class(row, self._model.num_labels)
        self._limits = batch_limits(device, token_budget)
        self._device = device

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return one logit per (query, document), in order; [] for no pairs.

        Raises:
            DataError: a pair doesn't fit into memory, even alone.
        """
        import torch

        if not pairs:
            return []
        inputs = self._tokenizer(
            [query for query, _ in pairs],
            [document for _, document in pairs],
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
            logits_BC = self._model(features)["scores"].reshape(len(batch), -1)
            scores_N[batch] = logits_BC[:, self._class].float()

        with torch.inference_mode():
            run_batches(plan_batches([len(ids) for ids in inputs["input_ids"]], self._limits), forward)
        scores: list[float] = scores_N.tolist()
        return scores


def _require_classifier(folder: Path, name: str) -> None:
    """Refuse an encoder or a language model, to which transformers would give a random head."""
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
