"""The client of a served reranker, which sends few requests at once, each with a deadline and retries."""

import logging
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from ray.exceptions import RayActorError, RayTaskError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError, ReplicaUnavailableError
from ray.serve.handle import DeploymentHandle, DeploymentResponse
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt
from tenacity.wait import wait_exponential, wait_random_exponential

from r2med_ray.blame import in_words, made_or_blamed
from r2med_ray.errors import DataError, StageError
from r2med_ray.reranking.pair_requests import PairRequest
from r2med_ray.reranking.pair_reranking import Scored
from r2med_ray.serving.metrics import Told
from r2med_ray.serving.reranker_app import PairScorerDeployment, in_flight
from r2med_ray.settings.resources import RerankResources

logger = logging.getLogger(__name__)

TRANSIENT = (BackPressureError, DeploymentUnavailableError, ReplicaUnavailableError, RayActorError, TimeoutError)
"""Errors after which other attempts may succeed. An error of the scorer itself, a `RayTaskError`, is final when it
comes twice."""

WAIT = wait_exponential(multiplier=0.2, max=5) + wait_random_exponential(multiplier=0.2, max=5)
"""Seconds before another attempt: at most 0.4, 0.8, 1.6, ... 10. Half of the time is random, so that clients don't
return all at once."""


@dataclass(slots=True)
class _Sent:
    """A request, and its pending answer; None if its pairs are to be sent again."""

    request: PairRequest
    response: DeploymentResponse[Scored] | None = None


class ServedReranker:
    """Scores pairs with a served pair scorer.

    No pair is lost: the number of scores in each answer is checked.

    Args:
        handle: the handle of a running `reranker_app.PairScorerDeployment`.
        resources: requests in flight, deadline and retries.
        model: the scorer's name, for metrics and logs.
        replicas: the most replicas that answer.
    """

    def __init__(
        self,
        handle: DeploymentHandle[PairScorerDeployment],
        resources: RerankResources,
        model: str = "reranker",
        replicas: int = 1,
    ) -> None:
        self._handle = handle
        self._resources = resources
        self._model = model
        self._in_flight = in_flight(resources, replicas)

    def score(self, requests: Sequence[PairRequest]) -> Iterator[Scored]:
        """Yield the scores of each request, in the order of the requests. Few are sent at once.

        Raises:
            StageError: a request failed for good. The message names the pair that is to blame, or a query of the
                request.
            DataError: the server answered with another number of scores than pairs.
        """
        waiting = deque(requests)
        sent: deque[_Sent] = deque()
        with Told(self._model, sum(len(request.candidates) for request in requests)) as told:
            while waiting or sent:
                while waiting and len(sent) < self._in_flight:
                    request = waiting.popleft()
                    sent.append(_Sent(request, self._send(request)))
                told.queue(waiting=len(waiting), in_flight=len(sent))
                request = sent[0].request
                with told.waiting_for_answer():
                    answer = self._answer(sent[0])
                sent.popleft()
                if len(answer.scores) != len(request.candidates):
                    counts = f"{len(answer.scores)} scores for {len(request.candidates)} pairs"
                    raise DataError(f"rerank: {request.unit}: {counts}")
                told.scored(len(answer.scores))
                yield answer

    def _send(self, request: PairRequest) -> DeploymentResponse[Scored]:
        return cast(DeploymentResponse[Scored], self._handle.score.remote(request.pairs))

    def _answer(self, sent: _Sent) -> Scored:
        """Return the scores of a request that was sent. After a failure that may pass, the request is sent again.

        After an error of the scorer itself it is sent again once, and then the pair that is to blame is looked for.
        """
        request = sent.request

        def answer(positions: Sequence[int]) -> Scored:
            is_all = len(positions) == len(request.candidates)
            return self._answer_at_last(sent if is_all else _Sent(request.of(positions)))

        what, unit = "query and document", request.unit
        return made_or_blamed(
            answer, request.names, what=what, stage="rerank", unit=unit, find_cause=_cause_in_scorer
        )

    def _answer_at_last(self, sent: _Sent) -> Scored:
        """Return the scores of a request, after as many attempts as the settings allow.

        Raises:
            RayTaskError: the scorer itself failed.
            StageError: the server did.
        """
        unit = sent.request.unit
        retrying = Retrying(
            retry=retry_if_exception(_is_transient),
            wait=WAIT,
            stop=stop_after_attempt(self._resources.retries + 1),
            before_sleep=lambda state: _warn(state, unit),
            reraise=True,
        )
        try:
            return retrying(self._attempt, sent)
        except RayTaskError:
            raise
        except TRANSIENT as error:
            unit = f"{unit}, after {retrying.statistics['attempt_number']} attempts"
            raise StageError("rerank", unit, repr(error)) from error

    def _attempt(self, sent: _Sent) -> Scored:
        response = sent.response or self._send(sent.request)
        sent.response = None
        return response.result(timeout_s=self._resources.timeout_s)


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
