"""Agents whose answer is the ranking: their conversations, limits, dropped ids, and transcripts."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from r2med_ray.chat import Completion, ToolCall
from r2med_ray.cuts import Cuts
from r2med_ray.demands import Ask, Demand, Find, Keep, Read
from r2med_ray.errors import ConfigError, DataError
from r2med_ray.first_stage import FirstStage
from r2med_ray.rewriting.agents.ranking_agent import RankingAgent
from r2med_ray.rewriting.agents.tool_turns import NO_CALL, NO_MORE, NOT_SHOWN, NOTHING, messages
from r2med_ray.settings.rewriter import RewriterConfig
from r2med_ray.settings.templates import Template
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Document, Query, Rewriting, Run, ScoredDoc
from tests.fakes import answer, kept_in
from tests.unit.rewriting_parts import Model, task

RASH, FEVER = Query(query_id="1", text="why the rash"), Query(query_id="2", text="why the fever")
START = Template(version="1", text="Q: {query}")

Said = Completion | None


def calls(*named: tuple[str, Any], text: str = "", **changes: Any) -> Completion:
    tool_calls = tuple(
        ToolCall(name, arguments if isinstance(arguments, str) else json.dumps(arguments))
        for name, arguments in named
    )
    made = Completion(
        text=text, reasoning="", finish_reason="tool_calls", completion_tokens=10, tool_calls=tool_calls
    )
    return replace(made, **changes)


def search(query: str, **more: Any) -> tuple[str, Any]:
    return "retrieve", {"query": query, **more}


def final(*ids: Any) -> tuple[str, Any]:
    return "final_results", {"ids": list(ids)}


class Talker:
    """A language model with a list of turns per question, which it takes one by one; it remembers all prompts."""

    def __init__(self, turns: Mapping[str, Sequence[Said]]) -> None:
        self.prompts: list[Any] = []
        self._turns = {question: list(said) for question, said in turns.items()}

    def __call__(self, ask: Ask) -> list[Said]:
        self.prompts += ask.prompts
        return [self._turns[prompt.messages[0]["content"].removeprefix("Q: ")].pop(0) for prompt in ask.prompts]


def agent(*, drops_own: bool = False, unusable: float = 1, **limits: Any) -> RankingAgent:
    config = RewriterConfig.model_validate(
        {
            "method": "retrieval-agent",
            "llm": "m",
            "agent": {"retriever": "bm25", "depth": 3, "words": 4} | limits,
            "max_unusable": unusable,
        }
    )
    return RankingAgent(
        config,
        task=task(),
        model=Model(),
        tool=cast(FirstStage, SimpleNamespace(drop_identical_ids=drops_own)),
        tool_inputs={"bm25": "k1=0.9"},
        start=START,
        system="agent",
    )


def find(demand: Find) -> Run:
    """Find a document of the request's name, and then one that is always found; nothing for `nothing`."""
    return Run(
        tag="found",
        rankings={
            query.query_id: tuple(
                ScoredDoc(doc_id, 1.0) for doc_id in (query.text, "usual") if doc_id not in query.excluded
            )[: demand.k]
            if query.text != "nothing"
            else ()
            for query in demand.queries
        },
    )


def read(demand: Read) -> dict[str, Document]:
    return {doc_id: Document(doc_id=doc_id, text=f"{doc_id} one two three four") for doc_id in demand.doc_ids}


def lead(
    talker: Callable[[Ask], list[Said]],
    folder: Path,
    *,
    queries: Sequence[Query] = (RASH,),
    led: RankingAgent | None = None,
) -> tuple[Rewriting, list[Demand]]:
    given = {Ask: talker, Find: find, Read: read, **kept_in(ArtifactStore(str(folder)))}
    return answer((led or agent()).rewrite(queries), given)


def transcript(demands: Sequence[Demand]) -> dict[str, Any]:
    [kept] = [demand for demand in demands if isinstance(demand, Keep)]
    return cast(dict[str, Any], json.loads(kept.files["transcript.json"]))


def test_a_model_thinks_searches_and_names_what_is_relevant(tmp_path: Path) -> None:
    talker = Talker(
        {
            RASH.text: [
                calls(("think", {"thought": "measles?"}), search("measles", top_k=1), text="I look it up."),
                calls(search("rubella")),
                calls(final("p3", "p1")),
            ]
        }
    )

    rewriting, _ = lead(talker, tmp_path)

    assert rewriting.ranked == {"1": (("usual", "measles"),)}
    assert (rewriting.unchanged, rewriting.flagged) == ((), {})
    assert rewriting.queries == (RASH,)
    first, second, third = talker.prompts
    assert [tool["function"]["name"] for tool in first.tools] == ["think", "retrieve", "final_results"]
    assert first.messages == ({"role": "user", "content": "Q: why the rash"},)
    thought, found = {"thought": "measles?"}, {"query": "measles", "top_k": 1}
    assert second.messages[1:] == (
        {
            "role": "assistant",
            "content": "I look it up.",
            "tool_calls": [
                {
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "think", "arguments": json.dumps(thought)},
                },
                {
                    "id": "call_2",
                    "type": "function",
                    "function": {"name": "retrieve", "arguments": json.dumps(found)},
                },
            ],
        },
        {"role": "tool", "content": "Noted.", "tool_call_id": "call_1"},
        {"role": "tool", "content": "[p1] measles one two three", "tool_call_id": "call_2"},  # four words
    )
    assert third.messages[-1] == {
        "role": "tool",
        "content": "[p2] rubella one two three\n[p3] usual one two three",
        "tool_call_id": "call_3",
    }


