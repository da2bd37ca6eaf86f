"""The pair scorer that a reranker's row asks for."""

from typing import Any

from r2med_ray.models.catalog.catalog import Catalog
from r2med_ray.models.catalog.devices import best_device
from r2med_ray.models.catalog.reranker_rows import RerankerRow
from r2med_ray.models.catalog.rows import EncoderRow, prompts_for
from r2med_ray.models.networks.cross_encoders import CrossEncoderScorer
from r2med_ray.models.networks.encoders import build_encoder
from r2med_ray.models.networks.maxsim import MaxSimScorer
from r2med_ray.models.networks.yes_no import YesNoScorer
from r2med_ray.protocols import PairScorer

ANY_TASK = ""
"""A reranker serves all tasks, so an encoder's instruction is its default one."""


def build_pair_scorer(
    row: RerankerRow, catalog: Catalog, *, device: str = "auto", token_budget: int = 16_384
) -> PairScorer:
    """Load a cross-encoder, a language model that answers yes or no, or late interaction over an encoder.

    Raises:
        ConfigError, DataError: the checkpoint isn't there or doesn't fit its row.
    """
    device = best_device() if device == "auto" else device
    if row.kind == "cross-encoder":
        return CrossEncoderScorer(row, device=device, token_budget=token_budget)
    if row.kind == "yes-no":
        return YesNoScorer(row, device=device, token_budget=token_budget)
    encoder_row = _encoder_row(row, catalog)
    prompts = prompts_for(encoder_row, ANY_TASK)
    encoder = build_encoder(encoder_row, task=ANY_TASK, device=device, token_budget=token_budget)
    return MaxSimScorer(encoder, query_prompt=prompts.query, document_prompt=prompts.document)


def scoring_inputs(row: RerankerRow, catalog: Catalog, *, device: str = "auto") -> dict[str, Any]:
    """Return everything that changes a score, for an artefact's key; see `EncoderRow.encoding_inputs`."""
    if row.kind == "maxsim":
        return {"kind": row.kind, **_encoder_row(row, catalog).encoding_inputs(ANY_TASK, device=device)}
    return row.scoring_inputs(device=device)


def _encoder_row(row: RerankerRow, catalog: Catalog) -> EncoderRow:
    """Return the encoder of a `maxsim` row, with that row's dtype if it names one."""
    encoder = catalog.encoders[row.encoder]
    return encoder if row.dtype == "auto" else encoder.model_copy(update={"dtype": row.dtype})
