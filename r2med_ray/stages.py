"""First stages: what a benchmark file may name as a retriever, one class per kind, all kinds in one table.

A new kind is a class that fulfils `FirstStage`, a row of `KINDS`, which finds it by name, and a row of
`distributed.first_stages.PARTS`, which says what it does on a cluster. Nothing else asks what kind a stage is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

from r2med_ray.artifacts import ArtifactKey, Json
from r2med_ray.config import CANDIDATES, RetrieverConfig
from r2med_ray.corpus.layouts import LAYOUTS
from r2med_ray.corpus.records import file_digest
from r2med_ray.errors import ConfigError, DataError
from r2med_ray.indexing.bm25 import BM25_ROWS, BM25Row
from r2med_ray.indexing.keys import skipped_rows, terms_key, vectors_key
from r2med_ray.models.api_rows import ApiEncoderRow
from r2med_ray.models.catalog import Catalog
from r2med_ray.models.checkpoint_rows import CheckpointRow, LateInteractionRow, SparseRow
from r2med_ray.models.devices import Dtype
from r2med_ray.models.rows import EncoderRow
from r2med_ray.registry import nearest
from r2med_ray.retrieval.candidates import NUM_CANDIDATES
from r2med_ray.types import Compat, Corpus, CorpusShard, Task


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


@dataclass(frozen=True, slots=True, kw_only=True)
class LexicalStage:
    """BM25."""

    row: BM25Row
    compat: Compat
    drop_identical_ids: bool
    holds = "terms"

    @classmethod
    def resolve(cls, row: BM25Row, choice: Choice) -> "LexicalStage":
        return cls(
            row=row.with_parameters(k1=choice.retriever.k1, b=choice.retriever.b),
            compat=choice.compat,
            drop_identical_ids=bool(choice.ignore_identical_ids),
        )

    @property
    def label(self) -> str:
        return self.row.name

    @property
    def published(self) -> str | None:
        return "bm25" if self.row.name == "bm25-r2med" else None

    @property
    def prepared_as(self) -> str:
        return f"{self.compat} {self.row.analyzer}"

    def artifacts(self, task: str, corpus: Corpus, device: str) -> Sequence[ArtifactKey]:
        return [
            terms_key(shard, skipped_rows(corpus, shard, self.compat), self.row.analyzer) for shard in corpus.shards
        ]

    def settings(self) -> Mapping[str, Json]:
        return {"variant": self.row.describe(), "drop_identical_ids": self.drop_identical_ids}

    def inputs(self, task: Task, device: str) -> Mapping[str, Json]:
        return {
            "corpus": task.corpus.digest,
            "bm25": self.row.inputs(),
            "compat": self.compat,
            "drop_identical_ids": self.drop_identical_ids,
            **({"cut": "file row"} if self.compat == "r2med" else {}),
        }


VectorRow = TypeVar("VectorRow", EncoderRow, ApiEncoderRow)


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorStage(Generic[VectorRow]):
    """Vectors and their index, whoever makes them."""

    row: VectorRow
    index: str
    compat: Compat
    drop_identical_ids: bool
    holds = "vectors"

    @classmethod
    def resolve(cls, row: VectorRow, choice: Choice) -> Self:
        drop = choice.ignore_identical_ids
        return cls(
            row=row.under(choice.compat).model_copy(update=choice.row_changes()),
            index=choice.retriever.index or "Flat",
            compat=choice.compat,
            drop_identical_ids=choice.compat == "r2med" if drop is None else drop,
        )

    @property
    def label(self) -> str:
        return self.row.name if self.index == "Flat" else f"{self.row.name}[{self.index}]"

    @property
    def published(self) -> str | None:
        return self.row.published if self.index == "Flat" else None

    @property
    def prepared_as(self) -> str:
        return self.row.model_dump_json()

    def artifacts(self, task: str, corpus: Corpus, device: str) -> Sequence[ArtifactKey]:
        inputs = self.row.encoding_inputs(task, device=device, side="document")
        return [vectors_key(shard, corpus.duplicates_in(shard), inputs) for shard in corpus.shards]

    def settings(self) -> Mapping[str, Json]:
        return {
            **self.row.model_dump(mode="json", exclude_defaults=True),
            "index": self.index,
            "drop_identical_ids": self.drop_identical_ids,
        }

    def inputs(self, task: Task, device: str) -> Mapping[str, Json]:
        return {
            "corpus": task.corpus.digest,
            "shards": [shard.num_rows for shard in task.corpus.shards],
            "encoder": self.row.encoding_inputs(task.name, device=device),
            "expansion_prompt": self.row.expansion_prompt,
            "index": self.index,
            "compat": self.compat,
            "drop_identical_ids": self.drop_identical_ids,
        }


class DenseStage(VectorStage[EncoderRow]):
    """An encoder and its vector index."""


class ApiStage(VectorStage[ApiEncoderRow]):
    """An embedding service and the index of its vectors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidatesStage:
    """Ranked lists that exist already."""

    row: str
    """The name of lists that come with the task, or a path."""

    keep: int | None
    """How many documents of each list count; None for all."""

    compat: Compat
    drop_identical_ids = False
    published = None
    prepared_as = ""
    holds = "lists"

    @classmethod
    def resolve(cls, row: object, choice: Choice) -> Self:
        lists = choice.retriever.candidates
        known = LAYOUTS["nano"].candidates
        if lists is None or not (lists in known or Path(lists).suffix):
            hint = nearest(lists or "", known)
            raise ConfigError(f"candidates {lists!r}: no file.{hint} Known by name: {', '.join(known)}")
        keep = NUM_CANDIDATES if choice.retriever.safeguard == "drop" else None
        return cls(row=lists, keep=keep, compat=choice.compat)

    @property
    def label(self) -> str:
        return f"candidates:{self.row}" + ("" if self.keep is None else f"[:{self.keep}]")

    def path(self, task: Task) -> Path:
        """Return the file of a task's lists.

        Raises:
            DataError: there is none.
        """
        if self.row not in LAYOUTS["nano"].candidates:
            path = Path(self.row.replace("{task}", task.name))
            if not path.is_file():
                raise DataError(f"candidates of task {task.name!r}: {path} is no file")
            return path
        if self.row not in task.candidates:
            there = ", ".join(task.candidates) or "none"
            raise DataError(f"task {task.name!r} in {task.folder} has no candidates {self.row!r}; it has {there}")
        return Path(task.candidates[self.row])

    def artifacts(self, task: str, corpus: Corpus, device: str) -> Sequence[ArtifactKey]:
        return []

    def settings(self) -> Mapping[str, Json]:
        return {"lists": self.row, "safeguard": "keep" if self.keep is None else "drop"}

    def inputs(self, task: Task, device: str) -> Mapping[str, Json]:
        return {"candidates": file_digest(self.path(task)), "keep": self.keep}


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointStage:
    """An encoder that says itself what its vectors are, and the exact index of those."""

    row: CheckpointRow
    compat: Compat
    drop_identical_ids: bool
    holds = "vectors"
    artifact = "vectors"
    """Kind of artefact that holds a shard's vectors."""

    @classmethod
    def resolve(cls, row: CheckpointRow, choice: Choice) -> Self:
        return cls(
            row=row.model_copy(update=choice.row_changes()),
            compat=choice.compat,
            drop_identical_ids=bool(choice.ignore_identical_ids),
        )

    @property
    def label(self) -> str:
        return self.row.name

    @property
    def published(self) -> str | None:
        return None

    @property
    def prepared_as(self) -> str:
        return self.row.model_dump_json()

    def shard_key(self, corpus: Corpus, shard: CorpusShard, device: str) -> ArtifactKey:
        """Return the key of one shard's vectors."""
        inputs = self.row.encoding_inputs(device=device, side="document")
        return vectors_key(shard, corpus.duplicates_in(shard), inputs, self.artifact)

    def artifacts(self, task: str, corpus: Corpus, device: str) -> Sequence[ArtifactKey]:
        return [self.shard_key(corpus, shard, device) for shard in corpus.shards]

    def settings(self) -> Mapping[str, Json]:
        return {
            **self.row.model_dump(mode="json", exclude_defaults=True),
            "vectors": self.holds,
            "drop_identical_ids": self.drop_identical_ids,
        }

    def inputs(self, task: Task, device: str) -> Mapping[str, Json]:
        return {
            "corpus": task.corpus.digest,
            "shards": [shard.num_rows for shard in task.corpus.shards],
            self.artifact: self.row.encoding_inputs(device=device),
            "drop_identical_ids": self.drop_identical_ids,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseStage(CheckpointStage):
    """A sparse encoder (SPLADE): inner products of vocabulary weights."""

    row: SparseRow
    holds = "sparse vectors"
    artifact = "sparse-vectors"


@dataclass(frozen=True, slots=True, kw_only=True)
class LateInteractionStage(CheckpointStage):
    """Late interaction (ColBERT): MaxSim of token vectors."""

    row: LateInteractionRow
    holds = "token vectors"
    artifact = "token-vectors"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageKind:
    """How a kind of first stage is found by name and built."""

    noun: str
    rows: Callable[[Catalog], Mapping[str, Any]]
    settings: tuple[str, ...]
    """The keys beside `model` that it understands."""

    resolve: Callable[[Any, Choice], FirstStage]


KINDS: Sequence[StageKind] = (
    StageKind(noun="BM25", rows=lambda _: BM25_ROWS, settings=("k1", "b"), resolve=LexicalStage.resolve),
    StageKind(
        noun="a dense encoder",
        rows=lambda catalog: catalog.encoders,
        settings=("max_length", "dtype", "index"),
        resolve=DenseStage.resolve,
    ),
    StageKind(
        noun="an embedding service",
        rows=lambda catalog: catalog.api_encoders,
        settings=("max_length", "index"),
        resolve=lambda row, choice: ApiStage.resolve(row, replace(choice, dtype=None)),
    ),
    StageKind(
        noun="a sparse encoder",
        rows=lambda catalog: catalog.sparse,
        settings=("max_length", "dtype"),
        resolve=SparseStage.resolve,
    ),
    StageKind(
        noun="late interaction",
        rows=lambda catalog: catalog.late_interaction,
        settings=("max_length", "dtype"),
        resolve=LateInteractionStage.resolve,
    ),
    StageKind(
        noun="a list of candidates",
        rows=lambda _: {CANDIDATES: CANDIDATES},
        settings=("candidates", "safeguard"),
        resolve=CandidatesStage.resolve,
    ),
)


def resolve_stage(choice: Choice, catalog: Catalog) -> FirstStage:
    """Look up a retriever by name.

    Raises:
        ConfigError: no kind or several have the name, or a setting has no meaning for its kind.
    """
    name = choice.retriever.model
    found = [kind for kind in KINDS if name in kind.rows(catalog)]
    if not found:
        known = [known for kind in KINDS for known in kind.rows(catalog)]
        raise ConfigError(f"unknown retriever {name!r}.{nearest(name, known)} Known: {', '.join(known)}")
    if len(found) > 1:
        nouns = " and ".join(kind.noun for kind in found)
        raise ConfigError(f"retriever {name!r} is {nouns}; give your own row another name")
    [kind] = found
    for key in choice.retriever.model_dump(exclude={"model"}, exclude_none=True):
        if key not in kind.settings:
            raise ConfigError(
                f"retriever {name!r}: `{key}` has no meaning here, for {name!r} is {kind.noun}, which takes "
                f"{', '.join(kind.settings) or 'no settings'}"
            )
    return kind.resolve(kind.rows(catalog)[name], choice)
