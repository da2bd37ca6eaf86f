"""The rows of encoders: a checkpoint that makes one vector of a text, and how the checkpoint is used."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from r2med_ray.cuts import Side
from r2med_ray.models.catalog import sources, vllm
from r2med_ray.models.catalog.devices import pass_inputs
from r2med_ray.models.catalog.needs import Needs, Source
from r2med_ray.models.catalog.own_class import OwnClassRow
from r2med_ray.models.catalog.row import length_cell, library_versions, prompts_cell, revision_cell
from r2med_ray.settings.hard_negatives import without_condition

_OWN_POOLINGS = ("mean", "cls", "last")
_POOLINGS_OF: Mapping[str, tuple[str, ...]] = {
    "attention": _OWN_POOLINGS,
    "autocast": _OWN_POOLINGS,
    "document_as_pair": _OWN_POOLINGS,
    "document_model": (*_OWN_POOLINGS, "model"),
    "append_eos": (*_OWN_POOLINGS, "model"),
    "exclude_prompt_from_pooling": ("mean", "model"),
}
"""Key of an encoder's row → the poolings that use this key."""

_VECTOR_KEYS = {
    *("pooling", "attention", "exclude_prompt_from_pooling", "document_as_pair"),
    *("similarity", "append_eos", "autocast", "trust_remote_code"),
}
"""Keys whose values change the vectors of both sides."""

_NOT_IN_VLLM = {
    *("class", "document_model", "attention", "exclude_prompt_from_pooling", "document_as_pair", "autocast"),
    "trust_remote_code",
}
"""Keys that `engine: vllm` doesn't take, whatever their value is."""


