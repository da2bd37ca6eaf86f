"""The base of all parts of a benchmark file. Workers import some of these parts, and not the others."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A part of a benchmark file: unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)
