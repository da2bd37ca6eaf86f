"""Decides which failures of a request are sent again, and how long is waited before that.

A request is sent again after 408, 409, 425, 429 and 5xx, after a lost connection or a time-out, and after an answer
that isn't what the API promises. Every other status is final. Waits grow exponentially with full jitter
(https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/) on top of what `Retry-After` asks for.
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
"""Statuses that every other request would get too: the key, the model or the address is wrong."""


class GarbageError(DataError):
    """An answer isn't what the API promises. Where a request raises it, the request is sent again."""


class RefusedError(StageError):
    """A service refuses whatever it is asked, with a status of `REFUSING`."""


def retrying(policy: CallPolicy, *, before_sleep: Callable[[RetryCallState], None]) -> AsyncRetrying:
    """Return what makes the attempts of one call.

    Args:
        policy: how often, and how long the waits are.
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
    """Return whether a service refuses whatever it is asked."""
    from openai import APIStatusError

    return isinstance(error, APIStatusError) and error.status_code in REFUSING


def reason_to_retry(error: BaseException) -> str | None:
    """Return why a request is sent again: a status, "connection", "time-out" or "garbage"; None where it isn't."""
    import openai

    match error:
        case TimeoutError() | openai.APITimeoutError():
            return "time-out"
        case openai.APIConnectionError():
            return "connection"
        case openai.APIStatusError(status_code=status, code=code):
            curable = (status in SENT_AGAIN or status >= 500) and code != "insufficient_quota"
            return str(status) if curable else None
        case GarbageError() | openai.APIError():
            return "garbage"
    return None


def _retry_after(state: RetryCallState) -> float:
    """Return the seconds that the service's `Retry-After`, a number or a date, asks for; 0 where there is none."""
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
