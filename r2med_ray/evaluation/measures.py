"""A measure as a value, which is read from and printed as a text in ir_measures' spelling.

    nDCG@10    R@100    RR    RBP(p=0.8)    nDCG(dcg='exp-log2')@10

`definitions` says what each measure computes.
"""

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from r2med_ray.errors import ConfigError
from r2med_ray.evaluation.definitions import DEFINITIONS
from r2med_ray.evaluation.measure_row import Definition, Value
from r2med_ray.evaluation.own_measures import OwnFunction
from r2med_ray.evaluation.ranks import Rankings
from r2med_ray.settings.registry import closest, nearest
from r2med_ray.storage.arrow import DoubleVector

_TEXT = re.compile(r"([A-Za-z]\w*)(?:\(([^()]*)\))?(?:@([0-9]+))?", re.ASCII)
_MISSPELLED = re.compile(r"([A-Za-z_]+?)(?:\(([^()]*)\))?(?:(?:_at_|[@._ -]?)([0-9]+))?", re.ASCII)
_CANONICAL = {
    spelling.lower(): name
    for name, definition in DEFINITIONS.items()
    for spelling in (name, *definition.other_spellings)
}


@dataclass(frozen=True, slots=True)
class Measure:
    """One measure, e.g. `Measure("nDCG", 10)`. Its text is `nDCG@10`, which reads back as the same measure.

    Args:
        name: a name of `definitions.DEFINITIONS`, or any other name if `own` is given.
        cutoff: how many ranks are looked at; None for the whole ranking.
        parameters: names and values, e.g. `(("p", 0.8),)`. A value that is the default is left out.
        own: the function of a measure that a benchmark file defines.

    Raises:
        ConfigError: there is no such measure, or its cut-off or a parameter is missing or wrong.
    """

    name: str
    cutoff: int | None = None
    parameters: tuple[tuple[str, Value], ...] = ()
    own: OwnFunction | None = None

    def __post_init__(self) -> None:
        if self.own is None and self.name not in DEFINITIONS:
            raise ConfigError(f"unknown measure {self.name!r}.{nearest(self.name, DEFINITIONS)} Known: {_known()}")
        if self.own is not None and self.name in DEFINITIONS:
            raise ConfigError(f"{self.name!r} is a measure of this package; give your own another name")
        object.__setattr__(self, "parameters", _checked(self.name, dict(self.parameters), self.definition))
        wanted = self.definition.cutoff
        if self.cutoff is None and wanted == "required":
            raise ConfigError(f"measure '{self}' needs a cut-off, e.g. '{self}@10'")
        if self.cutoff is not None and wanted == "none":
            raise ConfigError(f"measure '{self}': {self.name} looks at the whole ranking and has no cut-off")
        if self.cutoff is not None and self.cutoff < 1:
            raise ConfigError(f"measure '{self}': the cut-off must be at least 1")

    @classmethod
    def parse(cls, text: str) -> "Measure":
        """Read a measure from its text, e.g. `R@100`.

        Raises:
            ConfigError: the text is no measure, or is not spelled as the measure prints. The message gives the
                nearest measure.
        """
        match = _TEXT.fullmatch(text)
        if match is None or match[1] not in DEFINITIONS:
            raise ConfigError(f"unknown measure {text!r}.{_hint(text)} Known: {_known()}")
        measure = cls(match[1], int(match[3]) if match[3] else None, _parameters(text, match[2]))
        if str(measure) != text:
            raise ConfigError(f"measure {text!r} is spelled {str(measure)!r}")
        return measure

    @classmethod
    def defined(cls, text: str, own: OwnFunction) -> "Measure":
        """Read the name of a measure of the user's own, e.g. `MyMeasure@10`.

        Raises:
            ConfigError: the text is not a name with or without a cut-off, or it is a measure of this package.
        """
        match = _TEXT.fullmatch(text)
        measure = cls(match[1], int(match[3]) if match[3] else None, own=own) if match else None
        if measure is None or str(measure) != text:
            raise ConfigError(f"{text!r} is no name of a measure: expected letters and digits, e.g. MyMeasure@10")
        return measure

    def __str__(self) -> str:
        parameters = ",".join(f"{name}={value!r}" for name, value in self.parameters)
        name = f"{self.name}({parameters})" if parameters else self.name
        return name if self.cutoff is None else f"{name}@{self.cutoff}"

    @property
    def definition(self) -> Definition:
        """The row of the measure."""
        return self.own.definition if self.own else DEFINITIONS[self.name]

    @property
    def is_share(self) -> bool:
        """Whether every value is between 0 and 1."""
        low, high = self.definition.low, self.definition.high
        return low is not None and high is not None and 0 <= low <= high <= 1

    @property
    def trec_eval_name(self) -> str | None:
        """The name to ask trec_eval for, e.g. `ndcg_cut.10`; None if trec_eval can't check this measure."""
        names = self.definition.trec_eval
        if names is None or self.parameters:
            return None
        if self.cutoff is None:
            return names.whole
        return f"{names.cut}.{self.cutoff}" if names.cut else names.whole if names.at else None

    def values(self, rankings: Rankings) -> DoubleVector:
        """Return float64 of shape (Q,): the value of each query, which is 0 if the run doesn't answer it."""
        return self.definition.values(rankings, self.cutoff or np.inf, **dict(self.parameters))


