"""A measure of the user's own: a function that is imported because the benchmark file names it.

    measures: [nDCG@10, {name: MyMeasure@10, class: my_module.my_measure, bounds: [0, 1]}]

The function is called as `my_measure(rankings, cutoff)` and returns one number per query; see `ranks.Rankings`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from r2med_ray.errors import StageError
from r2med_ray.evaluation.measure_row import Definition
from r2med_ray.evaluation.ranks import Rankings
from r2med_ray.settings.own_code import import_named, own_code
from r2med_ray.storage.arrow import DoubleVector


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnFunction:
    """The path of a function and the bounds of its values.

    It can be sent to another process, which then imports the function too.

    Args:
        path: module and name, e.g. `my_module.my_measure`.
        low: the lowest possible value; None if there is no bound.
        high: the highest possible value; None if there is no bound.
    """

    path: str
    low: float | None
    high: float | None

    @property
    def definition(self) -> Definition:
        """The function's row for the table of measures. Nothing is imported to make it."""
        return Definition(values=self.values, citation=self.path, low=self.low, high=self.high)

    def load(self) -> Callable[[Rankings, float], DoubleVector]:
        """Import the function.

        Raises:
            ConfigError: there is no such module, it can't be imported, or it has no such function.
        """
        function: Callable[[Rankings, float], DoubleVector] = import_named(
            self.path, repr(self.path), "function", callable, "my_module.my_measure"
        )
        return function

    def values(self, rankings: Rankings, cutoff: float) -> DoubleVector:
        """Return float64 of shape (Q,): the function's value for each query, and 0 if the run ranks nothing for it.

        Raises:
            StageError: the function returned something else than Q numbers.
            OwnCodeError: the function raised an error.
        """
        function = self.load()
        with own_code(f"measure {self.path}"):
            returned = np.asarray(function(rankings, cutoff))
        if returned.shape != (rankings.num_queries,) or returned.dtype.kind not in "biuf":
            raise StageError(
                "evaluate",
                self.path,
                f"expected {rankings.num_queries} numbers, one per query, got an array of shape {returned.shape} and "
                f"type {returned.dtype}",
            )
        return np.where(rankings.num_ranked > 0, returned.astype(np.float64), 0.0)
