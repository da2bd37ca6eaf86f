"""How alike two texts are by their runs of five words; exact, over an index of the runs."""

import re
from collections import Counter, defaultdict
from typing import TypeAlias

RUN = 5
"""Words of a run."""

Runs: TypeAlias = frozenset[tuple[str, ...]]

_WORD = re.compile(r"\w+")


def words_of(text: str) -> list[str]:
    """Return the words of a text in lower case, without punctuation."""
    return _WORD.findall(text.lower())


def runs_of(text: str) -> Runs:
    """Return the runs of five words of a text; a shorter text is one run."""
    words = words_of(text)
    return frozenset(tuple(words[at : at + RUN]) for at in range(max(1, len(words) - RUN + 1)))


def copied_share(runs: Runs, source: Runs) -> float:
    """Return the share of a text's runs that another text has too."""
    return len(runs & source) / len(runs)


class Shelf:
    """Texts, of which the one that is most like another text is found without comparing all of them."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}
        self._holding: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)

    def add(self, name: str, runs: Runs) -> None:
        """Put a text on the shelf; one whose name is there already is left out."""
        if name in self._sizes:
            return
        self._sizes[name] = len(runs)
        for run in runs:
            self._holding[run].append(name)

    def nearest(self, runs: Runs) -> tuple[str, float]:
        """Return the name of the text with the greatest Jaccard similarity, and this similarity; `("", 0)` if no text
        shares a run. Of equally similar texts, the first by name counts.
        """
        shared = Counter(name for run in runs for name in self._holding.get(run, ()))
        alike = {name: both / (len(runs) + self._sizes[name] - both) for name, both in shared.items()}
        return min(alike.items(), key=lambda item: (-item[1], item[0]), default=("", 0.0))
