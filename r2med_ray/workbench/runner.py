"""Who does the work that the store doesn't save: a cluster (`on_cluster`) or this process (`in_process`)."""

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

from r2med_ray.chat import LanguageModel, TextGenerator
from r2med_ray.first_stage import FirstStage, ShardedFirstStage
from r2med_ray.first_stages.checkpoints import Asked, LateInteractionFirstStage
from r2med_ray.first_stages.preparation import Corpora, Questions
from r2med_ray.models.catalog.fastest import FastestDtype
from r2med_ray.protocols import Retriever, Scorer
from r2med_ray.reranking.pair_requests import PairRequest
from r2med_ray.reranking.pair_reranking import Scored
from r2med_ray.sentences import Shares
from r2med_ray.settings.pools import Pool
from r2med_ray.types import DocId, Query, QueryId, Run, Task
from r2med_ray.workbench.ledger import Need


class OpenIndex(Retriever, Protocol):
    """The index of one corpus, ready for searches until it is closed."""

    @property
    def one_at_a_time(self) -> bool:
        """Whether every search reads the shards one by one, because they are not held."""
        ...

    def retrieve(
        self, queries: Sequence[Query], *, k: int, among: Mapping[QueryId, Sequence[DocId]] | None = None
    ) -> Run:
        """Return a ranking for every query; see `demands.Find` for `among`."""
        ...

    def close(self) -> None:
        """Free what it holds."""
        ...


class RunningScorer(Protocol):
    """A scorer of pairs that runs until it is closed."""

    def score(self, requests: Sequence[PairRequest]) -> Iterator[Scored]:
        """Yield the scores of each request, in the order of the requests."""
        ...

    def close(self) -> None: ...


class RunningModel(Protocol):
    """A language model that answers until it is closed."""

    def generator(self, model: LanguageModel) -> TextGenerator:
        """Return what asks it with the sampling of a row."""
        ...

    def close(self) -> None: ...


class Runner(Protocol):
    """Does the work of a benchmark, and notes it in its worklog."""

    begins_at_the_end: bool
    """Whether shards are made from the last to the first: another job makes the same ones from the first on. Each
    looks whether a shard is stored before it makes it, so the two meet in the middle."""

    measures: bool
    """Whether the dtype `fastest` is measured where the store doesn't know it. For a plan, it isn't."""

    @property
    def stop(self) -> threading.Event:
        """Once it is set, all that is being prepared or written ends soon, with a StoppedError."""
        ...

    @property
    def device(self) -> str:
        """What encoders compute on: `cpu` or `cuda`. It is part of what names their answers."""
        ...

    @property
    def capacity(self) -> Need:
        """All that can be reserved."""
        ...

    @property
    def gpu(self) -> str | None:
        """Kind of the GPUs, as Ray names it; None if it isn't known, or there are none."""
        ...

    def workers(self, stage: Literal["encode", "tokenize", "rerank"]) -> Pool:
        """Return who does a stage."""
        ...

    def describe(self) -> str:
        """Return what there is to compute with, for people."""
        ...

    def reservations(
        self, first_stages: Iterable[FirstStage], scorers: Iterable[Scorer], models: Iterable[LanguageModel]
    ) -> Iterator[str]:
        """Yield what each stage that these need would reserve, for people.

        Raises:
            CapacityError: a scorer has no room.
        """
        ...

    def preparing(self, first_stage: ShardedFirstStage) -> Need:
        """Return what preparing a corpus or queries reserves at the least."""
        ...

    def searching(self, task: Task, first_stage: ShardedFirstStage) -> Need:
        """Return what an open index reserves."""
        ...

    def scoring(self, scorer: Scorer) -> Need: ...

    def writing(self, model: LanguageModel) -> Need:
        """Return what a language model reserves; nothing where a service elsewhere answers.

        Raises:
            NotAtHand: it can never be held here.
        """
        ...

    def engine(self, model: LanguageModel) -> str:
        """Return a name that two rows share whose texts one running model can write."""
        ...

    def scoring_inputs(self, scorer: Scorer) -> Mapping[str, Any]:
        """Return everything about a scorer that changes a score, for artefact keys."""
        ...

    def require(self, row: object) -> None:
        """Check that what a row needs is at hand, before anything is begun for it.

        Raises:
            NotAtHand: names what is missing.
        """
        ...

    def prepare(self, corpora: Corpora, sets: Questions) -> None:
        """ENCODE: store what is made of corpora and queries, whose first stages share one model.

        What is stored is left alone.

        Raises:
            StageError: a shard or a set of queries failed; what was finished stays.
            StoppedError: `stop` was called meanwhile.
        """
        ...

    def fastest(self, first_stage: ShardedFirstStage) -> FastestDtype:
        """Return in which dtype a first stage's model is fastest on the CPUs that encode; measure it at need.

        Raises:
            StageError: the model can't compute in one of the dtypes.
        """
        ...

    def sentence_shares(self, first_stage: LateInteractionFirstStage, asked: Sequence[Asked]) -> list[list[Shares]]:
        """Return the share of each sentence in the scores that are asked about, told where the model runs.

        Raises:
            StageError: the model can't be loaded or read the texts.
        """
        ...

    @property
    def searches_at_once(self) -> int:
        """How many indexes may be opened and searched at the same time, where all of them have room."""
        ...

    def holds_shards(self, held_bytes: int) -> bool:
        """Return whether the shards of an index stay in memory between searches. See `resources.search.held_shards`.

        Args:
            held_bytes: what the indexes of all its shards would hold.
        """
        ...

    def open_index(self, task: Task, first_stage: ShardedFirstStage) -> OpenIndex:
        """INDEX: load the index of a corpus that is prepared."""
        ...

    @property
    def pair_budget(self) -> int:
        """Tokens of one forward pass of a scorer, which decide how many pairs are scored together."""
        ...

    def start_scorer(self, scorer: Scorer, requests: int) -> RunningScorer:
        """Start a scorer that so many requests wait for."""
        ...

    def start_model(self, model: LanguageModel) -> RunningModel: ...