class EncoderRow(OwnClassRow):
    """A model that gives one vector per text. A row with a `class` may leave out `model` and `pooling`."""

    can_measure: ClassVar[bool] = True

    model: str = ""
    """`org/name` on the Hub, a folder (`./x`, `/x`, `~/x`; relative to the YAML file), or `package:NAME`."""

    document_model: str = ""
    """A second checkpoint, which reads the documents. Without it, `model` reads queries and documents."""

    document_revision: str | None = Field(default=None, pattern=r"^[0-9a-f]{40}$")
    """Commit of `document_model`."""

    pooling: Literal["mean", "cls", "last", "model", "encode"] | None = None
    """How token vectors become one vector. `model`: the modules that the checkpoint has for sentence-transformers.
    `encode`: the method `encode(texts, instruction, max_length)` of the checkpoint's own code."""

    attention: Literal["model", "bidirectional"] = "model"
    """`bidirectional`: every token of a causal language model sees every other token."""

    query_prompt: str = ""
    """A text that is put directly before a query, without a space. `{instruction}` becomes the task's instruction."""

    document_prompt: str = ""
    """A text that is put before each document."""

    instructions: Mapping[str, str] = Field(default_factory=dict)
    """Task → instruction; `default` is for all other tasks. YAML may give the name of a shipped set, e.g. `r2med`."""

    document_instructions: Mapping[str, str] = Field(default_factory=dict)
    """Task → instruction for documents. If left out, `instructions` is for queries and documents."""

    exclude_prompt_from_pooling: bool = False
    """Whether the prompt's tokens are left out of the mean. The model still reads these tokens."""

    document_as_pair: bool = False
    """Whether a document is read as the pair (title, text): `[CLS] title [SEP] text [SEP]`. The longer one is cut."""

    max_length: int = Field(ge=2)
    """Tokens kept of a document, special tokens included; never more than tokenizer and positions allow."""

    query_max_length: int | None = Field(default=None, ge=2)
    """Tokens kept of a query; `max_length` if left out."""

    similarity: Literal["cosine", "dot"] = "cosine"
    """What the checkpoint was trained for. With `cosine`, vectors get unit length; so do the vectors of a class."""

    append_eos: bool = False
    """Whether every text ends with the end token, whether it was cut or not."""

    end_token: str = ""
    """The token that `append_eos` puts there; the tokenizer's end token if left out."""

    autocast: bool = False
    """Whether matrix products are in float16 (`torch.autocast`). The weights and all else are in `dtype`."""

    expansion_prompt: Literal["none", "query"] = "none"
    """Which prompt R2MED's code puts before a hypothetical document."""

    engine: Literal["sentence-transformers", "vllm"] = "sentence-transformers"
    """What computes the vectors. `vllm` is vLLM's pooling runner, for large causal language models; it reads the same
    tokens, pools by the mean, the first or the last token, and runs none of a checkpoint's own code."""

    @model_validator(mode="after")
    def _somebody_makes_the_vectors(self) -> Self:
        left_out = [key for key, value in (("model", self.model), ("pooling", self.pooling)) if not value]
        if left_out and not self.class_:
            raise ValueError(f"an encoder needs {' and '.join(f'`{key}`' for key in left_out)}, or a `class`")
        return self

    @model_validator(mode="after")
    def _prompts_have_their_instructions(self) -> Self:
        sides = (
            ("query_prompt", self.query_prompt, self.instructions),
            ("document_prompt", self.document_prompt, self.document_instructions or self.instructions),
        )
        for key, prompt, instructions in sides:
            if "{instruction}" in prompt and "default" not in instructions:
                raise ValueError(f"a `{key}` with {{instruction}} needs `instructions` with a `default`")
        return self

    @model_validator(mode="after")
    def _keys_fit_the_pooling(self) -> Self:
        if self.class_:
            return self
        given = self.model_dump(exclude_defaults=True)
        for key, poolings in _POOLINGS_OF.items():
            if key in given and self.pooling not in poolings:
                raise ValueError(f"`{key}` needs `pooling` {', '.join(poolings)}, not {self.pooling!r}")
        if self.pooling == "encode" and not self.trust_remote_code:
            raise ValueError("`pooling: encode` needs `trust_remote_code: true`")
        if self.end_token and not self.append_eos:
            raise ValueError("`end_token` needs `append_eos: true`")
        if self.append_eos and (self.document_as_pair or self.document_model):
            raise ValueError("`append_eos` can not be combined with `document_as_pair` or `document_model`")
        return self

    @model_validator(mode="after")
    def _vllm_computes_it(self) -> Self:
        if self.engine != "vllm":
            return self
        given = self.model_dump(exclude_defaults=True)
        if refused := sorted(_NOT_IN_VLLM & given.keys()):
            key = refused[0]
            raise ValueError(f"`engine: vllm` can not be combined with `{key}: {given[key]}`; leave out one of them")
        if self.pooling == "encode":
            raise ValueError("`engine: vllm` needs `pooling` mean, cls, last or model, not 'encode'")
        if self.dtype == "fastest":
            raise ValueError("`engine: vllm` needs `dtype` auto, float32, bfloat16 or float16, not 'fastest'")
        return self

    def needs(self) -> Needs:
        checkpoints = [Source(self.model, self.revision), Source(self.document_model, self.document_revision)]
        engine = (vllm.needed(f"encoder {self.name!r} has `engine: vllm`"),) if self.engine == "vllm" else ()
        return Needs(
            modules=(*self.class_modules(), *engine),
            checkpoints=tuple(checkpoint for checkpoint in checkpoints if checkpoint.name),
            memory_gb=self.memory_gb,
        )

    @property
    def how(self) -> str:
        notes = {
            "bidirectional": self.attention == "bidirectional",
            "prompt left out": self.exclude_prompt_from_pooling,
            "two checkpoints": self.document_model != "",
            "by vLLM": self.engine == "vllm",
        }
        makes = super().how or str(self.pooling)
        return ", ".join([makes, *(note for note, holds in notes.items() if holds)])

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

    def known_dimension(self) -> int | None:
        """Return the components of a vector, if the row or files on this machine tell it before the model is loaded.

        Raises:
            ConfigError: a package or a folder has no checkpoint.
        """
        folder = sources.cached(self.model, self.revision) if self.model and not self.class_ else None
        if folder is None:
            return None
        if self.pooling == "model":
            return sources.dimension_of_modules(folder)
        return sources.read_number(folder / "config.json", "hidden_size")

    def of_documents(self) -> "EncoderRow":
        """Return the row whose `model` reads the documents."""
        if not self.document_model:
            return self
        changes = {"model": self.document_model, "revision": self.document_revision}
        return self.model_copy(update=changes | {"document_model": "", "document_revision": None})

    def encoding_inputs(self, task: str, *, device: str = "auto", side: Side | None = None) -> dict[str, Any]:
        """Return everything that changes a vector, for an artefact's key.

        Args:
            task: name of the task, which may have an instruction of its own.
            device: the device that will compute, e.g. `cuda` although the driver has no GPU. The device decides which
                dtype `auto` is.
            side: the side of the vectors. Settings of the other side alone are left out. None keeps both sides.

        Raises:
            ConfigError: a folder or package has no checkpoint.
            NotAtHand: the row names a Hub model without a revision.
        """
        prompts = prompts_for(self, task)
        of_side = {
            "query": (self, prompts.query, self.query_max_length or self.max_length),
            "document": (self.of_documents(), prompts.document, self.max_length),
        }
        return {
            **self.model_dump(include=_VECTOR_KEYS),
            **({"end_token": self.end_token} if self.end_token else {}),
            **self.loading_inputs(),
            **(self.class_inputs() or self._pass_inputs(device)),
            "dtype": self.resolved_dtype(device),
            "libraries": {**library_versions(), **self._engine_versions()},
            **{
                name: {**_weights(row), "prompt": prompt, "max_length": max_length}
                for name, (row, prompt, max_length) in of_side.items()
                if side in (None, name)
            },
        }

    def _pass_inputs(self, device: str) -> dict[str, str]:
        """Return what the key says of the texts that a vector depends on: in vLLM, texts share matrix products."""
        return {"engine": self.engine} if self.engine == "vllm" else pass_inputs(device)

    def _engine_versions(self) -> dict[str, str]:
        return {"vllm": vllm.version()} if self.engine == "vllm" else {}


def _weights(row: EncoderRow) -> dict[str, Any]:
    """Return what names a row's weights; an empty dictionary if only a class knows the weights."""
    return {"model": sources.identity(row.model, row.revision)} if row.model else {}


class Prompts(NamedTuple):
    """The texts that are put before queries and documents; "" for no prompt."""

    query: str
    document: str


def prompts_for(row: EncoderRow, task: str) -> Prompts:
    """Return a model's prompts for one task, with its instruction filled in."""
    task = without_condition(task)
    query, document = (
        instructions.get(task, instructions.get("default", ""))
        for instructions in (row.instructions, row.document_instructions or row.instructions)
    )
    return Prompts(
        query=row.query_prompt.replace("{instruction}", query),
        document=row.document_prompt.replace("{instruction}", document),
    )
