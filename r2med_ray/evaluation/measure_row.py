"""The row of a measure: its function, parameters, bounds, and its name in trec_eval."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, TypeAlias

from r2med_ray.storage.arrow import DoubleVector

Value: TypeAlias = float | str
"""The types of a parameter's value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A setting of a measure, written in parentheses, e.g. `RBP(p=0.8)`."""

    accepts: Callable[[Value], bool]
    expected: str
    """The values that `accepts` accepts, in words, e.g. `a number above 0 and below 1`."""

    example: Value
    default: Value | None = None
    """The default, which is not written. None if a value must always be written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrecEval:
    """The names of a measure in trec_eval. trec_eval has no parameters, so it can't check a measure that has some."""

    whole: str | None = None
    """The measure's name over the whole ranking."""

    cut: str | None = None
    """The measure's name with a cut-off. The cut-off follows after a dot."""

    at: Callable[[float, int], float] | None = None
    """Function from the value over the whole ranking, and a cut-off, to the value at the cut-off.

    It is given if trec_eval has no name for the value at a cut-off.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """The row of a measure."""

    values: Callable[..., DoubleVector]
    """`(rankings, cutoff, **parameters)` → float64 of shape (Q,); 0 for a query that the run doesn't answer."""

    citation: str
    cutoff: Literal["required", "optional", "none"] = "optional"
    """Whether `@K` must, may or can't follow the name."""

    parameters: Mapping[str, Parameter] = field(default_factory=lambda: MappingProxyType({}))
    other_spellings: tuple[str, ...] = ()
    """Names that others use. They are never read as this measure; an error recognises them and suggests this one."""

    trec_eval: TrecEval | None = None
    """The names in trec_eval. None if trec_eval lacks the measure; every report then says that it was not checked."""

    low: float | None = 0.0
    """The lowest possible value; None if there is no bound."""

    high: float | None = 1.0
    """The highest possible value; None if there is no bound."""

    grows: bool = False
    """Whether a deeper cut-off never gives a lower value."""

    positives_only: bool = False
    """Whether the measure looks at positives alone. If so, no other judgement is looked up, which saves time."""
