"""What calls of tools ask for, as models write them."""

import pytest

from r2med_ray.chat import ToolCall
from r2med_ray.rewriting.agents.tools import (
    NO_IDS,
    NO_QUERY,
    NO_TOOL,
    NO_TOP_K,
    NOT_JSON,
    Final,
    Problem,
    Retrieve,
    Thought,
    read_call,
    tools,
)


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("think", '{"thought": "gout?"}', Thought()),
        ("think", "gout?", Thought()),
        ("retrieve", '{"query": "urate crystals", "top_k": 3}', Retrieve("urate crystals", 3)),
        ("retrieve", '{"query": " urate "}', Retrieve("urate", 5)),
        ("retrieve", '{"query": "urate", "top_k": null}', Retrieve("urate", 5)),
        ("retrieve", '{"query": "urate", "top_k": "2"}', Retrieve("urate", 2)),
        ("retrieve", '{"query": "urate", "top_k": 2.0}', Retrieve("urate", 2)),
        # no search shows more than the settings say
        ("retrieve", '{"query": "urate", "top_k": 100}', Retrieve("urate", 5)),
        ("retrieve", '{"query": "urate", "top_k": 0}', Problem(NO_TOP_K)),
        ("retrieve", '{"query": "urate", "top_k": true}', Problem(NO_TOP_K)),
        ("retrieve", '{"query": "urate", "top_k": 1.5}', Problem(NO_TOP_K)),
        ("retrieve", '{"query": "urate", "top_k": NaN}', Problem(NO_TOP_K)),
        ("retrieve", '{"query": "urate", "top_k": Infinity}', Problem(NO_TOP_K)),
        ("retrieve", '{"query": ""}', Problem(NO_QUERY)),
        ("retrieve", '{"query": ["urate"]}', Problem(NO_QUERY)),
        ("retrieve", '{"top_k": 3}', Problem(NO_QUERY)),
        ("retrieve", '{"query": "urate"', Problem(NOT_JSON.format(name="retrieve"))),
        ("retrieve", '"urate"', Problem(NOT_JSON.format(name="retrieve"))),
        ("retrieve", "", Problem(NOT_JSON.format(name="retrieve"))),
        ("final_results", '{"ids": ["p2", "p1"]}', Final(("p2", "p1"))),
        ("final_results", '{"doc_ids": ["p2"]}', Final(("p2",))),
        ("final_results", '{"ids": ["[p2]", "2", 3, " p4 ", "p05"]}', Final(("p2", "p2", "p3", "p4", "p5"))),
        ("final_results", '{"ids": "[\\"p2\\", \\"p1\\"]"}', Final(("p2", "p1"))),
        ("final_results", '{"ids": ["gout", null, ["p1"], "p1, p2"]}', Final((None, None, None, None))),
        ("final_results", '{"ids": []}', Final(())),
        ("final_results", '{"ids": "p1, p2"}', Problem(NO_IDS)),
        ("final_results", '{"results": ["p1"]}', Problem(NO_IDS)),
        ("final_results", "[1]", Problem(NOT_JSON.format(name="final_results"))),
        ("search", '{"query": "urate"}', Problem(NO_TOOL.format(name="search"))),
        ("", "{}", Problem(NO_TOOL.format(name="without a name"))),
    ],
)
def test_a_call_is_read_as_it_can_only_be_meant(name: str, arguments: str, expected: object) -> None:
    found = read_call(ToolCall(name, arguments), 5)

    assert (type(found), found) == (type(expected), expected)


def test_a_model_is_told_of_three_tools_and_of_the_most_passages_of_a_search() -> None:
    functions = {tool["function"]["name"]: tool["function"]["parameters"] for tool in tools(7)}

    assert {name: each["required"] for name, each in functions.items()} == {
        "think": ["thought"],
        "retrieve": ["query"],
        "final_results": ["ids"],
    }
    assert functions["retrieve"]["properties"]["top_k"]["maximum"] == 7
