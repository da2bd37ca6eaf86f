"""Clients of deployments: bounded in flight, with a deadline per request, retries, and every row accounted for."""

import logging
import random
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from ray.exceptions import RayActorError, RayTaskError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError, ReplicaUnavailableError
from ray.serve.handle import DeploymentHandle, DeploymentResponse

from r2med_ray.errors import DataError, StageError
from r2med_ray.protocols import Candidates
from r2med_ray.serving.reranker_app import Pair, PairScorerDeployment
from r2med_ray.settings.resources import RerankResources
from r2med_ray.types import QueryId, Reranking

logger = logging.getLogger(__name__)

TRANSIENT = (BackPressureError, DeploymentUnavailableError, ReplicaUnavailableError, RayActorError, TimeoutError)

CHARACTERS_PER_TOKEN = 4
"""Rough size of an English token; bounds a request before anything is tokenised."""

FORWARD_PASSES_PER_REQUEST = 4
"""Token budgets that a request holds: enough to sort by length, little enough to answer soon."""


class _Candidate(NamedTuple):
    """A pair, and where its score belongs."""

    query_id: QueryId
    place: int
    pair: Pair

    @property
    def tokens(self) -> int:
        return (len(self.pair[0]) + len(self.pair[1])) // CHARACTERS_PER_TOKEN + 1


@dataclass(slots=True)
class _Request:
    candidates: list[_Candidate]
    response: DeploymentResponse[list[float]] | None = None
    attempts: int = 0

    @property
    def unit(self) -> str:
        others = len({candidate.query_id for candidate in self.candidates}) - 1
        return f"query {self.candidates[0].query_id!r}" + (f" and {others} others" if others else "")


class ServedReranker:
    """Scores candidates with a served pair scorer.

    Pairs are packed into requests across queries, those of a document together, so that a scorer that embeds texts
    embeds each document about once. The packing depends on the pairs alone.

    Args:
        handle: of `reranker_app.PairScorerDeployment`.
        resources: token budget, requests in flight, deadline and retries.
    """

    def __init__(self, handle: DeploymentHandle[PairScorerDeployment], resources: RerankResources) -> None:
        self._handle = handle
        self._resources = resources
        self._jitter = random.Random(0)

    def score_all(self, work: Sequence[Candidates]) -> Reranking:
        """Score the candidates of many queries.

        Raises:
            StageError: a request failed for good; names a query of it.
            DataError: the server answered with another number of scores than pairs.
        """
        scores = {query.query_id: [0.0] * len(documents) for query, documents, _ in work}
        waiting = deque(self._requests(work))
        open_requests: deque[_Request] = deque()
        while waiting or open_requests:
            while waiting and len(open_requests) < self._resources.max_in_flight:
                request = waiting.popleft()
                pairs = [candidate.pair for candidate in request.candidates]
                request.response = cast(DeploymentResponse[list[float]], self._handle.score.remote(pairs))
                open_requests.append(request)
            request = open_requests.popleft()
            answer = self._answer(request)
            if answer is None:
                waiting.appendleft(request)
                continue
            if len(answer) != len(request.candidates):
                raise DataError(f"rerank: {request.unit}: {len(answer)} scores for {len(request.candidates)} pairs")
            for candidate, score in zip(request.candidates, answer, strict=True):
                scores[candidate.query_id][candidate.place] = score
        return Reranking(scores=scores)

    def _answer(self, request: _Request) -> list[float] | None:
        """Return the scores, or None where the request should be sent again."""
        assert request.response is not None
        try:
            return list(request.response.result(timeout_s=self._resources.timeout_s))
        except RayTaskError as error:
            raise StageError("rerank", request.unit, repr(error.cause)) from error
        except TRANSIENT as error:
            request.attempts += 1
            if request.attempts > self._resources.retries:
                unit = f"{request.unit}, after {request.attempts} attempts"
                raise StageError("rerank", unit, repr(error)) from error
            logger.warning("rerank: %s will be sent again: %r", request.unit, error)
            time.sleep(min(10.0, 0.2 * 2**request.attempts) * self._jitter.uniform(0.5, 1.0))
            return None

    def _requests(self, work: Sequence[Candidates]) -> Iterator[_Request]:
        """Pack the pairs in the order of documents; only a pair that is longer than a request makes a longer one."""
        candidates = [
            (document.doc_id, _Candidate(query.query_id, place, (query.text, document.content)))
            for query, documents, _ in work
            for place, document in enumerate(documents)
        ]
        limit = FORWARD_PASSES_PER_REQUEST * self._resources.token_budget
        packed: list[_Candidate] = []
        tokens = 0
        for _, candidate in sorted(candidates):
            if packed and tokens + candidate.tokens > limit:
                yield _Request(packed)
                packed, tokens = [], 0
            packed.append(candidate)
            tokens += candidate.tokens
        if packed:
            yield _Request(packed)
