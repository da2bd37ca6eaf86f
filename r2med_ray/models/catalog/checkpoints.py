"""The rows of sparse encoders and of late interaction, whose checkpoints say themselves how texts become vectors.

sentence-transformers loads both (`SparseEncoder`, `MultiVectorEncoder`). Prompts, query expansion and masks come with
the checkpoint; a row only says what is to be otherwise.
"""

from typing import Any, Literal

from pydantic import Field

from r2med_ray.models.catalog import sources
from r2med_ray.models.catalog.needs import Needs, Source
from r2med_ray.models.catalog.row import Row, Side, length_cell, library_versions, prompts_cell, revision_cell

SIDES: tuple[Side, ...] = ("query", "document")


class CheckpointRow(Row):
    """Texts to whatever a checkpoint of sentence-transformers makes of them: the base of the two kinds below."""

    model: str
    """`org/name` on the Hub, a folder (`./x`, `/x`, `~/x`; relative to the YAML file), or `package:NAME`."""

    query_prompt: str | None = None
    """Is put before each query. Left out: the checkpoint's own prompt."""

    document_prompt: str | None = None
    max_length: int = Field(ge=2)
    """Tokens kept of a document, special tokens included; never more than tokenizer and positions allow."""

    query_max_length: int | None = Field(default=None, ge=2)
    """Tokens kept of a query, or the fixed length that the checkpoint fills queries up to. Left out: what the
    checkpoint says, or else all that tokenizer and positions allow."""

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
            ConfigError: a folder or package without a checkpoint.
            NotAtHand: a Hub model without revision.
        """
        return {
            "model": sources.identity(self.model, self.revision),
            "dtype": self.resolved_dtype(device),
            "libraries": library_versions(),
            **{name: self.side_inputs(name) for name in SIDES if side in (None, name)},
        }


class SparseRow(CheckpointRow):
    """Texts to weights of vocabulary entries: SPLADE, or a network for documents and a table for queries."""

    max_active_dims: int | None = Field(default=None, ge=1)
    """Entries kept of a document: those of the greatest weight. Left out: all of them."""

    query_max_active_dims: int | None = Field(default=None, ge=1)

    def side_inputs(self, side: Side) -> dict[str, Any]:
        dims = self.query_max_active_dims if side == "query" else self.max_active_dims
        return super().side_inputs(side) | {"max_active_dims": dims}


class LateInteractionRow(CheckpointRow):
    """Texts to one vector per token, compared by MaxSim."""

    projection: Literal["model", "none"] = "model"
    """`model`: the checkpoint was trained for late interaction. `none`: the last states of any encoder's tokens."""

    def encoding_inputs(self, *, device: str = "auto", side: Side | None = None) -> dict[str, Any]:
        return super().encoding_inputs(device=device, side=side) | {"projection": self.projection}
