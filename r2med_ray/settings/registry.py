"""Tables of rows by name. A duplicate is an error, and the error for an unknown name gives the nearest valid one."""

import difflib
import fnmatch
from collections.abc import Iterable, Iterator, Mapping
from typing import Generic, TypeVar

from r2med_ray.errors import ConfigError

T = TypeVar("T")


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is most like `name`, whatever the case; None if no known name is like it."""
    by_lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.5)
    return by_lower[close[0]] if close else None


def nearest(name: str, known: Iterable[str]) -> str:
    """Return " Did you mean 'x'?" for the closest known name, or an empty text if there is none."""
    close = closest(name, known)
    return f" Did you mean {close!r}?" if close is not None else ""


class Registry(Mapping[str, T], Generic[T]):
    """An immutable table of rows with helpful errors.

    Args:
        kind: what a row is, for messages, e.g. "encoder".
        rows: name and row of each entry.
        aliases: other spelling → name.

    Raises:
        ConfigError: a name comes twice.
    """

    def __init__(self, kind: str, rows: Iterable[tuple[str, T]], aliases: Mapping[str, str] | None = None) -> None:
        self.kind = kind
        self._rows: dict[str, T] = {}
        self._aliases = dict(aliases or {})
        for name, row in rows:
            if name in self._rows or name in self._aliases:
                raise ConfigError(f"{kind} {name!r} is defined twice")
            self._rows[name] = row

    def __getitem__(self, name: str) -> T:
        canonical = self._aliases.get(name, name)
        if canonical not in self._rows:
            known = ", ".join(sorted(self._rows))
            hint = nearest(name, [*self._rows, *self._aliases])
            raise ConfigError(f"unknown {self.kind} {name!r}.{hint} Known: {known}")
        return self._rows[canonical]

    def __contains__(self, name: object) -> bool:
        return name in self._rows or name in self._aliases

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def matching(self, pattern: str) -> list[str]:
        """Return the names that a glob matches, in the order of the table.

        Raises:
            ConfigError: the glob matches nothing.
        """
        if not any(character in pattern for character in "*?["):
            self[pattern]
            return [self._aliases.get(pattern, pattern)]
        names = fnmatch.filter(self._rows, pattern)
        if not names:
            raise ConfigError(f"no {self.kind} matches {pattern!r}. Known: {', '.join(self._rows)}")
        return names
