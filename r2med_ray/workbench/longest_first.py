"""The order in which prompts are begun: the one that should have the longest answer first.

Nobody knows a length beforehand. It is expected from earlier answers of the same model: those of the same part, which
is one method on one task, and those to prompts of about the same length. An answer that begins last and is long would
keep a whole engine waiting for it. No text and no key depends on the order, because each prompt has its own seed.

Shape letters: N prompts, S answers that were seen, P parts.
"""

import math
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from r2med_ray.chat import ChatPrompt, Completion

OF_PART = 2.0
"""Answers that the mean of all is worth beside those of a part."""

OF_LENGTH = 2.0
"""What the first guess of the slope is worth beside what is seen, as a sum of squares of logarithms."""

FIRST_SLOPE = 0.1
"""The first guess: a prompt that is longer than others of its part by 1% has an answer that is longer by 0.1%."""

GROWTH = 1.1
"""Expectations are worked out again when so many times as many answers are there."""


@dataclass(frozen=True, slots=True)
class Length:
    """How long an answer was."""

    part: str
    prompt: float
    """The natural logarithm of the characters of the prompt."""

    answer: float
    """The natural logarithm of the tokens of the answer, or of its words where nobody counted tokens."""


@dataclass(slots=True)
class Lengths:
    """The lengths of one model's answers, which are noted from any thread."""

    seen: list[Length] = field(default_factory=list)

    def note(self, prompt: ChatPrompt, completion: Completion) -> Length:
        """Take an answer, whenever it was written."""
        words = len(f"{completion.reasoning} {completion.text}".split())
        length = Length(prompt.part, _size(prompt), math.log(max(1, completion.completion_tokens or words)))
        self.seen.append(length)
        return length


class LongestFirst(Iterator[int]):
    """The positions of prompts, each when there is a place for it.

    Args:
        prompts: those that have to be answered.
        lengths: has what is known of the model; gets each answer.
    """

    def __init__(self, prompts: Sequence[ChatPrompt], lengths: Lengths) -> None:
        self._prompts = prompts
        self._unwritten = [Length(prompt.part, _size(prompt), 0.0) for prompt in prompts]
        self._lengths = lengths
        self._answered: dict[int, Length] = {}
        self._begun: list[int] = []
        self._waiting = list(range(len(prompts)))
        self._sort_at = 0.0
        self._turn = threading.Lock()

    def __next__(self) -> int:
        with self._turn:
            if not self._waiting:
                raise StopIteration
            if len(self._answered) >= self._sort_at:
                self._sort()
            self._begun.append(self._waiting.pop())
            return self._begun[-1]

    def note(self, position: int, completion: Completion) -> None:
        """Take the answer to a prompt."""
        with self._turn:
            self._answered[position] = self._lengths.note(self._prompts[position], completion)

    def _sort(self) -> None:
        waiting = [self._unwritten[place] for place in self._waiting]
        expected_N = expected(waiting, [*self._lengths.seen, *self._unfinished()])
        order = np.lexsort((-np.array(self._waiting), expected_N))  # among equals, the first prompt goes first
        self._waiting = [self._waiting[place] for place in order]
        self._sort_at = max(1.0, len(self._answered) * GROWTH)

    def _unfinished(self) -> Iterator[Length]:
        """Yield a length for each answer that goes on although a later one has ended.

        Short answers end first, so what has ended tells too little of a part with long ones. An answer that goes on
        is longer than every answer that began after it and has ended, because all are written at about one speed. It
        is expected to go on for as long as the mean answer takes.
        """
        if not self._answered:
            return
        mean = sum(math.exp(length.answer) for length in self._answered.values()) / len(self._answered)
        longest = 0.0
        for position in reversed(self._begun):
            if position in self._answered:
                longest = max(longest, math.exp(self._answered[position].answer))
            elif longest:
                yield replace(self._unwritten[position], answer=math.log(longest + mean))


def expected(waiting: Sequence[Length], seen: Sequence[Length]) -> npt.NDArray[np.float64]:
    """Return the logarithm of the length that each answer should have, up to a constant: (N,).

    It is the mean of the answers of its part, drawn towards the mean of all where they are few, and a slope times the
    logarithm by which its prompt is longer than the others of its part.

    Args:
        waiting: N prompts; `answer` isn't read.
        seen: S answers.
    """
    names = list(dict.fromkeys(length.part for length in (*waiting, *seen)))
    number = {name: place for place, name in enumerate(names)}
    parts = np.array([number[length.part] for length in (*waiting, *seen)])
    prompts = np.array([length.prompt for length in (*waiting, *seen)])
    prompts -= (np.bincount(parts, weights=prompts) / np.bincount(parts))[parts]
    parts_N, parts_S = np.split(parts, [len(waiting)])
    prompts_N, prompts_S = np.split(prompts, [len(waiting)])
    answers_S = np.array([length.answer for length in seen])
    answers_S -= answers_S.mean() if len(seen) else 0.0

    sums_P = np.bincount(parts_S, weights=answers_S, minlength=len(names))
    of_part_P = sums_P / (np.bincount(parts_S, minlength=len(names)) + OF_PART)
    left_S = answers_S - of_part_P[parts_S]
    slope = (prompts_S @ left_S + OF_LENGTH * FIRST_SLOPE) / (prompts_S @ prompts_S + OF_LENGTH)
    return np.asarray(of_part_P[parts_N] + slope * prompts_N, dtype=np.float64)


def _size(prompt: ChatPrompt) -> float:
    return math.log(1 + sum(len(message.get("content") or "") for message in prompt.messages))
