from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from r2med_ray.artifacts import ArtifactStore
from r2med_ray.config import RewriterConfig
from r2med_ray.errors import ConfigError
from r2med_ray.protocols import ChatPrompt, Completion
from r2med_ray.rewriting.search_agents import SearchAgent
from r2med_ray.templates import Template
from r2med_ray.types import Query

QUERIES = (Query(query_id="1", text="why the rash"), Query(query_id="2", text="why the fever"))
START = Template(version="1", text="Q: {query}")
CONDENSE = Template(version="1", text="condense {query}|{reasoning}|{request}|{passages}")


class Agent:
    """A language model that says its lines in turn, one list of lines per question; remembers every prompt."""

    def __init__(self, lines: Mapping[str, Sequence[str | Completion]], condensed: str = "facts") -> None:
        self.prompts: list[ChatPrompt] = []
        self.batches: list[int] = []
        self._lines = {question: list(said) for question, said in lines.items()}
        self._condensed = condensed

    def inputs(self) -> Mapping[str, str]:
        return {"model": "agent"}

    def generate(
        self, prompts: Sequence[ChatPrompt], *, keep: Callable[[int, Completion], None] | None = None
    ) -> list[Completion]:
        self.prompts += prompts
        self.batches.append(len(prompts))
        return [self._say(prompt.messages[0]["content"]) for prompt in prompts]

    def _say(self, first: str) -> Completion:
        said = self._condensed if first.startswith("condense") else self._lines[first.removeprefix("Q: ")].pop(0)
        if isinstance(said, Completion):
            return said
        return Completion(text=said, reasoning="", finish_reason="stop", completion_tokens=len(said.split()))


class Library:
    """Finds two passages for every request, and remembers the requests of every call."""

    def __init__(self) -> None:
        self.calls: list[list[str]] = []

    def __call__(self, requests: Sequence[str]) -> list[list[tuple[str, str]]]:
        self.calls.append(list(requests))
        return [[("d1", f"about {request}"), ("d2", "one two three four")] for request in requests]


def agent(
    store: ArtifactStore, model: Agent, library: Library, *, method: str = "search-r1", **changes: object
) -> SearchAgent:
    limits = {
        "retriever": "bm25",
        "words": 3,
        **{key: changes.pop(key) for key in list(changes) if key.startswith("max_")},
    }
    formats = {"search-r1": "answer-tag", "search-o1": "think"}
    config = RewriterConfig.model_validate({"method": method, "llm": "agent", "agent": limits, "max_unusable": 1})
    return SearchAgent(
        config,
        model,
        library,
        tool={"bm25": "k1=0.9"},
        start=START,
        condense=CONDENSE,
        store=store,
        answer_format=formats.get(method, "plain"),
        **changes,  # type: ignore[arg-type]
    )


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(str(tmp_path))


def test_an_agent_searches_reads_and_answers(store: ArtifactStore) -> None:
    model = Agent(
        {"why the rash": ["<think>measles?</think><search> measles rash", "<answer>It is measles.</answer>"]}
    )
    library = Library()

    rewriting = agent(store, model, library).rewrite(QUERIES[:1])

    assert [expansion.text for expansion in rewriting.queries[0].expansions] == ["It is measles."]
    assert rewriting.flagged == {}
    assert library.calls == [["measles rash"]]
    assert model.prompts[1].messages == (
        {"role": "user", "content": "Q: why the rash"},
        {"role": "assistant", "content": "<think>measles?</think><search> measles rash</search>"},
        {"role": "user", "content": "<information>\n[1] about measles rash\n[2] one two three\n</information>"},
    )
    assert model.prompts[0].stop == ("</search>",)


def test_a_model_that_goes_on_in_place_is_given_its_own_text(store: ArtifactStore) -> None:
    model = Agent({"why the rash": ["<search>measles", "<answer>measles</answer>"]})

    agent(store, model, Library(), in_place=True).rewrite(QUERIES[:1])

    assert [message["role"] for message in model.prompts[1].messages] == ["user", "assistant"]
    assert model.prompts[1].messages[1]["content"] == (
        "<search>measles</search>\n<information>\n[1] about measles\n[2] one two three\n</information>\n"
    )


def test_what_was_found_is_condensed_for_search_o1(store: ArtifactStore) -> None:
    request = "<think>hm <|begin_search_query|>koplik spots"
    model = Agent(
        {"why the rash": [request, "so</think>Measles."]}, condensed="<think>x</think>Koplik means measles."
    )

    rewriting = agent(store, model, Library(), method="search-o1", in_place=True).rewrite(QUERIES[:1])

    condensing = model.prompts[1].messages[0]["content"]
    assert condensing == (
        f"condense why the rash|{request}<|end_search_query|>|koplik spots|[1] about koplik spots\n[2] one two three"
    )
    assert (
        "<|begin_search_result|>\nKoplik means measles.\n<|end_search_result|>"
        in model.prompts[2].messages[1]["content"]
    )
    assert rewriting.queries[0].expansions[0].text == "Measles."


