"""Reads an order out of a language model's answer, and repairs it by stated rules.

A *list* is an unbroken chain of ids that are joined by `>`, `=`, commas, semicolons or spaces. Its ids are in
brackets (`[2] > [1]`, `[2, 1]`). Bare ids count only if the answer has none of the shown ids in brackets. Bare ids
that are joined by `>` may be anywhere (`2 > 1`). Bare ids that are joined by other signs need a line of their own;
only a label and a colon may come before them (`Order: 2, 1`).

Ids that are joined by `=` are tied, as Rank-K writes them (`[3] > [2] = [1]`). Other signs count as one of these two,
see `shown_ids`.

If there are several lists, a list with `>`, which the prompt asks for, is preferred to a list without. Among those,
the list with the most shown ids is the order. Among equal lists, the last one is the order.

If there are no such ids, lines that each hold a rank, a label and an id (`1. Document 2`) are a list, if every line
is one of these and the ranks count up from 1.

If there is no list, but each id that is mentioned has a grade (see `grades`), the grades are the order, and equal
grades are ties. Grades that are the numbers from 1 on, each once, may also be ranks, and are no order. Other ids that
come one by one, in prose or in numbered lines (`1. [2]`), count in the order in which they are first mentioned.

The order is then repaired:

1. an id that was not shown is dropped;
2. an id that comes again is dropped, and its first place counts;
3. missing ids follow in the order in which they were shown.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from r2med_ray.reranking.grades import graded
from r2med_ray.reranking.shown_ids import ID, LABEL, MISSING, NO_LIST, OUT_OF_RANGE, REPEATED, plain

_JOIN = r"[\s>=,;]"
_GROUP = rf"\[\s*{ID}(?:{_JOIN}+{ID})*\s*\]"
_BRACKETED = re.compile(rf"{_GROUP}(?:{_JOIN}*{_GROUP})*")
_OWN_LINES = rf"^(?:[^\d\n:]*:)?[ \t]*{ID}(?:[\s>,;]+{ID})+\.?[ \t]*$"
_TIED = rf"{ID}(?:\s*=\s*{ID})*"
_BARE = re.compile(rf"{_OWN_LINES}|(?<![\w.]){_TIED}(?:\s*>\s*{_TIED})+(?!\w|\.\d)", re.MULTILINE)
_RANKED_LINE = re.compile(rf"\W*({ID})[.):\s]+{LABEL}[\s:#]*({ID})\W*", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reordering:
    """An order that holds every shown document once."""

    levels: tuple[tuple[int, ...], ...]
    """The positions of the shown documents, from 0. The best documents come first; those of one level are tied."""

    repairs: Counter[str] = field(default_factory=Counter)
    """Rule → how often it was applied."""


def read_permutation(answer: str, shown: int) -> Reordering:
    """Read an order of the ids 1 to `shown` out of an answer. No id is lost, and none comes twice."""
    ids = range(1, shown + 1)
    said = next((levels for part in plain(answer) if (levels := _said(part, ids))), [])
    if not said:
        return Reordering(levels=tuple((position,) for position in range(shown)), repairs=Counter({NO_LIST: 1}))
    repairs: Counter[str] = Counter()
    kept: set[int] = set()
    order: list[tuple[int, ...]] = []
    for level in said:
        repairs[OUT_OF_RANGE] += sum(number not in ids for number in level)
        positions = [number - 1 for number in level if number in ids]
        new = [position for position in dict.fromkeys(positions) if position not in kept]
        repairs[REPEATED] += len(positions) - len(new)
        kept.update(new)
        order += [tuple(new)] if new else []
    missing = [(position,) for position in range(shown) if position not in kept]
    repairs[MISSING] += len(missing)
    return Reordering(levels=(*order, *missing), repairs=+repairs)


def _said(text: str, shown: range) -> list[list[int]]:
    """Return the ids of the order that a plain text gives, tied ids together; none if it gives no shown id."""

    def rank(chain: str) -> tuple[bool, int]:
        return ">" in chain, len({*_ids(chain)}.intersection(shown))

    for pattern in (_BRACKETED, _BARE):
        chains = [chain for chain in pattern.findall(text) if not {*_ids(chain)}.isdisjoint(shown)]
        if chains:
            best = max(reversed(chains), key=rank)
            return _levels(best) if len(_ids(best)) > 1 else _one_by_one(text, chains, shown)
    return _in_ranked_lines(text, shown) or _by_grade(graded(text, shown))


def _in_ranked_lines(text: str, shown: range) -> list[list[int]]:
    """Return the ids of a text whose lines are all a rank, a label and an id; none for any other text."""
    lines = [_RANKED_LINE.fullmatch(line) for line in text.splitlines() if line.strip()]
    found = [(int(line[1]), int(line[2])) for line in lines if line is not None]
    is_list = len(found) == len(lines) and [rank for rank, _ in found] == [*range(1, len(found) + 1)]
    return [[id_] for _, id_ in found] if is_list and any(id_ in shown for _, id_ in found) else []


def _one_by_one(text: str, chains: Iterable[str], shown: range) -> list[list[int]]:
    """Return the order of ids that come one by one: by their grades if each has one, or else as they come."""
    mentioned = [id_ for chain in chains for id_ in _ids(chain)]
    grades = graded(text, shown)
    if len({*mentioned}) > 1 and {*mentioned} <= {id_ for id_, _ in grades}:
        return _by_grade(grades)
    return [[id_] for id_ in dict.fromkeys(mentioned)]


def _by_grade(grades: Sequence[tuple[int, float]]) -> list[list[int]]:
    """Return graded ids in the order of their last grades; none if the grades may be ranks."""
    last = dict(grades)
    if sorted(last.values()) == [*range(1, len(last) + 1)]:
        return []
    order = sorted(last, key=lambda id_: (-last[id_], id_))
    return [[*level] for _, level in groupby(order, key=lambda id_: last[id_])]


def _levels(chain: str) -> list[list[int]]:
    """Return the ids of a chain, those together that are joined by `=`."""
    levels: list[list[int]] = []
    end = 0
    for found in _NUMBER.finditer(chain):
        join, end = chain[end : found.start()], found.end()
        if levels and "=" in join and ">" not in join:
            levels[-1].append(int(found[0]))
        else:
            levels.append([int(found[0])])
    return levels


def _ids(chain: str) -> list[int]:
    return [int(number) for number in _NUMBER.findall(chain)]
