"""The base of every row of the catalogue: what all models have, what models need, and what tables show."""

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import metadata
from typing import Any, ClassVar, Literal, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from r2med_ray.errors import ConfigError
from r2med_ray.models.catalog.devices import Dtype, best_device, best_dtype
from r2med_ray.models.catalog.fastest import FastestDtype
from r2med_ray.models.catalog.needs import Needs
from r2med_ray.models.catalog.sources import is_on_hub
from r2med_ray.types import Compat

LIBRARIES = ("torch", "transformers", "sentence-transformers", "tokenizers")
"""Libraries whose versions may change a vector or a score."""


class Sections(Protocol):
    """A catalogue as its rows see it; see `load.Catalog`."""

    def section(self, name: str) -> Mapping[str, "Row"]:
        """Return the rows of a section by name."""
        ...


class Row(BaseModel):
    """A model, and how the model is used. Each kind of model has a subclass."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, serialize_by_alias=True)

    name: str = Field(pattern=r"^\S+$")
    """The name under which a benchmark file asks for it."""

    revision: str | None = Field(default=None, pattern=r"^[0-9a-f]{40}$")
    """Commit of the weights on the Hub. A Hub model without one is refused when it is loaded."""

    dtype: Dtype | Literal["auto", "fastest"] = "auto"
    """`auto` is bfloat16 on a GPU (float16 before Ampere) and float32 on a CPU. `fastest`, for encoders alone, is the
    same on a GPU; on a CPU it is float32 or bfloat16, as a job measures once per kind of CPU."""

    trust_remote_code: bool = False
    """Whether code that comes with the checkpoint may run."""

    allow_pickle: bool = False
    """Whether weights may be read that are published as a pickle only (`pytorch_model.bin`, `.pt`, `.ckpt`). Nothing
    but tensors is taken from it."""

    license: str = "not stated"
    """The licence of the weights, for tables."""

    memory_gb: float = Field(default=2.0, gt=0)
    """Memory that the weights and one batch take, roughly, in GB."""

    billions: float | None = Field(default=None, gt=0, exclude=True)
    """Billions of parameters outside the embeddings, from which a plan estimates hours. They are part of no key."""

    published: str | None = None
    """The model's key in R2MED's published results; None if it has no published results."""

    r2med: Mapping[str, Any] = Field(default_factory=dict)
    """Keys of this row for which R2MED's evaluation code had other values, with the values under `compat: r2med`."""

    can_measure: ClassVar[bool] = False
    """Whether rows of this kind take the dtype `fastest`."""

    _fastest: FastestDtype | None = PrivateAttr(default=None)
    """What `fastest` is where the model works. It is no setting, and keys have the dtype alone."""

    @model_validator(mode="after")
    def _measures_what_it_can(self) -> Self:
        if self.dtype == "fastest" and not self.can_measure:
            raise ValueError("`dtype: fastest` is for encoders; give auto, float32, bfloat16 or float16")
        return self

    @model_validator(mode="after")
    def _also_fits_under_r2med(self) -> Self:
        if self.r2med:
            self.under("r2med")
        return self

    def under(self, compat: Compat) -> Self:
        """Return the row as a system of that `compat` uses it. The result's `r2med` is empty."""
        changes = self.r2med if compat == "r2med" else {}
        kept = self.model_dump() | {"billions": self.billions}
        return self.model_validate(kept | dict(changes) | {"r2med": {}})

    def resolved_dtype(self, device: str = "auto") -> Dtype:
        """Return the row's dtype. For `auto`, return the dtype that suits the device.

        Raises:
            ConfigError: the dtype is `fastest`, the device a CPU, and `with_fastest` did not say what was measured.
        """
        device = best_device() if device == "auto" else device
        if self.dtype == "fastest" and device == "cpu":
            if self._fastest is None:
                raise ConfigError(f"{self.name}: `dtype: fastest` must be measured before its vectors have a key")
            return self._fastest.dtype
        return best_dtype(device) if self.dtype == "auto" or self.dtype == "fastest" else self.dtype

    def with_fastest(self, found: FastestDtype) -> Self:
        """Return the row with what the dtype `fastest` is on CPUs."""
        row = self.model_copy()
        row._fastest = found
        return row

    @property
    def found_dtype(self) -> FastestDtype | None:
        """What the dtype `fastest` is on CPUs; None if that isn't known, or wasn't asked for."""
        return self._fastest

    @property
    def chosen(self) -> dict[str, str]:
        """What a report adds to the settings where the dtype was measured."""
        return {"fastest": f"{self._fastest.dtype}: {self._fastest.describe()}"} if self._fastest else {}

    def loading_inputs(self) -> dict[str, str]:
        """Return what a key says about the loading of a checkpoint with code of its own; nothing for other rows."""
        return {"tensors_in_no_file": "built on the CPU"} if self.trust_remote_code else {}

    def needs(self) -> Needs:
        """Return what must be there before the model can be used."""
        return Needs(memory_gb=self.memory_gb)

    @property
    def may_read_pickles(self) -> bool:
        """Whether weights that are pickles are no reason to refuse the model."""
        return self.allow_pickle

    @property
    def key_variables(self) -> tuple[str, ...]:
        """Environment variables that hold the keys of the services that this row asks."""
        return self.needs().key_variables

    @property
    def is_served(self) -> bool:
        """Whether the job has to start a server for the model, as for some language models."""
        return False

    @property
    def named_rows(self) -> Mapping[str, str]:
        """Section → name of a row in that section that this row works with, e.g. a reranker's encoder."""
        return {}

    def rows_of(self, catalog: Sections) -> Iterator["Row"]:
        """Yield this row, and the rows that this row works with.

        Raises:
            ConfigError: the catalogue lacks one of these rows.
        """
        yield self
        for section, name in self.named_rows.items():
            yield from catalog.section(section)[name].rows_of(catalog)

    @property
    def how(self) -> str:
        """How the model works, in a few words."""
        return ""

    @property
    def shown_model(self) -> str:
        """The checkpoint, service or row that the model uses."""
        return ""

    @property
    def shown_length(self) -> str:
        """How many tokens of a text are kept; as "query / document" if the two differ."""
        return ""

    @property
    def shown_prompts(self) -> str:
        """The sides that have a prompt."""
        return ""

    @property
    def shown_license(self) -> str:
        return self.license

    @property
    def shown_memory(self) -> str:
        return f"{self.memory_gb:g} GB"

    @property
    def shown_revision(self) -> str:
        return ""


def length_cell(query: int | None, document: int) -> str:
    """Return the table's cell on the tokens kept of a query and of a document."""
    return f"{query} / {document}" if query else str(document)


def prompts_cell(query: str | None, document: str | None) -> str:
    """Return the table's cell on the sides that have a prompt."""
    return ", ".join(side for side, prompt in (("query", query), ("document", document)) if prompt)


def revision_cell(model: str, revision: str | None) -> str:
    """Return the table's cell on a checkpoint's commit; empty if the checkpoint is a folder or a package."""
    if not is_on_hub(model):
        return ""
    return revision[:12] if revision else "yours to pin"


@cache
def library_versions() -> Mapping[str, str]:
    """Return the versions of `LIBRARIES`, without importing them and without their build tags (`+cpu`)."""
    return {library: metadata.version(library).partition("+")[0] for library in LIBRARIES}