def test_ids_that_were_invented_or_repeated_are_dropped_and_counted(tmp_path: Path) -> None:
    talker = Talker({RASH.text: [calls(search("measles")), calls(final("p9", "p2", "p2", "measles", "p1", 1))]})

    rewriting, demands = lead(talker, tmp_path)

    assert rewriting.ranked == {"1": (("usual", "measles"),)}
    # p9 and "measles" were never shown as ids; the second p2, and 1 for p1, stood there before
    assert rewriting.flagged == {"invented ids": ("1",), "repeated ids": ("1",)}
    kept = transcript(demands)
    assert (kept["invented"], kept["repeated"], kept["ranked"]) == (2, 2, ["usual", "measles"])


def test_an_answer_of_invented_ids_alone_is_none_and_the_model_is_told(tmp_path: Path) -> None:
    talker = Talker({RASH.text: [calls(search("measles")), calls(final("p7")), calls(final("p1"))]})

    rewriting, _ = lead(talker, tmp_path)

    assert talker.prompts[2].messages[-1]["content"] == NOT_SHOWN
    assert rewriting.ranked == {"1": (("measles",),)}
    assert rewriting.flagged == {"malformed request": ("1",), "invented ids": ("1",)}


def test_a_model_that_calls_nothing_is_told_to(tmp_path: Path) -> None:
    talker = Talker(
        {
            RASH.text: [
                calls(search("measles")),
                calls(text="It is measles.", finish_reason="stop"),
                calls(final("p1")),
            ]
        }
    )

    rewriting, _ = lead(talker, tmp_path)

    assert talker.prompts[2].messages[-2:] == (
        {"role": "assistant", "content": "It is measles."},
        {"role": "user", "content": NO_CALL},
    )
    assert rewriting.ranked == {"1": (("measles",),)}
    assert rewriting.flagged == {"malformed request": ("1",)}


def test_broken_arguments_are_told_and_never_sent_back(tmp_path: Path) -> None:
    talker = Talker({RASH.text: [calls(("retrieve", '{"query": "mea')), calls(search("x")), calls(final("p1"))]})

    lead(talker, tmp_path)

    said, told = talker.prompts[1].messages[1:]
    assert said["tool_calls"][0]["function"] == {"name": "retrieve", "arguments": "{}"}
    assert told["content"] == "The arguments of retrieve are not a JSON object. Call it again."


@pytest.mark.parametrize(
    ("limits", "last", "reason"),
    [
        ({"max_turns": 2}, calls(search("mumps")), "turn limit"),
        ({"max_tokens": 30}, calls(search("mumps")), "token limit"),  # 10 tokens a turn
        ({"max_seconds": 2}, calls(search("mumps"), seconds=2.0), "time limit"),
        ({}, None, "context limit"),
        ({}, calls(search("mumps"), shortened=1), "context limit"),
    ],
)
def test_where_a_limit_ends_it_the_ranking_is_all_that_was_found(
    tmp_path: Path, limits: dict[str, Any], last: Said, reason: str
) -> None:
    talker = Talker({RASH.text: [calls(search("measles")), calls(search("rubella", top_k=1)), last]})

    rewriting, demands = lead(talker, tmp_path, led=agent(**limits))

    assert rewriting.ranked == {"1": (("measles", "usual"), ("rubella",))}
    assert (rewriting.flagged[reason], rewriting.unchanged) == (("1",), ())
    assert transcript(demands)["ended"] == reason


def test_before_the_last_turn_the_model_is_told_to_end(tmp_path: Path) -> None:
    talker = Talker({RASH.text: [calls(search("measles")), calls(search("mumps")), calls(final("p1"))]})

    rewriting, _ = lead(talker, tmp_path, led=agent(max_turns=2))

    assert [prompt.messages[-1]["content"] == NO_MORE for prompt in talker.prompts] == [False, False, True]
    assert (rewriting.ranked, rewriting.flagged) == ({"1": (("measles",),)}, {})


def test_an_answer_over_shortened_results_counts_and_is_flagged(tmp_path: Path) -> None:
    talker = Talker({RASH.text: [calls(search("measles")), calls(final("p1"), shortened=1)]})

    rewriting, _ = lead(talker, tmp_path, led=agent(words=100))

    [shorter] = talker.prompts[1].shorter
    assert [item["content"] for item in shorter[-2:]] == [
        "[p1] measles one two three four [p2] usual one two three four",
        NO_MORE,
    ]
    assert rewriting.ranked == {"1": (("measles",),)}
    assert rewriting.flagged == {"results shortened": ("1",)}


