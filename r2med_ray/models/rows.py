"""The rows of the catalogue: a checkpoint, and how it is meant to be used."""

from collections.abc import Mapping
from importlib import metadata
from typing import Any, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from r2med_ray.models import sources
from r2med_ray.models.devices import Dtype, best_device, best_dtype

LIBRARIES = ("torch", "transformers", "sentence-transformers", "tokenizers")
"""Whose versions may change a vector or a score."""

Side: TypeAlias = Literal["query", "document"]


class Row(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    name: str = Field(pattern=r"^\S+$")
    revision: str | None = Field(default=None, pattern=r"^[0-9a-f]{40}$")
    """Commit of the weights on the Hub. Without one a Hub model is refused when it is loaded."""

    dtype: Dtype | Literal["auto"] = "auto"
    """`auto` is `devices.best_dtype` of the device that the model runs on."""

    trust_remote_code: bool = False
    license: str = "not stated"
    memory_gb: float = Field(default=2.0, gt=0)
    """Roughly what the weights and one batch take in memory."""

    published: str | None = None
    """The key of R2MED's published results."""

    def resolved_dtype(self, device: str = "auto") -> Dtype:
        """Return the row's dtype, or the one that suits the device."""
        if self.dtype != "auto":
            return self.dtype
        return best_dtype(best_device() if device == "auto" else device)


class EncoderRow(Row):
    """Texts to vectors."""

    model: str
    """`org/name` on the Hub, a folder (`./x`, `/x`, `~/x`; relative to the YAML file), or `package:NAME`."""

    pooling: Literal["mean", "cls", "last", "model"]
    """`model`: whatever modules the checkpoint brings for sentence-transformers."""

    query_prompt: str = ""
    """Stands before a query, nothing in between; `{instruction}` becomes the task's instruction."""

    document_prompt: str = ""
    instructions: Mapping[str, str] = Field(default_factory=dict)
    """Task → instruction; `default` is for all other tasks. In YAML also the name of a shipped set, e.g. `r2med`."""

    max_length: int = Field(ge=2)
    """Tokens kept of a document, special tokens included; never more than tokenizer and positions allow."""

    query_max_length: int | None = Field(default=None, ge=2)
    """Tokens kept of a query; `max_length` where it is left out."""

    similarity: Literal["cosine", "dot"] = "cosine"
    """What the checkpoint was trained for. For `cosine` the vectors have unit length."""

    append_eos: bool = False
    """Every text ends with the end token, truncated or not (EN03)."""

    expansion_prompt: Literal["none", "query"] = "none"
    """What R2MED's code puts before a hypothetical document."""

    @model_validator(mode="after")
    def _every_task_has_an_instruction(self) -> "EncoderRow":
        if "{instruction}" in self.query_prompt + self.document_prompt and "default" not in self.instructions:
            raise ValueError("a prompt with {instruction} needs `instructions` with a `default`")
        return self

    def encoding_inputs(self, task: str, *, device: str = "auto", side: Side | None = None) -> dict[str, Any]:
        """Return everything that changes a vector, for an artefact's key.

        Args:
            task: name of the task, which may choose the instruction.
            device: what will compute, e.g. `cuda` on a driver without a GPU; decides what dtype `auto` is.
            side: leaves out what concerns the other side alone; None keeps both.

        Raises:
            ConfigError: a Hub model without revision, or a folder or package without a checkpoint.
        """
        prompts = prompts_for(self, task)
        of_side = {
            "query": {"prompt": prompts.query, "max_length": self.query_max_length or self.max_length},
            "document": {"prompt": prompts.document, "max_length": self.max_length},
        }
        return {
            "model": sources.identity(self.model, self.revision),
            "pooling": self.pooling,
            "similarity": self.similarity,
            "append_eos": self.append_eos,
            "dtype": self.resolved_dtype(device),
            "libraries": library_versions(),
            **({side: of_side[side]} if side else of_side),
        }


class RerankerRow(Row):
    """(query, document) pairs to scores."""

    kind: Literal["cross-encoder", "maxsim"]
    """`maxsim`: late interaction over the token vectors of an encoder of the catalogue."""

    model: str = ""
    """Of a cross-encoder; spelled as in an encoder's row."""

    encoder: str = ""
    """Of maxsim."""

    max_length: int = Field(default=512, ge=3)
    """Tokens kept of a cross-encoder's pair; the longer of the two texts is cut first."""

    score_class: int | None = Field(default=None, ge=0)
    """Which logit is the score, where the checkpoint has several classes."""

    @model_validator(mode="after")
    def _kind_has_its_model(self) -> "RerankerRow":
        right, wrong = ("model", "encoder") if self.kind == "cross-encoder" else ("encoder", "model")
        if not getattr(self, right) or getattr(self, wrong):
            raise ValueError(f"kind {self.kind!r} needs `{right}`, and not `{wrong}`")
        return self


class Prompts(NamedTuple):
    """What stands before each text; empty for nothing."""

    query: str
    document: str


def prompts_for(row: EncoderRow, task: str) -> Prompts:
    """Return a model's prompts for one task, with its instruction filled in."""
    instruction = row.instructions.get(task, row.instructions.get("default", ""))
    return Prompts(
        query=row.query_prompt.replace("{instruction}", instruction),
        document=row.document_prompt.replace("{instruction}", instruction),
    )


def library_versions() -> dict[str, str]:
    """Return the versions of `LIBRARIES` without importing them and without their build tags (`+cpu`)."""
    return {library: metadata.version(library).partition("+")[0] for library in LIBRARIES}
