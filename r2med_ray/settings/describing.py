"""Every key of a file in words: its kind, its default and its meaning, read from the models that check the file."""

import textwrap
from collections.abc import Iterator
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, MinLen
from pydantic import BaseModel
from pydantic.fields import FieldInfo

_WORDS = {str: "text", int: "whole number", float: "number", bool: "true or false"}
_LIMITS = {Ge: ("≥", "ge"), Gt: (">", "gt"), Le: ("≤", "le"), MinLen: ("of at least", "min_length")}
_WIDTH = 110


def describe(
    model: type[BaseModel], prefix: str = "", shown: dict[type[BaseModel], str] | None = None
) -> Iterator[str]:
    """Yield for each key of a model a line with its place, kind and default, and its meaning below.

    The keys inside of a key follow it, or the place where they were shown already.

    Args:
        model: the model of a file, or of a section of it.
        prefix: what stands before its keys, e.g. `systems[].`.
        shown: models whose keys were shown, with the place of each. It is added to.
    """
    shown = {} if shown is None else shown
    for name, field in model.model_fields.items():
        key = f"{prefix}{field.alias or name}"
        yield f"{key}: {kind_in_words(field)}{_default(field)}"
        yield from textwrap.wrap(
            " ".join((field.description or "").split()), _WIDTH, initial_indent="    ", subsequent_indent="    "
        )
        for inner, is_list in models_in(field.annotation):
            if inner in shown:
                yield f"    Its keys are those of {shown[inner]}."
                continue
            shown[inner] = f"{key}[]" if is_list else key
            yield from describe(inner, f"{shown[inner]}.", shown)


def models_in(annotation: Any, is_list: bool = False) -> Iterator[tuple[type[BaseModel], bool]]:
    """Yield the models that a value may be, each with whether the value is a list of them."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation, is_list
        return
    for argument in get_args(annotation):
        yield from models_in(argument, is_list or get_origin(annotation) is tuple)


def kind_in_words(field: FieldInfo) -> str:
    """Return what a value should be, with its limits, e.g. `whole number ≥ 1`."""
    return f"{_kind(field.annotation)}{_limits(field.metadata)}"


def _kind(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        limits = [limit for each in arguments[1:] for limit in getattr(each, "metadata", ())]
        return f"{_kind(arguments[0])}{_limits(limits)}"
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(_kind(argument) for argument in arguments if argument is not type(None)))
    if origin is Literal:
        return " or ".join(f"`{argument}`" for argument in arguments)
    if origin in (tuple, list):
        return f"list of {_kind(arguments[0])}"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "keys and values"
    return _WORDS.get(annotation, "keys and values" if origin else "any value")


def _limits(metadata: Any) -> str:
    found = [
        f"{sign} {getattr(limit, attribute):g}"
        for limit in metadata
        for kind, (sign, attribute) in _LIMITS.items()
        if isinstance(limit, kind)
    ]
    return f" {', '.join(found)}" if found else ""


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return ", needed"
    default = field.get_default(call_default_factory=True)
    if default is None or default == () or default == {} or isinstance(default, BaseModel):
        return ""
    if isinstance(default, tuple):
        return f", default [{', '.join(map(str, default))}]"
    return f", default {str(default).lower() if isinstance(default, bool) else default!r}"
