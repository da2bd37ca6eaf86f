"""What answers in actors, behind Ray Serve, or at a service elsewhere, until it is closed."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from r2med_ray.chat import LanguageModel, TextGenerator
from r2med_ray.distributed.searching import ShardedRetriever
from r2med_ray.models.services.chat import ChatModel
from r2med_ray.reranking.pair_requests import PairRequest
from r2med_ray.reranking.pair_reranking import Scored
from r2med_ray.serving.clients import ServedReranker
from r2med_ray.serving.metrics import CountedTexts
from r2med_ray.types import DocId, Query, QueryId, Run
from r2med_ray.workbench.catalog_rows import language_model_row


@dataclass(frozen=True, slots=True)
class SharedIndex:
    """An index whose shards live in actors."""

    retriever: ShardedRetriever[Any]
    stack: ExitStack

    @property
    def one_at_a_time(self) -> bool:
        """Whether every search reads the shards one by one, because they are not held."""
        return self.retriever.one_at_a_time

    def retrieve(
        self, queries: Sequence[Query], *, k: int, among: Mapping[QueryId, Sequence[DocId]] | None = None
    ) -> Run:
        """Return the k best documents for every query; see `demands.Find` for `among`."""
        return self.retriever.retrieve(queries, k=k, among=among)

    def close(self) -> None:
        """End the actors."""
        self.stack.close()


@dataclass(frozen=True, slots=True)
class ServedScorer:
    """A scorer's application, and its client."""

    client: ServedReranker
    stack: ExitStack

    def score(self, requests: Sequence[PairRequest]) -> Iterator[Scored]:
        """Yield the scores of each request, in the order of the requests."""
        return self.client.score(requests)

    def close(self) -> None:
        """End the application."""
        self.stack.close()


@dataclass(frozen=True, slots=True)
class AnsweringModel:
    """A language model that answers: the job's own engine, or a service elsewhere."""

    address: str | None
    """Where the job's own engine answers; None for a service, whose row says it."""

    stack: ExitStack
    stop: threading.Event
    computer: str = ""
    """What the job's own engine computes on."""

    def generator(self, model: LanguageModel) -> TextGenerator:
        """Return what asks it with the sampling of a row."""
        row = language_model_row(model)
        asked = row if self.address is None else row.for_replicas()
        return CountedTexts(ChatModel(asked, base_url=self.address, computer=self.computer, stop=self.stop), row.name)

    def close(self) -> None:
        """End the engine."""
        self.stack.close()
