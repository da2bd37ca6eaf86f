"""Clients of deployments: bounded in flight, with a deadline per request, retries, and every row accounted for."""

import logging
import random
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

from ray.exceptions import RayActorError, RayTaskError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError, ReplicaUnavailableError
from ray.serve.handle import DeploymentHandle, DeploymentResponse

from r2med_ray.config import RerankResources
from r2med_ray.errors import DataError, StageError
from r2med_ray.serving.reranker_app import (
    FORWARD_PASSES_PER_BATCH,
    Pair,
    PairScorerDeployment,
    estimated_tokens,
)
from r2med_ray.types import Document, Query, QueryId

logger = logging.getLogger(__name__)

TRANSIENT = (BackPressureError, DeploymentUnavailableError, ReplicaUnavailableError, RayActorError, TimeoutError)


@dataclass(slots=True)
class _Request:
    """Some of the candidates of one query."""

    query_id: QueryId
    start: int
    pairs: list[Pair]
    attempts: int = 0
    response: DeploymentResponse[list[float]] | None = field(default=None, repr=False)


class ServedReranker:
    """Scores candidates with a served pair scorer; several queries are open at once, so the server can batch them.

    Args:
        handle: of `reranker_app.PairScorerDeployment`.
        resources: requests in flight, deadline, retries and token budget.
    """

    def __init__(self, handle: DeploymentHandle[PairScorerDeployment], resources: RerankResources) -> None:
        self._handle = handle
        self._resources = resources
        self._jitter = random.Random(0)

    def score(self, query: Query, documents: Sequence[Document]) -> list[float]:
        return self.score_all([(query, documents)])[query.query_id]

    def score_all(self, work: Sequence[tuple[Query, Sequence[Document]]]) -> dict[QueryId, list[float]]:
        """Score the candidates of many queries.

        Raises:
            StageError: a request failed for good; names the query.
            DataError: the server answered with another number of scores than pairs.
        """
        scores = {query.query_id: [0.0] * len(documents) for query, documents in work}
        waiting = deque(self._requests(work))
        open_requests: deque[_Request] = deque()
        while waiting or open_requests:
            while waiting and len(open_requests) < self._resources.max_in_flight:
                request = waiting.popleft()
                request.response = cast(DeploymentResponse[list[float]], self._handle.score.remote(request.pairs))
                open_requests.append(request)
            request = open_requests.popleft()
            answer = self._answer(request)
            if answer is None:
                waiting.appendleft(request)
                continue
            if len(answer) != len(request.pairs):
                raise DataError(
                    f"rerank: query {request.query_id!r} got {len(answer)} scores for {len(request.pairs)}"
                )
            scores[request.query_id][request.start : request.start + len(answer)] = answer
        return scores

    def _answer(self, request: _Request) -> list[float] | None:
        """Return the scores, or None where the request should be sent again."""
        assert request.response is not None
        try:
            return list(request.response.result(timeout_s=self._resources.timeout_s))
        except RayTaskError as error:
            raise StageError("rerank", f"query {request.query_id!r}", repr(error.cause)) from error
        except TRANSIENT as error:
            request.attempts += 1
            if request.attempts > self._resources.retries:
                unit = f"query {request.query_id!r} after {request.attempts} attempts"
                raise StageError("rerank", unit, repr(error)) from error
            logger.warning("rerank: query %r will be sent again: %r", request.query_id, error)
            time.sleep(min(10.0, 0.2 * 2**request.attempts) * self._jitter.uniform(0.5, 1.0))
            return None

    def _requests(self, work: Sequence[tuple[Query, Sequence[Document]]]) -> Iterator[_Request]:
        """Cut the candidates of each query where a request would be larger than a batch of the server."""
        limit = FORWARD_PASSES_PER_BATCH * self._resources.token_budget
        for query, documents in work:
            start, tokens = 0, 0
            pairs: list[Pair] = []
            for position, document in enumerate(documents):
                pair = (query.text, document.content)
                size = estimated_tokens([pair])
                if pairs and tokens + size > limit:
                    yield _Request(query.query_id, start, pairs)
                    start, tokens, pairs = position, 0, []
                pairs.append(pair)
                tokens += size
            if pairs:
                yield _Request(query.query_id, start, pairs)