def parse_measures(text: str) -> list[Measure]:
    """Read measures that are separated by commas. A comma in parentheses separates parameters.

    Raises:
        ConfigError: a part of the text is no measure.
    """
    return [Measure.parse(part.strip()) for part in re.split(r",(?![^(]*\))", text)]


def not_checked(measures: Iterable[Measure]) -> tuple[str, ...]:
    """Return the names of the measures that trec_eval can't compute."""
    return tuple(str(measure) for measure in measures if measure.trec_eval_name is None)


def _parameters(text: str, written: str | None) -> tuple[tuple[str, Value], ...]:
    """Return the parameters in the parentheses of a measure.

    Raises:
        ConfigError: the parentheses hold no list of `name=value`, whose values are numbers or texts in quotes.
    """
    if written is None:
        return ()
    keywords = [part.partition("=") for part in written.split(",")]
    try:
        values = {name.strip(): ast.literal_eval(value.strip()) for name, _, value in keywords}
    except (ValueError, SyntaxError):
        values = {"": None}
    if not all(isinstance(value, int | float | str) for value in values.values()):
        raise ConfigError(f"measure {text!r}: expected name=value in the parentheses, e.g. RBP(p=0.8)")
    return tuple(values.items())


def _checked(name: str, given: dict[str, Value], definition: Definition) -> tuple[tuple[str, Value], ...]:
    """Return the parameters that are not at their default, in the order of the row.

    Raises:
        ConfigError: a parameter is unknown, is missing or has a wrong value.
    """
    known = definition.parameters
    for unknown in given.keys() - known.keys():
        raise ConfigError(
            f"measure {name!r} has no parameter {unknown!r}.{nearest(unknown, known)} Known: "
            f"{', '.join(known) or 'none'}"
        )
    for key, parameter in known.items():
        if key not in given and parameter.default is None:
            raise ConfigError(f"measure {name!r} needs {key}, e.g. '{name}({key}={parameter.example!r})'")
        if key in given and not parameter.accepts(given[key]):
            raise ConfigError(f"measure {name!r}: {key} should be {parameter.expected}, got {given[key]!r}")
    return tuple((key, given[key]) for key, row in known.items() if key in given and given[key] != row.default)


def _example(name: str) -> str:
    """Return a measure's name with the parameters that must be written."""
    needed = {key: row.example for key, row in DEFINITIONS[name].parameters.items() if row.default is None}
    parameters = ",".join(f"{key}={value!r}" for key, value in needed.items())
    return f"{name}({parameters})" if parameters else name


def _known() -> str:
    forms = {"required": "{0}@K", "optional": "{0}, {0}@K", "none": "{0}"}
    return ", ".join(forms[row.cutoff].format(_example(name)) for name, row in DEFINITIONS.items())


def _hint(text: str) -> str:
    match = _MISSPELLED.fullmatch(text)
    close = closest(match[1], _CANONICAL) if match else None
    if match is None or close is None:
        return nearest(text, [f"{name}@10" for name in DEFINITIONS])
    name, cutoff = _CANONICAL[close], int(match[3]) if match[3] else None
    wanted = DEFINITIONS[name].cutoff
    cutoff = {"required": cutoff or 10, "optional": cutoff, "none": None}[wanted]
    try:
        meant = str(Measure(name, cutoff, _parameters(text, match[2])))
    except ConfigError:
        meant = _example(name) + (f"@{cutoff}" if cutoff else "")
    return f" Did you mean {meant!r}?"
