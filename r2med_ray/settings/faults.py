"""Errors of several settings of a file, which are raised together."""

from collections.abc import Callable
from typing import TypeVar

from r2med_ray.errors import ConfigError

T = TypeVar("T")


class Faults:
    """Keeps the `ConfigError`s of calls, so that a user is told all of them at once."""

    def __init__(self) -> None:
        self._errors: list[ConfigError] = []

    def tried(self, get: Callable[[], T]) -> T | None:
        """Return what a call returns, or None if it raises a `ConfigError`, which is kept."""
        try:
            return get()
        except ConfigError as error:
            self._errors.append(error)
            return None

    def require_none(self) -> None:
        """Do nothing if no error was kept.

        Raises:
            ConfigError: the error that was kept; of several, one that lists them.
        """
        if len(self._errors) == 1:
            raise self._errors[0]
        if self._errors:
            raise ConfigError("\n  ".join(map(str, self._errors)))
