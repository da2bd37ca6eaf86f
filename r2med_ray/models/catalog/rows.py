"""The rows of the catalogue: a checkpoint, and how it is meant to be used."""

from collections.abc import Mapping
from importlib import metadata
from typing import Any, Literal, NamedTuple, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from r2med_ray.models.catalog import sources
from r2med_ray.models.catalog.devices import Dtype, best_device, best_dtype
from r2med_ray.types import Compat

LIBRARIES = ("torch", "transformers", "sentence-transformers", "tokenizers")
"""Whose versions may change a vector or a score."""

Side: TypeAlias = Literal["query", "document"]

_OWN_POOLINGS = ("mean", "cls", "last")
_POOLINGS_OF: Mapping[str, tuple[str, ...]] = {
    "attention": _OWN_POOLINGS,
    "autocast": _OWN_POOLINGS,
    "document_as_pair": _OWN_POOLINGS,
    "document_model": (*_OWN_POOLINGS, "model"),
    "append_eos": (*_OWN_POOLINGS, "model"),
    "exclude_prompt_from_pooling": ("mean", "model"),
}
"""Key of an encoder's row → the poolings that heed it."""

_VECTOR_KEYS = (
    *("pooling", "attention", "exclude_prompt_from_pooling", "document_as_pair"),
    *("similarity", "append_eos", "autocast", "trust_remote_code"),
)
"""Keys that change vectors of both sides as they stand."""


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

    r2med: Mapping[str, Any] = Field(default_factory=dict)
    """What R2MED's evaluation code did otherwise: keys of this row, with their values under `compat: r2med`."""

    @model_validator(mode="after")
    def _also_fits_under_r2med(self) -> Self:
        if self.r2med:
            self.under("r2med")
        return self

    def under(self, compat: Compat) -> Self:
        """Return the row as it is used by a system of that `compat`; its `r2med` is empty."""
        changes = self.r2med if compat == "r2med" else {}
        return self.model_validate(self.model_dump() | dict(changes) | {"r2med": {}})

    @property
    def how(self) -> str:
        """What the table of models says about the way it works, in a few words."""
        return str(getattr(self, "kind", ""))

    def resolved_dtype(self, device: str = "auto") -> Dtype:
        """Return the row's dtype, or the one that suits the device."""
        if self.dtype != "auto":
            return self.dtype
        return best_dtype(best_device() if device == "auto" else device)


