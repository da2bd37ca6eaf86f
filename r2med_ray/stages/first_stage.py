"""What a first stage is: a retriever with all its settings, built from what a benchmark file says about it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from r2med_ray.models.catalog.devices import Dtype
from r2med_ray.settings.config import RetrieverConfig
from r2med_ray.storage.artifacts import ArtifactKey, Json
from r2med_ray.types import Compat, Corpus, Task


class FirstStage(Protocol):
    """A retriever with all its settings; hashable by value, and cheap to build."""

    @property
    def row(self) -> object:
        """What it is in its catalogue."""
        ...

    @property
    def compat(self) -> Compat: ...

    @property
    def drop_identical_ids(self) -> bool:
        """Whether a document whose id is the query's is left out."""
        ...

    @property
    def label(self) -> str:
        """What tables and logs call it."""
        ...

    @property
    def published(self) -> str | None:
        """The key of R2MED's published results; None where it has none."""
        ...

    @property
    def prepared_as(self) -> str:
        """What its artefacts depend on beside the corpus: stages of a kind that agree in it share them."""
        ...

    @property
    def holds(self) -> str:
        """What its artefacts hold, e.g. `vectors`."""
        ...

    @property
    def needs_model(self) -> bool:
        """Whether preparing it loads a model in the cluster, which then has what the encode pool reserves."""
        ...

    def artifacts(self, task: str, corpus: Corpus, device: str) -> Sequence[ArtifactKey]:
        """Return the keys of what is made of a corpus before the first search, one per shard."""
        ...

    def settings(self) -> Mapping[str, Json]:
        """Return what a reader of the report wants to know about it."""
        ...

    def inputs(self, task: Task, device: str) -> Mapping[str, Json]:
        """Return everything about corpus and retriever that changes a run."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What a benchmark file says about one retriever of a system."""

    retriever: RetrieverConfig
    compat: Compat
    ignore_identical_ids: bool | None
    dtype: Dtype | None
    """Of all encoders; a retriever's own goes before it."""

    def row_changes(self) -> dict[str, Any]:
        """Return the settings that override a model's row."""
        changes = {"dtype": self.retriever.dtype or self.dtype, "max_length": self.retriever.max_length}
        return {key: value for key, value in changes.items() if value}
