"""The base of every row of the catalogue: what all models have, what they need, and what tables show of them."""

from collections.abc import Iterator, Mapping
from importlib import metadata
from typing import Any, Literal, Protocol, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from r2med_ray.models.catalog.devices import Dtype, best_device, best_dtype
from r2med_ray.models.catalog.needs import Needs
from r2med_ray.models.catalog.sources import PACKAGE, is_folder
from r2med_ray.types import Compat

LIBRARIES = ("torch", "transformers", "sentence-transformers", "tokenizers")
"""Libraries whose versions may change a vector or a score."""

Side: TypeAlias = Literal["query", "document"]


class Sections(Protocol):
    """A catalogue as its rows see it; see `load.Catalog`."""

    def section(self, name: str) -> Mapping[str, "Row"]:
        """Return the rows of a section by name."""
        ...


class Row(BaseModel):
    """A model, and how it is meant to be used. A kind of model is a subclass."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, serialize_by_alias=True)

    name: str = Field(pattern=r"^\S+$")
    revision: str | None = Field(default=None, pattern=r"^[0-9a-f]{40}$")
    """Commit of the weights on the Hub. A Hub model without one is refused when it is loaded."""

    dtype: Dtype | Literal["auto"] = "auto"
    """`auto` is `devices.best_dtype` of the device that the model runs on."""

    trust_remote_code: bool = False
    license: str = "not stated"
    memory_gb: float = Field(default=2.0, gt=0)
    """Roughly what the weights and one batch take in memory, in GB."""

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
        """Return the row as a system of that `compat` uses it; its `r2med` is empty."""
        changes = self.r2med if compat == "r2med" else {}
        return self.model_validate(self.model_dump() | dict(changes) | {"r2med": {}})

    def resolved_dtype(self, device: str = "auto") -> Dtype:
        """Return the row's dtype, or the one that suits the device."""
        if self.dtype != "auto":
            return self.dtype
        return best_dtype(best_device() if device == "auto" else device)

    def needs(self) -> Needs:
        """Return what must be there before the model can be used."""
        return Needs(memory_gb=self.memory_gb)

    @property
    def key_variables(self) -> tuple[str, ...]:
        """Environment variables that hold the keys of the services that this row asks."""
        return self.needs().key_variables

    @property
    def is_served(self) -> bool:
        """Whether the job has to start a server for it: true of some language models."""
        return False

    @property
    def named_rows(self) -> Mapping[str, str]:
        """Section → name of the row of that section which this one works with, e.g. the encoder of a reranker."""
        return {}

    def rows_of(self, catalog: Sections) -> Iterator["Row"]:
        """Yield this row, and the rows that it works with.

        Raises:
            ConfigError: the catalogue lacks one of them.
        """
        yield self
        for section, name in self.named_rows.items():
            yield from catalog.section(section)[name].rows_of(catalog)

    @property
    def how(self) -> str:
        """How it works, in a few words."""
        return ""

    @property
    def shown_model(self) -> str:
        """The checkpoint, service or row that it asks."""
        return ""

    @property
    def shown_length(self) -> str:
        """How many tokens of a text it keeps, as "query / document" where they differ."""
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
    """Return what the table says about the tokens kept of a query and of a document."""
    return f"{query} / {document}" if query else str(document)


def prompts_cell(query: str | None, document: str | None) -> str:
    """Return the sides that have a prompt, for the table."""
    return ", ".join(side for side, prompt in (("query", query), ("document", document)) if prompt)


def revision_cell(model: str, revision: str | None) -> str:
    """Return what the table says about a checkpoint's commit; nothing where its files are on this machine."""
    if not model or is_folder(model) or model.startswith(PACKAGE):
        return ""
    return revision[:12] if revision else "yours to pin"


def library_versions() -> dict[str, str]:
    """Return the versions of `LIBRARIES` without importing them and without their build tags (`+cpu`)."""
    return {library: metadata.version(library).partition("+")[0] for library in LIBRARIES}
