"""Says in one line what is wrong with a row of a user's file."""

from typing import Any

from pydantic import BaseModel

from r2med_ray.settings.registry import nearest


def row_problem(problem: Any, row: type[BaseModel]) -> str:
    """Return a line about one of pydantic's problems: the key, what is wrong, and the value or the nearest key.

    Args:
        problem: an entry of `ValidationError.errors()`.
        row: the class of the row.
    """
    key = ".".join(map(str, problem["loc"]))
    if problem["type"] == "extra_forbidden":
        known = [field.alias or name for name, field in row.model_fields.items()]
        return f"unknown key {key!r}.{nearest(key, known)} Known: {', '.join(known)}"
    if problem["type"] == "missing":  # the error's input is the whole row, which may hold a key by mistake
        return f"{key} is missing"
    message = problem["msg"].removeprefix("Value error, ")
    if problem["type"] == "string_pattern_mismatch" and key == "class":
        message = "should be a module and a class in it, e.g. my_module.MyEncoder"
    return f"{key}: {message}, got {problem['input']!r}" if key else message
