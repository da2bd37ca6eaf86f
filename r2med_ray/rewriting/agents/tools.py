"""The tools of an agent whose answer is a ranking, and what its calls ask for.

| tool                   | what it does                                                                            |
|------------------------|-----------------------------------------------------------------------------------------|
| think(thought)         | nothing; the model has written the thought down                                         |
| retrieve(query, top_k) | searches, and shows passages, each with an id                                           |
| final_results(ids)     | ends the conversation: the ids of passages, best first, are the answer                  |

The ids are `p1`, `p2`, ... in the order in which a conversation shows passages for the first time, because ids of a
collection may be long, and may tell what a passage is.

Arguments are read leniently where only one reading is possible: `doc_ids` for `ids`, `[p3]`, `3` or `"3"` for `p3`, a
number in quotes, and a list in quotes. All else is a problem, and the model is told which.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from r2med_ray.chat import Tool, ToolCall
from r2med_ray.storage.keys import Json

NOT_JSON = "The arguments of {name} are not a JSON object. Call it again."
NO_TOOL = "There is no tool {name}. The tools are think, retrieve and final_results."
NO_QUERY = "retrieve needs `query`, a text that says what to look for."
NO_TOP_K = "`top_k` of retrieve is a whole number from 1."
NO_IDS = "final_results needs `ids`, a list of the ids of passages, best first."

_ID = re.compile(r"\[?p?(\d+)\]?")


class Retrieve(NamedTuple):
    """A search that the model asks for."""

    query: str
    top_k: int


class Final(NamedTuple):
    """The ids that the model answers with, as it wrote them; None for one that can't be an id."""

    ids: tuple[str | None, ...]


class Thought(NamedTuple):
    """Nothing has to be done."""


class Problem(NamedTuple):
    """What the model is told about a call that can't be carried out."""

    message: str


def tools(depth: int) -> tuple[Tool, ...]:
    """Return what a model is told about its tools; `depth` is the most passages of one search."""
    text, many = {"type": "string"}, {"type": "array", "items": {"type": "string"}}
    top_k = {"type": "integer", "minimum": 1, "maximum": depth, "description": f"How many, at most {depth}"}
    return (
        _tool("think", "Write down a thought before you go on.", {"thought": text}, ["thought"]),
        _tool("retrieve", "Search for passages. Each has an id.", {"query": text, "top_k": top_k}, ["query"]),
        _tool("final_results", "End with the ids of all relevant passages, best first.", {"ids": many}, ["ids"]),
    )


def _tool(name: str, description: str, properties: Mapping[str, Json], required: Sequence[str]) -> Tool:
    parameters = {"type": "object", "properties": dict(properties), "required": list(required)}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def read_call(call: ToolCall, depth: int) -> Retrieve | Final | Thought | Problem:
    """Return what a call asks for; `depth` is the most passages of one search, and their number if none is given."""
    arguments = arguments_of(call)
    if call.name not in ("think", "retrieve", "final_results"):
        return Problem(NO_TOOL.format(name=call.name or "without a name"))
    if call.name == "think":
        return Thought()  # whatever it thought
    if arguments is None:
        return Problem(NOT_JSON.format(name=call.name))
    return _retrieve(arguments, depth) if call.name == "retrieve" else _final(arguments)


def arguments_of(call: ToolCall) -> dict[str, Any] | None:
    """Return the arguments of a call; None if they are no JSON object."""
    arguments = _json(call.arguments)
    return arguments if isinstance(arguments, dict) else None


def _retrieve(arguments: Mapping[str, Any], depth: int) -> Retrieve | Problem:
    query, top_k = arguments.get("query"), arguments.get("top_k")
    if not isinstance(query, str) or not query.strip():
        return Problem(NO_QUERY)
    top_k = _json(top_k) if isinstance(top_k, str) else top_k
    if top_k is None:
        return Retrieve(query.strip(), depth)
    if isinstance(top_k, bool) or not isinstance(top_k, int | float) or top_k != top_k // 1 or top_k < 1:
        return Problem(NO_TOP_K)
    return Retrieve(query.strip(), min(int(top_k), depth))


def _final(arguments: Mapping[str, Any]) -> Final | Problem:
    ids = arguments.get("ids", arguments.get("doc_ids"))
    ids = _json(ids) if isinstance(ids, str) else ids
    return Final(tuple(_id(each) for each in ids)) if isinstance(ids, list) else Problem(NO_IDS)


def _id(value: object) -> str | None:
    found = _ID.fullmatch(str(value).strip()) if isinstance(value, str | int) else None
    return f"p{int(found[1])}" if found else None


def _json(text: str) -> Any:
    """Return a JSON value; None if the text is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
