"""Builds the pair scorer that a reranker's row describes, and returns what its scores depend on."""

from typing import Any

from r2med_ray.models.catalog.devices import best_device, prepare_worker
from r2med_ray.models.catalog.encoders import EncoderRow, prompts_for
from r2med_ray.models.catalog.load import Catalog
from r2med_ray.models.catalog.rerankers import RerankerRow
from r2med_ray.models.networks.cross_encoders import CrossEncoderScorer
from r2med_ray.models.networks.encoders import build_encoder
from r2med_ray.models.networks.maxsim import MaxSimScorer
from r2med_ray.models.networks.own_models import OwnScorer
from r2med_ray.models.networks.yes_no import YesNoScorer
from r2med_ray.protocols import PairScorer

ANY_TASK = ""
"""The task whose instruction a reranker's encoder gets. A reranker serves all tasks, so this is the default one."""


def build_pair_scorer(
    row: RerankerRow, catalog: Catalog, *, device: str = "auto", token_budget: int = 16_384
) -> PairScorer:
    """Load a cross-encoder, a yes-no model, an encoder for late interaction, or the row's own class.

    Raises:
        ConfigError, DataError: the checkpoint isn't there or doesn't fit its row, or the class is no pair scorer.
    """
    device = best_device() if device == "auto" else device
    if row.class_:
        return OwnScorer(row, device=device, token_budget=token_budget)
    if row.kind == "cross-encoder":
        return CrossEncoderScorer(row, device=device, token_budget=token_budget)
    if row.kind == "yes-no":
        return YesNoScorer(row, device=device, token_budget=token_budget)
    encoder_row = row_of_encoder(row, catalog)
    prompts = prompts_for(encoder_row, ANY_TASK)
    encoder = build_encoder(encoder_row, task=ANY_TASK, device=device, token_budget=token_budget)
    return MaxSimScorer(encoder, query_prompt=prompts.query, document_prompt=prompts.document)


def build_in_worker(row: RerankerRow, catalog: Catalog, device: str, token_budget: int, threads: int) -> PairScorer:
    """Load a scorer in a process that computes with some threads; see `build_pair_scorer`."""
    prepare_worker(threads)
    return build_pair_scorer(row, catalog, device=device, token_budget=token_budget)


def scoring_inputs(row: RerankerRow, catalog: Catalog, *, device: str = "auto") -> dict[str, Any]:
    """Return everything that changes a score, for an artefact's key; see `EncoderRow.encoding_inputs`."""
    if row.kind == "maxsim":
        return {"kind": row.kind, **row_of_encoder(row, catalog).encoding_inputs(ANY_TASK, device=device)}
    return row.scoring_inputs(device=device)


def row_of_encoder(row: RerankerRow, catalog: Catalog) -> EncoderRow:
    """Return the row of a `maxsim` row's encoder, with the dtype of the `maxsim` row if that isn't `auto`.

    Nothing is measured for a reranker, so an encoder's `fastest` is `auto` there. vLLM has no part in it, because its
    pooling runner gives vectors of whole texts.
    """
    encoder = catalog.encoders[row.encoder].model_copy(update={"engine": "sentence-transformers"})
    is_encoders = row.dtype == "auto" and encoder.dtype != "fastest"
    return encoder if is_encoders else encoder.model_copy(update={"dtype": row.dtype})
