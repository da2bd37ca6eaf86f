"""What came where a stream of events was asked for: the client library reads events only, and drops all else.

A line of a stream begins with `data:`, `event:`, `id:`, `retry:` or a colon (WHATWG HTML, 9.2.6). Other lines are the
service's own words, or a whole answer.
"""

import re
from collections.abc import AsyncIterator
from typing import Any

from r2med_ray.models.services.retries import GarbageError, WrongModeError
from r2med_ray.models.services.service_words import words_of

HEARD_BYTES = 16_384
"""Bytes of a body that are kept."""

_FIELD = re.compile(r"(?:data|event|id|retry)?:")
_WHOLE = re.compile(r'\s*\{.*"choices"\s*:', re.DOTALL)


def overhear(response: Any) -> bytearray:
    """Return a buffer that fills with the first `HEARD_BYTES` of a response's body while the body is read.

    Args:
        response: the response of a stream (`AsyncStream.response`) of which nothing has been read.
    """
    heard, read = bytearray(), response.aiter_bytes

    async def aiter_bytes() -> AsyncIterator[bytes]:
        async for chunk in read():
            heard.extend(chunk[: HEARD_BYTES - len(heard)])
            yield chunk

    response.aiter_bytes = aiter_bytes
    return heard


def require_stream(heard: bytearray) -> None:
    """Check the body of a stream that ended without a reason.

    Raises:
        WrongModeError: the body is a whole answer.
        GarbageError: there are lines that belong to no stream; quotes them.
    """
    text = heard.decode("utf-8", "replace")
    lines = text.splitlines()
    if len(heard) == HEARD_BYTES and _FIELD.match(text):
        lines.pop()  # it may be half a line
    said = "\n".join(line for line in lines if line.strip() and not _FIELD.match(line))
    if _WHOLE.match(said):
        raise WrongModeError(
            "a whole answer came in place of a stream; set `stream: false` in the model's row. The service sent: "
            + words_of(said)
        )
    if said:
        raise GarbageError(f"no stream came; the service sent: {words_of(said)}")
