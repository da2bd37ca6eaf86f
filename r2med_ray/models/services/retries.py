"""Decides after which failures a request is sent again, and how long the wait is.

A request is sent again after 408, 409, 425, 429 and 5xx, after a lost connection or a time-out, and after an answer
that isn't what the API promises. Every other status is final, and so is an answer in the other of the two modes,
streamed or whole. Waits grow exponentially with full jitter
(https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/), and are added to the wait that
`Retry-After` asks for.
"""

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt, stop_before_delay
from tenacity.wait import wait_random_exponential

from r2med_ray.errors import DataError, StageError
from r2med_ray.models.catalog.call_policy import CallPolicy

logger = logging.getLogger(__name__)

SENT_AGAIN = frozenset({408, 409, 425, 429})
"""Statuses below 500 that another attempt may cure."""

REFUSING = frozenset({401, 403, 404})
"""Statuses that every other request would get too, because the key, the model or the address is wrong."""


class GarbageError(DataError):
    """An answer isn't what the API promises. A request that raises this error is sent again; see `WrongModeError`."""


class WrongModeError(GarbageError):
    """A whole answer came in place of a stream, or a stream in place of a whole answer. That stays so."""


class RefusedError(StageError):
    """A service refuses every request, with a status of `REFUSING`."""


def retrying(policy: CallPolicy, *, before_sleep: Callable[[RetryCallState], None]) -> AsyncRetrying:
    """Return tenacity's controller for the attempts of one call.

    Args:
        policy: the number of attempts, and the lengths of the waits.
        before_sleep: called before each wait.
    """
    return AsyncRetrying(
        retry=retry_if_exception(lambda error: reason_to_retry(error) is not None),
        wait=_retry_after + wait_random_exponential(multiplier=policy.base_wait_s, max=policy.max_wait_s),
        stop=stop_after_attempt(policy.attempts) | stop_before_delay(policy.deadline_s),
        before_sleep=before_sleep,
        reraise=True,
    )


def refuses(error: BaseException) -> bool:
    """Return whether an error means that the service refuses every request."""
    from openai import APIStatusError

    return isinstance(error, APIStatusError) and error.status_code in REFUSING


def reason_to_retry(error: BaseException) -> str | None:
    """Return why a request is sent again: a status, "connection", "time-out" or "garbage"; None if it isn't sent."""
    import openai

    match error:
        case TimeoutError() | openai.APITimeoutError():
            return "time-out"
        case openai.APIConnectionError():
            return "connection"
        case openai.APIStatusError(status_code=status, code=code):
            curable = (status in SENT_AGAIN or status >= 500) and code != "insufficient_quota"
            return str(status) if curable else None
        case WrongModeError():
            return None
        case GarbageError() | openai.APIError():
            return "garbage"
    return None


def _retry_after(state: RetryCallState) -> float:
    """Return the seconds that the service's `Retry-After` (a number or a date) asks for; 0 if there is none."""
    from openai import APIStatusError

    error = state.outcome.exception() if state.outcome else None
    if not isinstance(error, APIStatusError):
        return 0.0
    asked = error.response.headers.get("retry-after", "0")
    try:
        seconds = float(asked) if asked.replace(".", "", 1).isdigit() else _seconds_until(asked)
    except ValueError:
        logger.warning("the service's Retry-After is neither seconds nor a date: %r", asked)
        seconds = 0.0
    return max(0.0, seconds)


def _seconds_until(date: str) -> float:
    at = parsedate_to_datetime(date)
    return (at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
