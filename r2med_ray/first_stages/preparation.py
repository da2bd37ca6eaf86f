"""What is still to be made before a search, listed by the key of its artefact.

What two tasks or two first stages share is listed, and made, once.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, Protocol, TypeAlias, TypeVar

from r2med_ray.corpora import CorpusShard
from r2med_ray.corpus.pieces import PIECE_BYTES
from r2med_ray.first_stage import MadeBy, ShardedFirstStage
from r2med_ray.first_stages.bad_documents import key_of_stored
from r2med_ray.first_stages.query_blocks import blocks
from r2med_ray.first_stages.query_reuse import take_from_whole
from r2med_ray.indexing.keys import ALONE
from r2med_ray.settings.compat import Rules
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import ArtifactKey
from r2med_ray.storage.places import at_once
from r2med_ray.types import OnBadDocument, Query, Task

STAGES: Mapping[MadeBy, str] = {"encode": "encode", "ask a service": "encode", "tokenize": "tokenize"}
"""Work → the stage of the flow that errors and reports name."""

Corpora: TypeAlias = Sequence[tuple[Task, ShardedFirstStage]]
"""Tasks, each with a first stage that is going to search its corpus. All are of one kind and one `artifact_group`."""


def maker_label(first_stage: ShardedFirstStage) -> str:
    """Return the name of what makes a first stage's artefacts, which its approximate indexes share."""
    return (first_stage.exact or first_stage).label


class QuerySet(NamedTuple):
    """Queries that a first stage is asked together."""

    task: Task
    first_stage: ShardedFirstStage
    queries: Sequence[Query]


Questions: TypeAlias = Sequence[QuerySet]
"""Query sets, each of another task or first stage; the first stages as in `Corpora`."""


class Work(Protocol):
    """One artefact that is to be made."""

    @property
    def key(self) -> ArtifactKey: ...

    @property
    def num_documents(self) -> int:
        """How many documents or queries it is made of."""
        ...


W = TypeVar("W", bound=Work)


class Left(NamedTuple, Generic[W]):
    """The work that is left to do."""

    work: list[W]
    stored: int
    """How many artefacts the store has already."""

    @property
    def num_documents(self) -> int:
        """How many documents or queries are left."""
        return sum(item.num_documents for item in self.work)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardWork:
    """One shard of which an artefact is to be made."""

    task: str
    shard: CorpusShard
    key: ArtifactKey
    """Names what is made of it."""

    label: str = ""
    """Name of the first stage, for lists of artefacts."""

    skip_rows: tuple[int, ...] = ()
    """Rows of the shard that are not read."""

    pieces: int = 1
    """How many pieces the shard is made in."""

    piece: int = 0
    """The piece that is to be made, counted from 0. It has no meaning for a whole shard."""

    whole: "ShardWork | None" = None
    """The work on the shard that this is a piece of; None if it is the whole shard."""

    on_bad_document: OnBadDocument = "error"
    is_last_attempt: bool = False

    @property
    def alone(self) -> frozenset[int]:
        """Rows of the shard that are encoded each in a call of its own."""
        return frozenset((self.whole or self).key.inputs.get(ALONE, ()))

    @property
    def unit(self) -> str:
        whole = f"{self.task}, shard {self.shard.index}"
        return whole if self.whole is None else f"{whole}, piece {self.piece + 1} of {self.pieces}"

    @property
    def num_documents(self) -> int:
        """How many documents it is; of a piece, the mean of the shard's pieces, since only its reader knows more."""
        documents = self.shard.num_rows - len(self.skip_rows)
        if self.whole is None:
            return documents
        return documents * (self.piece + 1) // self.pieces - documents * self.piece // self.pieces

    @property
    def weight(self) -> int:
        """How heavy a piece of it is, in tenths of the heaviest."""
        return 10 * self.shard.text_bytes // (self.pieces * PIECE_BYTES)

    def in_pieces(self) -> "list[ShardWork]":
        """Return the work on each piece, or the whole if there is one."""
        if self.pieces == 1:
            return [self]
        return [replace(self, piece=piece, whole=self, key=self._key_of(piece)) for piece in range(self.pieces)]

    def _key_of(self, piece: int) -> ArtifactKey:
        inputs = {"of": self.key.name, "piece": piece, "pieces": self.pieces}
        return ArtifactKey(f"{self.key.kind}-piece", inputs)

    def last_attempt(self) -> "ShardWork":
        """Return the work of the last attempt at it.

        How many documents may be left out depends on the whole shard, so one worker then makes all of it.
        """
        is_left_to_whole = self.whole is not None and self.on_bad_document == "skip"
        return replace(self.whole if self.whole and is_left_to_whole else self, is_last_attempt=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryWork:
    """Queries of one task of which an artefact is to be made."""

    task: str
    queries: tuple[Query, ...]
    rules: Rules
    """The rules of the first stage that asks, which may differ from those of others with the same model."""

    key: ArtifactKey
    label: str = ""
    is_last_attempt: bool = False

    def last_attempt(self) -> "QueryWork":
        """Return the work of the last attempt at it."""
        return replace(self, is_last_attempt=True)

    @property
    def unit(self) -> str:
        return f"the queries of {self.task}"

    @property
    def num_documents(self) -> int:
        return len(self.queries)


Piece: TypeAlias = ShardWork | QueryWork
"""One artefact that is to be made, and what it is made of."""


def shards_left(
    store: ArtifactStore, corpora: Corpora, device: str, *, from_the_end: bool = False
) -> Left[ShardWork]:
    """Return the shards whose artefact isn't stored, each artefact once: the heaviest pieces first, else in the order
    of the tasks."""

    def work_on(item: tuple[Task, ShardedFirstStage, CorpusShard]) -> ShardWork:
        task, first_stage, shard = item
        key = first_stage.shard_key(task.name, task.corpus, shard, device)
        return ShardWork(
            task=task.name,
            shard=shard,
            key=key_of_stored(store, first_stage.on_bad_document, key),
            label=first_stage.label,
            skip_rows=first_stage.skip_rows(task.corpus, shard),
            pieces=first_stage.pieces(shard),
            on_bad_document=first_stage.on_bad_document,
        )

    shards = [(task, first_stage, shard) for task, first_stage in corpora for shard in task.corpus.prepared]
    left = _left(store, at_once(work_on, shards))
    left.work.sort(key=lambda work: -work.weight)
    return left._replace(work=left.work[::-1]) if from_the_end else left


def queries_left(store: ArtifactStore, questions: Questions, device: str) -> Left[QueryWork] | None:
    """Return the queries whose artefact isn't stored, each artefact once; None where nothing is made of queries.

    Vectors of some queries of a task are first taken from those of all its queries, where these are stored.
    """
    work = []
    for task, first_stage, queries in questions:
        for block in blocks(queries):
            key = first_stage.queries_key(task.name, block, device)
            if key is None:
                continue
            take_from_whole(store, task, first_stage, block, key, device)
            work.append(
                QueryWork(
                    task=task.name, queries=tuple(block), rules=first_stage.rules, key=key, label=first_stage.label
                )
            )
    return _left(store, work) if work else None


def _left(store: ArtifactStore, work: Iterable[W]) -> Left[W]:
    distinct: dict[str, W] = {}
    for item in work:
        distinct.setdefault(item.key.name, item)
    found = store.find_all(item.key for item in distinct.values())
    missing = [item for item, artifact in zip(distinct.values(), found, strict=True) if artifact is None]
    return Left(missing, len(distinct) - len(missing))
