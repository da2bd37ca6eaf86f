"""The client of a served reranker, which sends few requests at once, each with a deadline and retries."""

import logging
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, cast

from ray.exceptions import RayActorError, RayTaskError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError, ReplicaUnavailableError
from ray.serve.handle import DeploymentHandle, DeploymentResponse
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt
from tenacity.wait import wait_exponential, wait_random_exponential

from r2med_ray.blame import in_words, made_or_blamed
from r2med_ray.cuts import SideCuts, sum_of_sides
from r2med_ray.errors import DataError, StageError
from r2med_ray.protocols import Candidates
from r2med_ray.reranking.pair_reranking import Scored
from r2med_ray.serving.reranker_app import Pair, PairScorerDeployment
from r2med_ray.settings.resources import RerankResources
from r2med_ray.types import DocId, QueryId, Reranking

logger = logging.getLogger(__name__)

TRANSIENT = (BackPressureError, DeploymentUnavailableError, ReplicaUnavailableError, RayActorError, TimeoutError)
"""Errors after which other attempts may succeed. An error of the scorer itself, a `RayTaskError`, is final when it
comes twice."""

WAIT = wait_exponential(multiplier=0.2, max=5) + wait_random_exponential(multiplier=0.2, max=5)
"""Seconds before another attempt: at most 0.4, 0.8, 1.6, ... 10. Half of the time is random, so that clients don't
return all at once."""

CHARACTERS_PER_TOKEN = 4
"""Rough length of an English token. It limits the size of a request before anything is tokenised."""

FORWARD_PASSES_PER_REQUEST = 4
"""Size of a request in token budgets. With more pairs a scorer can sort more pairs by length; with fewer pairs it
answers sooner."""


class _Candidate(NamedTuple):
    """A pair, and the place of its score among the scores of its query."""

    query_id: QueryId
    place: int
    pair: Pair
    doc_id: DocId

    @property
    def tokens(self) -> int:
        return (len(self.pair[0]) + len(self.pair[1])) // CHARACTERS_PER_TOKEN + 1


@dataclass(slots=True)
class _Request:
    """Pairs that are scored together. `response` is the pending answer once the pairs were sent."""

    candidates: list[_Candidate]
    response: DeploymentResponse[Scored] | None = None

    @property
    def unit(self) -> str:
        """The queries of the request, in words, for errors."""
        others = len({candidate.query_id for candidate in self.candidates}) - 1
        return f"query {self.candidates[0].query_id!r}" + (f" and {others} others" if others else "")


class ServedReranker:
    """Scores candidates with a served pair scorer.

    A request holds pairs of several queries. The pairs of one document are sent together, so a scorer that embeds
    texts embeds each document about once. Only the pairs themselves decide which pairs share a request. No pair is
    lost: the number of scores in each answer is checked.

    Args:
        handle: the handle of a running `reranker_app.PairScorerDeployment`.
        resources: token budget, requests in flight, deadline and retries.
    """

    def __init__(self, handle: DeploymentHandle[PairScorerDeployment], resources: RerankResources) -> None:
        self._handle = handle
        self._resources = resources

    def score_all(self, work: Sequence[Candidates]) -> Reranking:
        """Return one score per candidate of every query.

        Raises:
            StageError: a request failed for good. The message names the pair that is to blame, or a query of the
                request.
            DataError: the server answered with another number of scores than pairs.
        """
        scores = {query.query_id: [0.0] * len(documents) for query, documents, _ in work}
        cuts: list[SideCuts | None] = []
        waiting = deque(self._requests(work))
        in_flight: deque[_Request] = deque()
        while waiting or in_flight:
            while waiting and len(in_flight) < self._resources.max_in_flight:
                request = waiting.popleft()
                request.response = self._send(request)
                in_flight.append(request)
            request = in_flight.popleft()
            answer = self._answer(request)
            got, wanted = len(answer.scores), len(request.candidates)
            if got != wanted:
                raise DataError(f"rerank: {request.unit}: {got} scores for {wanted} pairs")
            cuts.append(answer.cuts)
            for candidate, score in zip(request.candidates, answer.scores, strict=True):
                scores[candidate.query_id][candidate.place] = score
        return Reranking(scores=scores, cuts=sum_of_sides(cuts))

    def _send(self, request: _Request) -> DeploymentResponse[Scored]:
        pairs = [candidate.pair for candidate in request.candidates]
        return cast(DeploymentResponse[Scored], self._handle.score.remote(pairs))

    def _answer(self, request: _Request) -> Scored:
        """Return the scores of a request that was sent. After a failure that may pass, the request is sent again.

        After an error of the scorer itself it is sent again once, and then the pair that is to blame is looked for.
        """
        candidates = request.candidates

        def answer(positions: Sequence[int]) -> Scored:
            is_all = len(positions) == len(candidates)
            return self._answer_at_last(request if is_all else _Request([candidates[at] for at in positions]))

        names = [f"{candidate.query_id} {candidate.doc_id}" for candidate in candidates]
        return made_or_blamed(
            answer, names, what="query and document", stage="rerank", unit=request.unit, find_cause=_cause_in_scorer
        )

    def _answer_at_last(self, request: _Request) -> Scored:
        """Return the scores of a request, after as many attempts as the settings allow.

        Raises:
            RayTaskError: the scorer itself failed.
            StageError: the server did.
        """
        retrying = Retrying(
            retry=retry_if_exception(_is_transient),
            wait=WAIT,
            stop=stop_after_attempt(self._resources.retries + 1),
            before_sleep=lambda state: _warn(state, request.unit),
            reraise=True,
        )
        try:
            return retrying(self._attempt, request)
        except RayTaskError:
            raise
        except TRANSIENT as error:
            unit = f"{request.unit}, after {retrying.statistics['attempt_number']} attempts"
            raise StageError("rerank", unit, repr(error)) from error

    def _attempt(self, request: _Request) -> Scored:
        response = request.response or self._send(request)
        request.response = None
        return response.result(timeout_s=self._resources.timeout_s)

    def _requests(self, work: Sequence[Candidates]) -> Iterator[_Request]:
        """Pack the pairs into requests, in the order of their documents.

        A request is longer than the limit only if its single pair is longer.
        """
        candidates = [
            (document.doc_id, _Candidate(query.query_id, place, (query.text, document.content), document.doc_id))
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


def _cause_in_scorer(error: Exception) -> str | None:
    """Return an error of the scorer itself in words; None for any other."""
    if not isinstance(error, RayTaskError):
        return None
    return in_words(error.cause if isinstance(error.cause, Exception) else error)


def _is_transient(error: BaseException) -> bool:
    return isinstance(error, TRANSIENT) and not isinstance(error, RayTaskError)


def _warn(state: RetryCallState, unit: str) -> None:
    assert state.outcome is not None
    logger.warning("rerank: %s will be sent again: %r", unit, state.outcome.exception())
