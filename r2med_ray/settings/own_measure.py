"""The settings of a measure of the user's own in a benchmark file."""

import re
from typing import Annotated, TypeAlias

from pydantic import ConfigDict, Field, field_validator

from r2med_ray.settings.frozen import Frozen
from r2med_ray.settings.own_code import DOTTED_NAME

BoundField: TypeAlias = Annotated[float, Field(allow_inf_nan=False)] | None


class OwnMeasureConfig(Frozen):
    """A measure of your own: a function of a module that can be imported."""

    model_config = ConfigDict(serialize_by_alias=True)

    name: str
    """The measure's name in tables, with its cut-off, e.g. `MyMeasure@10`."""

    class_: str = Field(alias="class")
    """Module and function, e.g. `my_module.my_measure`. The module is imported because this file names it."""

    bounds: tuple[BoundField, BoundField]
    """The lowest and the highest possible value; `null` for no bound."""

    @field_validator("class_")
    @classmethod
    def _is_dotted(cls, path: str) -> str:
        if not re.fullmatch(DOTTED_NAME, path):
            raise ValueError("should be a module and a function in it, e.g. my_module.my_measure")
        return path

    @field_validator("bounds")
    @classmethod
    def _hold_zero(cls, bounds: tuple[float | None, float | None]) -> tuple[float | None, float | None]:
        low, high = bounds
        if (low is not None and low > 0) or (high is not None and high < 0):
            raise ValueError("should include 0, the value of a query without an answer")
        return bounds
