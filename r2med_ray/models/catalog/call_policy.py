"""The limits on calls of a service: how many calls at once, how many attempts, and how long."""

from pydantic import BaseModel, ConfigDict, Field


class CallPolicy(BaseModel):
    """The limits on calls of one service."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    max_in_flight: int = Field(default=8, ge=1)
    """Calls at once. A call that waits for its next attempt keeps its place, which slows down the others."""

    timeout_s: float = Field(default=120.0, gt=0)
    """Seconds that one request may take, from the first byte of the request to the last byte of the answer."""

    attempts: int = Field(default=8, ge=1)
    """Requests of one call, the first one included."""

    deadline_s: float = Field(default=900.0, gt=0)
    """Seconds that one call may take, with all its requests and the waits between the requests."""

    base_wait_s: float = Field(default=1.0, ge=0)
    """The longest wait before the second attempt, in seconds. The wait doubles with every further attempt."""

    max_wait_s: float = Field(default=60.0, ge=0)
    """The longest wait before any attempt, in seconds, unless `Retry-After` asks for more."""

    use_proxies: bool = True
    """Whether requests use the proxies of HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY. Requests to a loopback
    address never use a proxy. Requests to a model that the job serves use a proxy only if the row sets this key."""
