"""How a service is asked: how many calls at once, how often, and for how long."""

from pydantic import BaseModel, ConfigDict, Field


class CallPolicy(BaseModel):
    """The limits on calls of one service."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    max_in_flight: int = Field(default=8, ge=1)
    """Calls at once. A call that waits for its next attempt keeps its place, which slows down the others."""

    timeout_s: float = Field(default=120.0, gt=0)
    """Seconds that one request may take, from its first byte to the last of its answer."""

    attempts: int = Field(default=8, ge=1)
    deadline_s: float = Field(default=900.0, gt=0)
    """Seconds that one call may take: all its requests and the waits between them."""

    base_wait_s: float = Field(default=1.0, ge=0)
    """The longest wait before the second attempt, in seconds; it doubles with every further attempt."""

    max_wait_s: float = Field(default=60.0, ge=0)
    """The longest wait before any attempt, in seconds, unless `Retry-After` asks for more."""

    use_proxies: bool = True
    """Whether requests take the way that HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY say. Requests to a loopback
    address never do. Requests to a model that the job serves do so only where the row sets this key."""
