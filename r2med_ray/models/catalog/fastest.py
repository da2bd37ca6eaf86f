"""The dtype `fastest`: which dtype a model was fastest in on one kind of CPU, as it was measured.

A flag of a CPU doesn't tell it: of two CPUs that have bfloat16 instructions, one was slower with them than without.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Self

from r2med_ray.models.catalog.devices import Dtype

MEASURED_DTYPES: tuple[Dtype, ...] = ("float32", "bfloat16")

LEAST_GAIN = 1.1
"""bfloat16 is chosen if it is this many times as fast as float32. It has fewer digits, and rates vary by some per
cent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FastestDtype:
    """What was found for one model on one kind of CPU."""

    dtype: Dtype
    rates: Mapping[str, float] = field(default_factory=dict)
    """Dtype → texts per CPU second; empty if nothing was measured."""

    computer: str = ""
    """The CPU and its threads."""

    @classmethod
    def of_rounds(cls, seconds: Mapping[Dtype, list[float]], texts: int, computer: str) -> Self:
        """Choose by the median CPU seconds of rounds over so many texts, in which all dtypes took turns."""
        rates: dict[str, float] = {dtype: texts / median(rounds) for dtype, rounds in seconds.items()}
        gains = rates["bfloat16"] >= LEAST_GAIN * rates["float32"]
        return cls(dtype="bfloat16" if gains else "float32", rates=rates, computer=computer)

    def describe(self) -> str:
        """Return both rates, and where they were measured."""
        if not self.rates:
            return f"to be measured when a job begins, {self.dtype} until then"
        rates = " and ".join(f"{rate:.3g} in {dtype}" for dtype, rate in self.rates.items())
        return f"{rates} texts per CPU second on {self.computer}; bfloat16 must be {LEAST_GAIN} times as fast"
