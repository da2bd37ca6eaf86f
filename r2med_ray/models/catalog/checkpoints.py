"""The rows of sparse encoders and of late interaction models.

sentence-transformers loads both kinds (`SparseEncoder`, `MultiVectorEncoder`). A checkpoint says how texts become
vectors: prompts, query expansion and masks come with the checkpoint. A row says only what differs.
"""

from typing import Any, ClassVar, Literal

from pydantic import Field

from r2med_ray.cuts import Side
from r2med_ray.models.catalog import sources
from r2med_ray.models.catalog.devices import pass_inputs
from r2med_ray.models.catalog.needs import Needs, Source
from r2med_ray.models.catalog.row import Row, length_cell, library_versions, prompts_cell, revision_cell

SIDES: tuple[Side, ...] = ("query", "document")


class CheckpointRow(Row):
    """A model whose checkpoint is loaded by sentence-transformers: the base of the two kinds below."""

    can_measure: ClassVar[bool] = True

    model: str
    """`org/name` on the Hub, a folder (`./x`, `/x`, `~/x`; relative to the YAML file), or `package:NAME`."""

    query_prompt: str | None = None
    """A text that is put before each query. If left out, it is the checkpoint's own prompt."""

    document_prompt: str | None = None
    """A text that is put before each document; the checkpoint's own if it is left out."""

    max_length: int = Field(ge=2)
    """Tokens kept of a document, special tokens included; never more than tokenizer and positions allow."""

    query_max_length: int | None = Field(default=None, ge=2)
    """Tokens kept of a query, or the fixed length that the checkpoint fills queries up to. If left out, the
    checkpoint's own number is used, or else all that tokenizer and positions allow."""

    def needs(self) -> Needs:
        return Needs(checkpoints=(Source(self.model, self.revision),), memory_gb=self.memory_gb)

    @property
    def shown_model(self) -> str:
        return self.model

    @property
    def shown_length(self) -> str:
        return length_cell(self.query_max_length, self.max_length)

    @property
    def shown_prompts(self) -> str:
        return prompts_cell(self.query_prompt, self.document_prompt)

    @property
    def shown_revision(self) -> str:
        return revision_cell(self.model, self.revision)

    def side_inputs(self, side: Side) -> dict[str, Any]:
        """Return the settings that concern one side alone."""
        of_query = side == "query"
        return {
            "prompt": self.query_prompt if of_query else self.document_prompt,
            "max_length": self.query_max_length if of_query else self.max_length,
        }

    def encoding_inputs(self, *, device: str = "auto", side: Side | None = None) -> dict[str, Any]:
        """Return everything that changes a vector, for an artefact's key; see `EncoderRow.encoding_inputs`.

        Raises:
            ConfigError: the folder or package has no checkpoint.
            NotAtHand: the row names a Hub model without a revision.
        """
        return {
            "model": sources.identity(self.model, self.revision),
            **self.loading_inputs(),
            **pass_inputs(device),
            "dtype": self.resolved_dtype(device),
            "libraries": library_versions(),
            **{name: self.side_inputs(name) for name in SIDES if side in (None, name)},
        }


class SparseRow(CheckpointRow):
    """A model that weights vocabulary entries: SPLADE, or a network for documents and a table for queries."""

    max_active_dims: int | None = Field(default=None, ge=1)
    """Entries kept of a document: those of the greatest weight. If left out, all entries are kept."""

    query_max_active_dims: int | None = Field(default=None, ge=1)
    """Entries of a query's vector that are kept, the largest ones; all if left out."""

    def encoding_inputs(self, *, device: str = "auto", side: Side | None = None) -> dict[str, Any]:
        inputs = super().encoding_inputs(device=device, side=side)
        return inputs if inputs["dtype"] == "float32" else inputs | {"last_layer": "float32"}

    def side_inputs(self, side: Side) -> dict[str, Any]:
        dims = self.query_max_active_dims if side == "query" else self.max_active_dims
        return super().side_inputs(side) | {"max_active_dims": dims}


class LateInteractionRow(CheckpointRow):
    """A model that gives one vector per token. The vectors are compared by MaxSim."""

    projection: Literal["model", "none"] = "model"
    """`model`: the checkpoint was trained for late interaction, and has a projection. `none`: the checkpoint is any
    encoder, and the vectors are the last states of its tokens."""

    def encoding_inputs(self, *, device: str = "auto", side: Side | None = None) -> dict[str, Any]:
        return super().encoding_inputs(device=device, side=side) | {"projection": self.projection}
