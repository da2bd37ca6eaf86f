"""What a benchmark file says about which queries are asked."""

from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, Field

QueryChoice: TypeAlias = int | tuple[str, ...]
"""The first so many queries of a task, or queries by id."""


def _ids_as_text(value: Any) -> Any:
    """Return a list of ids in which numbers, as YAML reads `[1, 2]`, are texts."""
    is_list = isinstance(value, list)
    return [str(item) if type(item) is int else item for item in value] if is_list else value


_Ids = Annotated[
    tuple[str, ...],
    BeforeValidator(_ids_as_text, json_schema_input_type=list[str | int]),
    Field(min_length=1),
]
_Number = Annotated[int, Field(ge=1)]

QueriesField = _Number | _Ids | Mapping[str, _Number | _Ids]