def test_a_query_for_which_nothing_was_found_is_unchanged_and_limited(tmp_path: Path) -> None:
    def talker() -> Talker:
        return Talker(
            {RASH.text: [calls(search("nothing")), None], FEVER.text: [calls(search("flu")), calls(final(1))]}
        )

    asked = talker()
    rewriting, _ = lead(asked, tmp_path / "a", queries=[RASH, FEVER], led=agent(unusable=0.5))

    assert asked.prompts[2].messages[-1]["content"] == NOTHING
    assert rewriting.unchanged == ("1",)
    assert rewriting.ranked == {"2": (("flu",),)}
    with pytest.raises(DataError, match=r"1 of 2 queries have no usable text .context limit: 1.*: 1"):
        lead(talker(), tmp_path / "b", queries=[RASH, FEVER], led=agent(unusable=0.4))


def test_all_conversations_take_a_turn_together_and_search_in_one_search(tmp_path: Path) -> None:
    talker = Talker(
        {
            RASH.text: [calls(search("a"), search("b")), calls(final("p1", "p2"))],
            FEVER.text: [calls(search("c")), calls(final("p2"))],
        }
    )

    rewriting, demands = lead(talker, tmp_path, queries=[RASH, FEVER])

    assert [len(demand.prompts) for demand in demands if isinstance(demand, Ask)] == [2, 2]
    [found] = [demand for demand in demands if isinstance(demand, Find)]
    assert [query.text for query in found.queries] == ["a", "b", "c"]
    # `usual` was shown first as p2 of the first search
    assert rewriting.ranked == {"1": (("a", "usual"),), "2": (("usual",),)}


def test_excluded_documents_are_never_shown(tmp_path: Path) -> None:
    talker = Talker({RASH.text: [calls(search("usual")), calls(search("measles")), calls(final("p1"))]})
    excluding = replace(RASH, excluded=frozenset({"usual"}))
    own = replace(RASH, query_id="measles")

    rewriting, _ = lead(talker, tmp_path / "a", queries=[excluding])
    assert rewriting.ranked == {"1": (("measles",),)}
    talker = Talker({RASH.text: [calls(search("measles")), calls(final("p1"))]})
    rewriting, _ = lead(talker, tmp_path / "b", queries=[own], led=agent(drops_own=True))
    assert rewriting.ranked == {"measles": (("usual",),)}
    # the query's own document takes no place of the one that was asked for
    talker = Talker({RASH.text: [calls(search("measles", top_k=1)), calls(final("p1"))]})
    rewriting, _ = lead(talker, tmp_path / "c", queries=[own], led=agent(drops_own=True))
    assert rewriting.ranked == {"measles": (("usual",),)}


def test_a_stored_conversation_is_not_led_again_and_another_limit_is_another_conversation(tmp_path: Path) -> None:
    turns = [calls(search("measles")), calls(final("p1"))]
    first, _ = lead(Talker({RASH.text: turns}), tmp_path)

    again, demands = lead(Talker({}), tmp_path, queries=[replace(RASH, query_id="9")])

    assert [type(demand).__name__ for demand in demands] == ["Recall"]
    assert again.ranked == {"9": first.ranked["1"]}
    assert again.cuts == first.cuts
    keys = {agent(**limits).key(RASH).digest for limits in ({}, {"depth": 2}, {"max_turns": 9}, {"max_seconds": 9})}
    keys |= {agent().key(query).digest for query in (FEVER, replace(RASH, excluded=frozenset({"x"})))}
    keys |= {agent(drops_own=True).key(RASH).digest}
    assert len(keys) == 7


def test_what_is_cut_off_passages_is_counted(tmp_path: Path) -> None:
    talker = Talker({RASH.text: [calls(search("measles")), calls(final("p1"))]})

    rewriting, _ = lead(talker, tmp_path)

    assert rewriting.cuts is not None
    # two passages of five words, of which four are shown
    assert rewriting.cuts["document"] == Cuts(texts=2, cut=2, tokens=10, lost=2, lengths=(4,), unit="words")
    assert rewriting.cuts["query"] == Cuts(texts=1, cut=0, tokens=3, unit="words")


def test_no_turns_are_no_messages() -> None:
    assert messages([], is_brief=True) == []


def test_settings_of_other_methods_are_refused() -> None:
    def build(**values: Any) -> RankingAgent:
        given = {"method": "retrieval-agent", "llm": "m", "agent": {"retriever": "bm25"}} | values
        tool = cast(FirstStage, SimpleNamespace(drop_identical_ids=False))
        about: dict[str, Any] = {"model": Model(), "tool": tool, "tool_inputs": {}, "start": START, "system": "s"}
        return RankingAgent(RewriterConfig.model_validate(given), task=task(), **about)

    with pytest.raises(ConfigError, match="an agent needs `agent:"):
        build(agent=None)
    with pytest.raises(ConfigError, match="leave out `candidates` and `samples`"):
        build(samples=2)