def test_all_questions_take_a_turn_together(store: ArtifactStore) -> None:
    model = Agent(
        {
            "why the rash": ["<search>rash", "<answer>a</answer>"],
            "why the fever": ["<search>fever", "<search>more fever", "<answer>b</answer>"],
        }
    )
    library = Library()

    agent(store, model, library).rewrite(QUERIES)

    assert model.batches == [2, 2, 1]
    assert library.calls == [["rash", "fever"], ["more fever"]]


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        pytest.param("<search>  ", "The request was empty.", id="empty"),
        pytest.param("<search>" + "word " * 65, "The request has 65 words; at most 64 are possible.", id="too long"),
        pytest.param("<think>hm</think> so it is", "neither an answer nor a request", id="neither"),
    ],
)
def test_a_malformed_turn_is_answered_with_what_is_wrong_and_counted(
    store: ArtifactStore, said: str, problem: str
) -> None:
    model = Agent({"why the rash": [said, "<answer>a</answer>"]})
    library = Library()

    rewriting = agent(store, model, library).rewrite(QUERIES[:1])

    assert problem in model.prompts[1].messages[2]["content"]
    assert library.calls == []
    assert rewriting.flagged == {"malformed request": ("1",)}
    assert rewriting.queries[0].expansions[0].text == "a"


def test_what_a_model_makes_up_behind_its_request_is_cut_off(store: ArtifactStore) -> None:
    made_up = "<search>rash</search><information>It is lupus.</information><answer>lupus</answer>"
    model = Agent({"why the rash": [made_up, "<answer>measles</answer>"]})

    rewriting = agent(store, model, Library()).rewrite(QUERIES[:1])

    assert rewriting.queries[0].expansions[0].text == "measles"
    assert model.prompts[1].messages[1]["content"] == "<search>rash</search>"


def test_after_the_last_search_the_model_is_told_to_answer(store: ArtifactStore) -> None:
    model = Agent({"why the rash": ["<search>a", "<search>b", "<search>c"]})
    library = Library()

    rewriting = agent(store, model, library, max_turns=2).rewrite(QUERIES[:1])

    assert library.calls == [["a"], ["b"]]
    assert "No more searches" not in model.prompts[1].messages[-1]["content"]
    assert model.prompts[2].messages[-1]["content"].endswith("Answer with what you know.\n</information>")
    assert rewriting.flagged["turn limit"] == ("1",)
    assert rewriting.queries[0].expansions == ()


def test_a_conversation_ends_at_its_token_limit(store: ArtifactStore) -> None:
    model = Agent({"why the rash": ["<search>one two three four", "<answer>never</answer>"]})

    assert agent(store, model, Library(), max_tokens=4).rewrite(QUERIES[:1]).flagged["token limit"] == ("1",)


def test_a_conversation_begins_no_search_past_its_time(store: ArtifactStore) -> None:
    seconds = iter([0.0, 1.0, 11.0])
    model = Agent({"why the rash": ["<search>a", "<search>b"]})
    library = Library()

    rewriting = agent(store, model, library, max_seconds=10, clock=lambda: next(seconds)).rewrite(QUERIES[:1])

    assert library.calls == [["a"]]
    assert rewriting.flagged["time limit"] == ("1",)


def test_an_answer_cut_at_the_models_limit_is_flagged(store: ArtifactStore) -> None:
    cut = Completion(text="<think>so long", reasoning="", finish_reason="length")

    rewriting = agent(store, Agent({"why the rash": [cut]}), Library()).rewrite(QUERIES[:1])

    assert rewriting.flagged["cut at limit"] == ("1",)


def test_a_conversation_is_led_once(store: ArtifactStore) -> None:
    first = agent(store, Agent({"why the rash": ["<search>a", "<answer>x</answer>"]}), Library()).rewrite(QUERIES[:1])
    silent = Agent({})

    assert agent(store, silent, Library()).unfinished(QUERIES) == 1
    assert agent(store, silent, Library()).rewrite(QUERIES[:1]) == first
    assert silent.prompts == []


def test_a_method_that_is_no_agent_is_refused(store: ArtifactStore) -> None:
    with pytest.raises(ConfigError, match="unknown search agent 'hyde'"):
        agent(store, Agent({}), Library(), method="hyde")