class EncoderRow(Row):
    """Texts to vectors."""

    model: str
    """`org/name` on the Hub, a folder (`./x`, `/x`, `~/x`; relative to the YAML file), or `package:NAME`."""

    document_model: str = ""
    """A second checkpoint that reads the documents; without one `model` reads both."""

    document_revision: str | None = Field(default=None, pattern=r"^[0-9a-f]{40}$")
    """Commit of `document_model`."""

    pooling: Literal["mean", "cls", "last", "model", "encode"]
    """`model`: whatever modules the checkpoint brings for sentence-transformers. `encode`: the method
    `encode(texts, instruction, max_length)` of the checkpoint's own code."""

    attention: Literal["model", "bidirectional"] = "model"
    """`bidirectional`: every token of a causal language model sees every other."""

    query_prompt: str = ""
    """Stands before a query, nothing in between; `{instruction}` becomes the task's instruction."""

    document_prompt: str = ""
    instructions: Mapping[str, str] = Field(default_factory=dict)
    """Task → instruction; `default` is for all other tasks. In YAML also the name of a shipped set, e.g. `r2med`."""

    document_instructions: Mapping[str, str] = Field(default_factory=dict)
    """The same for documents; where it is left out, `instructions` holds for both."""

    exclude_prompt_from_pooling: bool = False
    """The prompt is read, and its tokens take no part in the mean."""

    document_as_pair: bool = False
    """A document is the pair (title, text), cut at the longer of the two: `[CLS] title [SEP] text [SEP]`."""

    max_length: int = Field(ge=2)
    """Tokens kept of a document, special tokens included; never more than tokenizer and positions allow."""

    query_max_length: int | None = Field(default=None, ge=2)
    """Tokens kept of a query; `max_length` where it is left out."""

    similarity: Literal["cosine", "dot"] = "cosine"
    """What the checkpoint was trained for. For `cosine` the vectors have unit length."""

    append_eos: bool = False
    """Every text ends with the end token, truncated or not (EN03)."""

    autocast: bool = False
    """Matrix products in float16, weights and the rest in `dtype` (`torch.autocast`)."""

    expansion_prompt: Literal["none", "query"] = "none"
    """What R2MED's code puts before a hypothetical document."""

    @model_validator(mode="after")
    def _prompts_have_their_instructions(self) -> Self:
        sides = (
            ("query_prompt", self.instructions),
            ("document_prompt", self.document_instructions or self.instructions),
        )
        for key, instructions in sides:
            if "{instruction}" in getattr(self, key) and "default" not in instructions:
                raise ValueError(f"a `{key}` with {{instruction}} needs `instructions` with a `default`")
        return self

    @model_validator(mode="after")
    def _keys_fit_the_pooling(self) -> Self:
        for key, poolings in _POOLINGS_OF.items():
            if getattr(self, key) != type(self).model_fields[key].default and self.pooling not in poolings:
                raise ValueError(f"`{key}` needs `pooling` {', '.join(poolings)}, not {self.pooling!r}")
        if self.pooling == "encode" and not self.trust_remote_code:
            raise ValueError("`pooling: encode` needs `trust_remote_code: true`")
        if self.append_eos and (self.document_as_pair or self.document_model):
            raise ValueError("`append_eos` goes with neither `document_as_pair` nor `document_model`")
        return self

    @property
    def how(self) -> str:
        notes = {
            "bidirectional": self.attention == "bidirectional",
            "prompt left out": self.exclude_prompt_from_pooling,
            "two checkpoints": self.document_model != "",
        }
        return ", ".join([self.pooling, *(note for note, holds in notes.items() if holds)])

    def of_documents(self) -> "EncoderRow":
        """Return the row whose `model` reads the documents."""
        if not self.document_model:
            return self
        changes = {"model": self.document_model, "revision": self.document_revision}
        return self.model_copy(update=changes | {"document_model": "", "document_revision": None})

    def encoding_inputs(self, task: str, *, device: str = "auto", side: Side | None = None) -> dict[str, Any]:
        """Return everything that changes a vector, for an artefact's key.

        Args:
            task: name of the task, which may choose the instruction.
            device: what will compute, e.g. `cuda` on a driver without a GPU; decides what dtype `auto` is.
            side: leaves out what concerns the other side alone; None keeps both.

        Raises:
            ConfigError: a folder or package without a checkpoint.
            NotAtHand: a Hub model without revision.
        """
        prompts = prompts_for(self, task)
        of_side = {
            "query": (self, prompts.query, self.query_max_length or self.max_length),
            "document": (self.of_documents(), prompts.document, self.max_length),
        }
        return {
            **{key: getattr(self, key) for key in _VECTOR_KEYS},
            "dtype": self.resolved_dtype(device),
            "libraries": library_versions(),
            **{
                name: {
                    "model": sources.identity(row.model, row.revision),
                    "prompt": prompt,
                    "max_length": max_length,
                }
                for name, (row, prompt, max_length) in of_side.items()
                if side in (None, name)
            },
        }


class Prompts(NamedTuple):
    """What stands before each text; empty for nothing."""

    query: str
    document: str


def prompts_for(row: EncoderRow, task: str) -> Prompts:
    """Return a model's prompts for one task, with its instruction filled in."""
    query, document = (
        instructions.get(task, instructions.get("default", ""))
        for instructions in (row.instructions, row.document_instructions or row.instructions)
    )
    return Prompts(
        query=row.query_prompt.replace("{instruction}", query),
        document=row.document_prompt.replace("{instruction}", document),
    )


def library_versions() -> dict[str, str]:
    """Return the versions of `LIBRARIES` without importing them and without their build tags (`+cpu`)."""
    return {library: metadata.version(library).partition("+")[0] for library in LIBRARIES}
