"""A wait that says how long it lasts and what for, and that ends at a deadline."""

import logging
import math
import time

logger = logging.getLogger(__name__)

LOOKS_EVERY_S = 1.0
"""Seconds between two looks at what is waited for."""

TELLS_EVERY_S = 60.0
"""Seconds between two lines about one wait."""


class Wait:
    """One wait, which begins when it is made.

    Args:
        limit_s: seconds without progress after which it ends.
        tells_at_once: whether the first line comes at the first look, and not after a minute.
    """

    def __init__(self, limit_s: float, *, tells_at_once: bool = False) -> None:
        self.limit_s = limit_s
        self.renew()
        if tells_at_once:
            self._told -= TELLS_EVERY_S

    def renew(self) -> None:
        """Note progress: the wait begins again."""
        self._began = self._told = time.monotonic()

    @property
    def lasted_s(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self._began

    def goes_on(self, for_what: str) -> bool:
        """Return whether the deadline is not reached yet. Once a minute, say what is waited for."""
        now = time.monotonic()
        if now - self._told >= TELLS_EVERY_S:
            self._told = now
            limit_min = math.ceil(self.limit_s / 60)
            logger.info("waiting for %s (%.0f of %d min)", for_what, (now - self._began) / 60, limit_min)
        return now - self._began < self.limit_s
