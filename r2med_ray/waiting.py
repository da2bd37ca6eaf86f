"""A wait that says how long it lasts and what for, and that ends at a deadline."""

import logging
import time

logger = logging.getLogger(__name__)

TELLS_EVERY_S = 60.0
"""Seconds between two lines about one wait."""


class Wait:
    """One wait, which begins when it is made.

    Args:
        limit_s: seconds without progress after which it ends.
    """

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self.renew()

    def renew(self) -> None:
        """Note progress: the wait begins again."""
        self._began = self._told = time.monotonic()

    def goes_on(self, for_what: str) -> bool:
        """Return whether the deadline is not reached yet. Once a minute, say what is waited for."""
        now = time.monotonic()
        if now - self._told >= TELLS_EVERY_S:
            self._told = now
            logger.info("waiting for %s (%.0f of %.0f min)", for_what, (now - self._began) / 60, self.limit_s / 60)
        return now - self._began < self.limit_s
