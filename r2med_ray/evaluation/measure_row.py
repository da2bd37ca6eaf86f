"""What one row of the table of measures says; parsing, bounds and the check by trec_eval ask it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, TypeAlias

from r2med_ray.evaluation.arrow import DoubleVector

Value: TypeAlias = float | str
"""What a parameter of a measure can be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """A setting of a measure, written in parentheses: `RBP(p=0.8)`."""

    accepts: Callable[[Value], bool]
    expected: str
    """What `accepts` accepts, in words, e.g. `a number above 0 and below 1`."""

    example: Value
    default: Value | None = None
    """The value that is not written; None where one has to be written always."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrecEval:
    """What trec_eval calls a measure. It knows no parameters, so a measure that has any is not checked by it."""

    whole: str | None = None
    """Its name over the whole ranking."""

    cut: str | None = None
    """Its name with a cut-off, which follows after a dot."""

    at: Callable[[float, int], float] | None = None
    """Turns the value over the whole ranking into the one at a cut-off, where trec_eval has no name for that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """The row of a measure."""

    values: Callable[..., DoubleVector]
    """`(rankings, cutoff, **parameters)` → float64 of shape (Q,); 0 for a query that the run doesn't answer."""

    citation: str
    cutoff: Literal["required", "optional", "none"] = "optional"
    """Whether `@K` follows the name."""

    parameters: Mapping[str, Parameter] = field(default_factory=lambda: MappingProxyType({}))
    other_spellings: tuple[str, ...] = ()
    """Names that others use: never read, only recognised in an error."""

    trec_eval: TrecEval | None = None
    """None: trec_eval lacks it, and every report says by name that it was not checked."""

    low: float | None = 0.0
    """The lowest value that is possible; None for no bound."""

    high: float | None = 1.0
    """The highest value that is possible; None for no bound."""

    grows: bool = False
    """Whether a deeper cut-off never gives a lower value."""

    positives_only: bool = False
    """Whether it looks at positives alone; then nothing else has to be looked up, which saves time."""
