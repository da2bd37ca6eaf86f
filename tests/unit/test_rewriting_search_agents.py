import json
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from r2med_ray.chat import ChatPrompt, Completion
from r2med_ray.cuts import Cuts
from r2med_ray.demands import Ask, Demand, Find, Keep, Read, Recall
from r2med_ray.errors import ConfigError, ContextError, DataError, StageError
from r2med_ray.models.services.chat import CONTINUED
from r2med_ray.rewriting.agents.conversations import brief, words_shown
from r2med_ray.rewriting.agents.search_agents import SearchAgent
from r2med_ray.rewriting.agents.transcripts import Turn
from r2med_ray.rewriting.methods import METHODS
from r2med_ray.settings.compat import Rules
from r2med_ray.settings.rewriter import RewriterConfig
from r2med_ray.settings.templates import Template
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import fingerprint
from r2med_ray.types import Query, Rewriting, Run
from tests.fakes import answer, kept_in
from tests.unit.rewriting_parts import TOOL, Model, finding, task, told

QUERIES = (Query(query_id="1", text="why the rash"), Query(query_id="2", text="why the fever"))
START = Template(version="1", text="Q: {query}")
CONDENSE = Template(version="1", text="condense {query}|{reasoning}|{request}|{passages}")

Said = str | Completion | None


class Agent:
    """A language model with a list of lines per question. It says them in turn, and remembers every prompt."""

    def __init__(self, lines: Mapping[str, Sequence[Said]], condensed: Said = "facts") -> None:
        self.prompts: list[ChatPrompt] = []
        self.batches: list[int] = []
        self._lines = {question: list(said) for question, said in lines.items()}
        self._condensed = condensed

    def __call__(self, ask: Ask) -> list[Completion | None]:
        self.prompts += ask.prompts
        self.batches.append(len(ask.prompts))
        return [self._say(prompt.messages[0]["content"]) for prompt in ask.prompts]

    def _say(self, first: str) -> Completion | None:
        said = self._condensed if first.startswith("condense") else self._lines[first.removeprefix("Q: ")].pop(0)
        if isinstance(said, str):
            return Completion(text=said, reasoning="", finish_reason="stop", completion_tokens=len(said.split()))
        return said


class Library:
    """A first stage that finds two passages for every request, and remembers the requests of every call."""

    def __init__(self, *passages: str) -> None:
        self.calls: list[list[str]] = []
        self._passages = passages
        found = finding(lambda query: self._passages or (f"about {query.text}", "one two three four"))
        self._find, self.read = found[Find], found[Read]

    def find(self, demand: Find) -> Any:
        self.calls.append([query.text for query in demand.queries])
        return self._find(demand)


def agent(*, method: str = "search-r1", **changes: Any) -> SearchAgent:
    limits = {
        "retriever": "bm25",
        "words": changes.pop("words", 3),
        **{key: changes.pop(key) for key in list(changes) if key.startswith("max_")},
    }
    formats = {"search-r1": "answer-tag", "search-o1": "think"}
    answer_format = changes.pop("answer_format", formats.get(method, "plain"))
    unusable = changes.pop("unusable", 1)
    config = RewriterConfig.model_validate(
        {"method": method, "llm": "agent", "agent": limits, "max_unusable": unusable}
    )
    return SearchAgent(
        config,
        task=task(),
        method=METHODS[method],
        model=Model(answer_format=answer_format),
        tool=TOOL,
        tool_inputs={"bm25": "k1=0.9"},
        start=START,
        condense=CONDENSE,
        **{"in_place": False, "rules": Rules(), "system": "agent"} | changes,
    )


class Desk:
    """Drives agents over one store, and remembers the demands of the last one."""

    def __init__(self, folder: Path) -> None:
        self._store = ArtifactStore(str(folder))
        self.demands: list[Demand] = []

    def lead(
        self,
        agent: SearchAgent,
        model: Callable[[Ask], list[Completion | None]],
        library: Library | None = None,
        queries: Sequence[Query] = QUERIES[:1],
    ) -> Rewriting:
        shelf = library or Library()
        answers = {Ask: model, Find: shelf.find, Read: shelf.read, **kept_in(self._store)}
        rewriting, self.demands = answer(agent.rewrite(queries), answers)
        return rewriting

    def unfinished(self, agent: SearchAgent, queries: Sequence[Query] = QUERIES[:1]) -> int:
        """Return the number of conversations that are not yet finished."""

        class Reached(Exception):  # noqa: N818
            pass

        def ask(demand: Ask) -> list[Completion | None]:
            raise Reached(len(demand.prompts))

        try:
            self.lead(agent, ask, queries=queries)
        except Reached as asked:
            return int(asked.args[0])
        return 0


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_an_agent_searches_reads_and_answers(desk: Desk) -> None:
    model = Agent(
        {"why the rash": ["<think>measles?</think><search> measles rash", "<answer>It is measles.</answer>"]}
    )
    library = Library()

    rewriting = desk.lead(agent(), model, library)

    assert [expansion.text for expansion in rewriting.queries[0].expansions] == ["It is measles."]
    assert rewriting.flagged == {}
    assert library.calls == [["measles rash"]]
    assert model.prompts[1].messages == (
        {"role": "user", "content": "Q: why the rash"},
        {"role": "assistant", "content": "<think>measles?</think><search> measles rash</search>"},
        {"role": "user", "content": "<information>\n[1] about measles rash\n[2] one two three\n</information>"},
    )
    assert model.prompts[0].stop == ("</search>",)


def test_a_model_that_goes_on_in_place_is_given_its_own_text(desk: Desk) -> None:
    model = Agent({"why the rash": ["<search>measles", "<answer>measles</answer>"]})

    desk.lead(agent(in_place=True), model)

    assert [message["role"] for message in model.prompts[1].messages] == ["user", "assistant"]
    assert model.prompts[1].messages[1]["content"] == (
        "<search>measles</search>\n<information>\n[1] about measles\n[2] one two three\n</information>\n"
    )


def test_what_was_found_is_condensed_for_search_o1(desk: Desk) -> None:
    request = "<think>hm <|begin_search_query|>koplik spots"
    model = Agent(
        {"why the rash": [request, "so</think>Measles."]}, condensed="<think>x</think>Koplik means measles."
    )

    rewriting = desk.lead(agent(method="search-o1", in_place=True), model)

    condensing = model.prompts[1].messages[0]["content"]
    assert condensing == (
        f"condense why the rash|{request}<|end_search_query|>|koplik spots|[1] about koplik spots\n[2] one two three"
    )
    assert (
        "<|begin_search_result|>\nKoplik means measles.\n<|end_search_result|>"
        in model.prompts[2].messages[1]["content"]
    )
    assert rewriting.queries[0].expansions[0].text == "Measles."


def test_all_questions_take_a_turn_together(desk: Desk) -> None:
    model = Agent(
        {
            "why the rash": ["<search>rash", "<answer>a</answer>"],
            "why the fever": ["<search>fever", "<search>more fever", "<answer>b</answer>"],
        }
    )
    library = Library()

    desk.lead(agent(), model, library, queries=QUERIES)

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
def test_a_malformed_turn_is_answered_with_what_is_wrong_and_counted(desk: Desk, said: str, problem: str) -> None:
    model = Agent({"why the rash": [said, "<answer>a</answer>"]})
    library = Library()

    rewriting = desk.lead(agent(), model, library)

    assert problem in model.prompts[1].messages[2]["content"]
    assert library.calls == []
    assert rewriting.flagged == {"malformed request": ("1",)}
    assert rewriting.queries[0].expansions[0].text == "a"


def test_what_a_model_makes_up_behind_its_request_is_cut_off(desk: Desk) -> None:
    made_up = "<search>rash</search><information>It is lupus.</information><answer>lupus</answer>"
    model = Agent({"why the rash": [made_up, "<answer>measles</answer>"]})

    rewriting = desk.lead(agent(), model)

    assert rewriting.queries[0].expansions[0].text == "measles"
    assert model.prompts[1].messages[1]["content"] == "<search>rash</search>"


ASKS_MORE = {"search-r1": "<search>more", "search-o1": "<|begin_search_query|>more"}


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize(
    ("method", "answer_format", "said"),
    [
        ("search-r1", "answer-tag", "<think>hm</think><answer>Measles.</answer> {}"),
        ("search-r1", "think", "<think>hm</think><answer>Measles.</answer> {}"),
        ("search-r1", "plain", "<answer>Measles.</answer> {}"),
        ("search-r1", "solution", "<|begin_of_solution|>Measles.<|end_of_solution|>{}"),
        ("search-o1", "solution", "<|begin_of_solution|>Measles.<|end_of_solution|>{}"),
        ("search-o1", "answer-tag", "<think>hm</think><answer>Measles.</answer>{}"),
    ],
)
def test_a_given_answer_ends_the_conversation_though_a_request_follows(
    desk: Desk, method: str, answer_format: str, said: str, in_place: bool
) -> None:
    model, library = Agent({"why the rash": [said.format(ASKS_MORE[method])]}), Library()
    leader = agent(method=method, answer_format=answer_format, in_place=in_place)

    rewriting = desk.lead(leader, model, library)

    assert library.calls == []
    assert [item.text for item in rewriting.queries[0].expansions] == ["Measles."]
    assert rewriting.flagged == {}


def test_a_server_that_takes_reasoning_apart_leaves_the_given_answer(desk: Desk) -> None:
    said = Completion(text="<answer>Measles.</answer> <search>more", reasoning="hm", finish_reason="stop")
    library = Library()

    rewriting = desk.lead(agent(), Agent({"why the rash": [said]}), library)

    assert library.calls == []
    assert [item.text for item in rewriting.queries[0].expansions] == ["Measles."]


def test_after_the_last_search_the_model_is_told_to_answer(desk: Desk) -> None:
    model = Agent({"why the rash": ["<search>a", "<search>b", "<search>c"]})
    library = Library()

    rewriting = desk.lead(agent(max_turns=2), model, library)

    assert library.calls == [["a"], ["b"]]
    assert "No more searches" not in model.prompts[1].messages[-1]["content"]
    assert model.prompts[2].messages[-1]["content"].endswith("Answer with what you know.\n</information>")
    assert rewriting.flagged["turn limit"] == ("1",)
    assert rewriting.queries[0].expansions == ()


def test_a_conversation_ends_at_its_token_limit(desk: Desk) -> None:
    model = Agent({"why the rash": ["<search>one two three four", "<answer>never</answer>"]})

    assert desk.lead(agent(max_tokens=4), model).flagged["token limit"] == ("1",)


def took(seconds: float, text: str) -> Completion:
    return Completion(text=text, reasoning="", finish_reason="stop", seconds=seconds)


def test_a_conversation_begins_no_search_past_its_time(desk: Desk) -> None:
    model = Agent({"why the rash": [took(4, "<search>a"), took(6, "<search>b")]})
    library = Library()

    rewriting = desk.lead(agent(max_seconds=10), model, library)

    assert library.calls == [["a"]]
    assert rewriting.flagged["time limit"] == ("1",)


def test_condensing_takes_time_and_other_conversations_do_not(desk: Desk) -> None:
    request, again = "<|begin_search_query|>a", "<|begin_search_query|>b"
    said = {
        "why the rash": [took(4, request), took(4, again)],
        "why the fever": [took(1, request), took(1, again), took(1, "c")],
    }
    model = Agent(said, condensed=took(3, "facts"))

    rewriting = desk.lead(agent(method="search-o1", max_seconds=10), model, queries=QUERIES)

    # the first conversation takes 4 + 3 + 4 seconds, the second 1 + 3 + 1 + 3 + 1
    assert rewriting.flagged["time limit"] == ("1",)
    assert [len(query.expansions) for query in rewriting.queries] == [0, 1]


def test_a_conversation_that_time_ended_goes_on_under_a_longer_limit_only(desk: Desk) -> None:
    said = {"why the rash": [took(4, "<search>a"), took(6, "<search>b"), took(1, "<answer>c</answer>")]}
    desk.lead(agent(max_seconds=10), Agent(said))
    longer = agent(max_seconds=20)

    assert desk.unfinished(agent(max_seconds=10)) == 0
    assert desk.unfinished(agent(max_seconds=5)) == 0
    assert desk.unfinished(longer) == 1
    assert desk.lead(longer, Agent(said)).queries[0].expansions[0].text == "c"
    assert desk.unfinished(agent(max_seconds=30)) == 0


@pytest.mark.parametrize("limit", [3, 4, 6, 7, 8, 11, 12, 20])
def test_a_conversation_of_an_agent_with_more_time_counts_as_one_led_under_ones_own_limit(
    tmp_path: Path, limit: int
) -> None:
    request = "<|begin_search_query|>"

    def model() -> Agent:
        # Turns end after 4, 4 + 3 + 4 and 4 + 3 + 4 + 3 + 1 seconds: condensing takes 3 before the next one.
        said = [took(4, f"{request}a"), took(4, f"{request}b"), took(1, "c")]
        return Agent({"why the rash": said}, condensed=took(3, "facts"))

    alone, shared = Desk(tmp_path / "alone"), Desk(tmp_path / "shared")
    shared.lead(agent(method="search-o1", max_seconds=100), model())

    assert shared.lead(agent(method="search-o1", max_seconds=limit), Agent({})) == alone.lead(
        agent(method="search-o1", max_seconds=limit), model()
    )


def test_an_answer_cut_at_the_models_limit_is_flagged(desk: Desk) -> None:
    cut = Completion(text="<think>so long", reasoning="", finish_reason="length")

    rewriting = desk.lead(agent(), Agent({"why the rash": [cut]}))

    assert rewriting.flagged["cut at limit"] == ("1",)


def test_a_conversation_is_led_once(desk: Desk) -> None:
    first = desk.lead(agent(), Agent({"why the rash": ["<search>a", "<answer>x</answer>"]}))
    silent = Agent({})

    assert desk.unfinished(agent(), queries=QUERIES) == 1
    assert desk.lead(agent(), silent) == first
    assert silent.prompts == []


def test_a_conversation_about_the_same_question_is_counted_for_every_query(desk: Desk) -> None:
    twins = tuple(Query(query_id=name, text="why the rash") for name in ("1", "2"))
    model = Agent({"why the rash": [took(9, "<search>a")]})

    rewriting = desk.lead(agent(max_seconds=5), model, queries=twins)

    assert model.batches == [1]
    assert rewriting.flagged["time limit"] == ("1", "2")


def test_a_method_that_is_no_agent_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown search agent 'hyde'"):
        agent(method="hyde")


R1_TEMPLATE = (
    "{% for message in messages %}{% if message['role'] == 'user' %}<|User|>{{ message['content'] }}"
    "{% else %}<|Assistant|>{{ message['content'].split('</think>')[-1] }}<|end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|Assistant|><think>{% endif %}"
)
"""A chat template that cuts ended thoughts out of the model's messages, like the templates of R1, QwQ and Qwen3."""

KEEPING_TEMPLATE = R1_TEMPLATE.replace(".split('</think>')[-1]", "")


def rendered(prompt: ChatPrompt, template: str) -> str:
    """Render a prompt as vLLM does. vLLM refuses a prompt that transformers can't render."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from transformers import PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(WordLevel({"a": 0}, unk_token="a")))
    is_continued = prompt.messages[-1]["role"] == "assistant"
    options = CONTINUED if is_continued else {"add_generation_prompt": True}
    text = tokenizer.apply_chat_template(
        [dict(message) for message in prompt.messages], chat_template=template, tokenize=False, **options
    )
    assert isinstance(text, str)
    return text


@pytest.mark.parametrize(
    ("method", "answer_format", "template", "said", "roles"),
    [
        pytest.param(
            "search-r1",
            "think",
            R1_TEMPLATE,
            ["<think>hm</think><search>a", "<think>so</think><search>b", "<answer>c</answer>"],
            ["user", "user", "user"],
            id="closed thoughts",
        ),
        pytest.param(
            "search-o1",
            "think",
            R1_TEMPLATE,
            ["<think>hm <|begin_search_query|>a", "so <|begin_search_query|>b", "yes</think>c"],
            ["user", "assistant", "assistant"],
            id="open thoughts",
        ),
        pytest.param(
            "search-o1",
            "think",
            R1_TEMPLATE,
            ["<think>hm <|begin_search_query|>a", "so</think><|begin_search_query|>b", "c"],
            ["user", "assistant", "user"],
            id="thoughts that close later",
        ),
        pytest.param(
            "search-r1",
            "answer-tag",
            KEEPING_TEMPLATE,
            ["<think>hm</think><search>a", "<think>so</think><search>b", "<answer>c</answer>"],
            ["user", "assistant", "assistant"],
            id="thoughts that stay",
        ),
    ],
)
def test_every_turn_can_be_rendered_and_shows_all_that_was_found(
    desk: Desk, method: str, answer_format: str, template: str, said: list[str], roles: list[str]
) -> None:
    model = Agent({"why the rash": said}, condensed="condensed fact")
    leader = agent(method=method, answer_format=answer_format, in_place=True)

    rewriting = desk.lead(leader, model)

    turns = [prompt for prompt in model.prompts if not prompt.messages[0]["content"].startswith("condense")]
    assert [prompt.messages[-1]["role"] for prompt in turns] == roles
    shown = "condensed fact" if method == "search-o1" else "one two three"
    assert [rendered(prompt, template).count(shown) for prompt in turns] == [0, 1, 2]
    assert rewriting.queries[0].expansions[0].text == "c"


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("answer_format", ["answer-tag", "think", "plain"])
def test_an_answer_holds_nothing_of_the_searches_before_it(desk: Desk, in_place: bool, answer_format: str) -> None:
    said = [
        "<think>maybe measles</think><search>measles rash</search>",
        "<think>yes, Koplik spots</think><answer>Measles causes a rash.</answer>",
    ]
    leader = agent(in_place=in_place, answer_format=answer_format)

    rewriting = desk.lead(leader, Agent({"why the rash": said}))

    assert [item.text for item in rewriting.queries[0].expansions] == ["Measles causes a rash."]
    assert rewriting.flagged == {}


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("answer_format", ["answer-tag", "think", "solution"])
@pytest.mark.parametrize("first", [("hm", "{} a"), ("hm {} a", "")])
def test_a_server_that_takes_reasoning_apart_changes_neither_request_nor_answer(
    desk: Desk, in_place: bool, answer_format: str, first: tuple[str, str]
) -> None:
    reasoning, text = (part.format("<|begin_search_query|>") for part in first)
    model = Agent(
        {
            "why the rash": [
                Completion(text=text, reasoning=reasoning, finish_reason="stop"),
                Completion(text="Measles.", reasoning="so", finish_reason="stop"),
            ]
        }
    )
    library = Library()
    leader = agent(method="search-o1", in_place=in_place, answer_format=answer_format)

    rewriting = desk.lead(leader, model, library)

    assert library.calls == [["a"]]
    assert [item.text for item in rewriting.queries[0].expansions] == ["Measles."]


def test_a_thought_that_goes_on_in_place_is_opened_once(desk: Desk) -> None:
    thoughts = ["hm <|begin_search_query|>a", "so <|begin_search_query|>b"]
    said = [Completion(text="", reasoning=thought, finish_reason="stop") for thought in thoughts]
    model = Agent({"why the rash": [*said, "yes</think>c"]})

    desk.lead(agent(method="search-o1", in_place=True), model)

    assert model.prompts[-1].messages[-1]["content"].count("<think>") == 1


def test_what_a_thought_that_stayed_open_says_is_no_answer(desk: Desk) -> None:
    said = ["<think>hm <|begin_search_query|>a", "so it may be measles", "really</think>Measles."]
    rewriting = desk.lead(agent(method="search-o1", in_place=True), Agent({"why the rash": said}))

    assert rewriting.flagged == {"malformed request": ("1",)}
    assert rewriting.queries[0].expansions[0].text == "Measles."


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("search-r1", "<think>I need no <search> here</think><answer>Measles.</answer>"),
        ("search-r1", "<think>no <search> and no <answer> yet</think>\n<answer>Measles.</answer>"),
        ("search-o1", "<think>I need no <|begin_search_query|> here</think>Measles."),
    ],
)
def test_a_mark_that_is_only_mentioned_asks_for_nothing(desk: Desk, method: str, said: str) -> None:
    library = Library()

    rewriting = desk.lead(agent(method=method), Agent({"why the rash": [said]}), library)

    assert library.calls == []
    assert rewriting.flagged == {}
    assert rewriting.queries[0].expansions[0].text == "Measles."


Messages = Sequence[Mapping[str, str]]


def forgetful(
    is_too_long: Callable[[Messages], bool], *, listens: bool = True
) -> Callable[[Ask], list[Completion | None]]:
    """Return a model that searches for the fever once, and for the rash until an answer is demanded, or for ever.

    The model answers the first version of a prompt that is not too long.
    """

    def say(last: str) -> str:
        if listens and "No more searches" in last:
            return "<answer>demanded</answer>"
        if "about fever" in last or "facts" in last:
            return "<answer>a cold</answer>"
        return "<search>fever</search>" if "fever" in last else "<search>rash</search>"

    def write(prompt: ChatPrompt) -> Completion | None:
        for number, messages in enumerate((prompt.messages, *prompt.shorter)):
            if not is_too_long(messages):
                text = say(messages[-1]["content"])
                return Completion(text=text, reasoning="", finish_reason="stop", shortened=number)
        return None

    return lambda ask: [write(prompt) for prompt in ask.prompts]


def words_in(messages: Messages) -> int:
    return sum(len(message["content"].split()) for message in messages)


def test_a_conversation_that_outgrows_the_model_ends_alone(desk: Desk) -> None:
    rewriting = desk.lead(agent(), forgetful(lambda messages: len(messages) > 3), queries=QUERIES)
    again = desk.lead(agent(), Agent({}), queries=QUERIES)

    assert (rewriting.flagged, rewriting.unchanged) == ({"context limit": ("1",)}, ("1",))
    assert [[item.text for item in query.expansions] for query in rewriting.queries] == [[], ["a cold"]]
    assert again == rewriting


def test_under_the_published_protocol_a_conversation_that_outgrows_the_model_has_no_text_either(desk: Desk) -> None:
    rewriting = desk.lead(agent(rules=Rules.of("r2med")), forgetful(lambda messages: True))

    assert rewriting.queries[0].expansions == ()
    assert (rewriting.flagged, rewriting.unchanged) == ({"context limit": ("1",)}, ("1",))


def test_too_many_conversations_that_outgrow_the_model_are_an_error(desk: Desk) -> None:
    with pytest.raises(DataError, match=r"2 of 2 queries have no usable text \(context limit: 2\)"):
        desk.lead(agent(unusable=0.5), forgetful(lambda messages: True), queries=QUERIES)


# The question has 4 words, and a request has 1. The results of a request have 103 words: 100, a number and two marks.
# With two searches there are 212 words, with three 316, which is more than 250. With shortened results, three
# searches have 4 + 3 * (1 + 32 + 2) words, and the demand for an answer has 10: 119.
@pytest.mark.parametrize(
    ("listens", "flagged", "texts"),
    [
        pytest.param(True, {"results shortened": ("1",)}, ["demanded"], id="it answers"),
        pytest.param(
            False,
            {"results shortened": ("1",), "context limit": ("1",)},
            [],
            id="it goes on searching",
        ),
    ],
)
def test_a_model_that_can_not_read_all_results_is_shown_little_of_them_and_asked_for_its_answer(
    desk: Desk, listens: bool, flagged: dict[str, tuple[str, ...]], texts: list[str]
) -> None:
    library = Library("word " * 100)
    model = forgetful(lambda messages: words_in(messages) > 250, listens=listens)

    rewriting = desk.lead(agent(words=100, max_turns=9), model, library)

    assert rewriting.flagged == flagged
    assert [item.text for item in rewriting.queries[0].expansions] == texts
    assert len(library.calls) == 3
    # The passage of the first two searches was shown whole, that of the last one behind its number.
    assert rewriting.cuts is not None
    assert rewriting.cuts["document"] == Cuts(texts=3, cut=1, tokens=300, lost=69, lengths=(100,), unit="words")


@pytest.mark.parametrize(
    ("words", "is_brief", "shown"),
    [
        ([10, 3, 5], False, [4, 3, 4]),
        # The result is [1] with 4 words, [2] with 3, ... : 5 + 4 + 5 · 4 = 29 of 32 words; 2 are left behind [7].
        ([10, 3, 5, 5, 5, 5, 5, 5], True, [4, 3, 4, 4, 4, 4, 2, 0]),
    ],
)
def test_passages_are_cut_one_by_one_and_brief_results_as_a_whole(
    words: list[int], is_brief: bool, shown: list[int]
) -> None:
    passages = [" ".join(["word"] * size) for size in words]
    result = "\n".join(f"[{i}] {' '.join(text.split()[:4])}" for i, text in enumerate(passages, 1))
    turns = [Turn(text="", finish_reason="stop", tokens=0, shown=result)]
    [seen] = brief(turns) if is_brief else turns

    assert words_shown(words, 4, is_brief=is_brief) == shown
    assert (seen.shown or "").count("word") == sum(shown)


@pytest.mark.parametrize("method", ["search-r1", "search-o1"])
def test_words_that_an_agent_is_not_shown_of_a_passage_are_counted_for_every_search(desk: Desk, method: str) -> None:
    search, end = {"search-r1": ("<search>", "<answer>a"), "search-o1": ("<|begin_search_query|>", "a")}[method]
    said = {"why the rash": [f"{search}x", f"{search}y", end], "why the fever": [end]}

    rewriting = desk.lead(agent(method=method), Agent(said), queries=QUERIES)
    again = desk.lead(agent(method=method), Agent({}), queries=QUERIES)

    # Each of 2 searches finds "about x" and "one two three four", and 3 words of a passage are shown.
    assert (
        again.cuts
        == rewriting.cuts
        == {
            "query": Cuts(texts=2, tokens=6, unit="words"),
            "document": Cuts(texts=4, cut=2, tokens=12, lost=2, lengths=(3,), unit="words"),
        }
    )


def test_what_was_cut_in_conversations_from_before_it_was_counted_is_unknown(desk: Desk, tmp_path: Path) -> None:
    said = {"why the rash": ["<search>x", "<answer>a"], "why the fever": ["<answer>a"]}
    desk.lead(agent(), Agent(said), queries=QUERIES)
    keep = kept_in(ArtifactStore(str(tmp_path / "before")))[Keep]
    for kept in [demand for demand in desk.demands if isinstance(demand, Keep)]:
        transcript = json.loads(kept.files["transcript.json"])
        for turn in transcript["turns"]:
            del turn["words"]
        keep(replace(kept, files={"transcript.json": json.dumps(transcript).encode()}))
    before = Desk(tmp_path / "before")

    assert before.lead(agent(), Agent({}), queries=QUERIES).cuts is None
    # The other conversation found nothing, so there was nothing to cut.
    assert before.lead(agent(), Agent({}), queries=QUERIES[1:]).cuts == {
        "query": Cuts(texts=1, tokens=3, unit="words"),
        "document": Cuts(lengths=(3,), unit="words"),
    }


def test_a_conversation_whose_passages_can_not_be_condensed_ends_alone(desk: Desk) -> None:
    model = Agent({"why the rash": ["<|begin_search_query|>a"], "why the fever": ["<|begin_search_query|>b", "c"]})

    def forget(ask: Ask) -> list[Completion | None]:
        completions = model(ask)
        no_room = [prompt.unit == "query '1', condensing search 1" for prompt in ask.prompts]
        return [None if forgets else said for forgets, said in zip(no_room, completions, strict=True)]

    rewriting = desk.lead(agent(method="search-o1"), forget, queries=QUERIES)

    assert rewriting.flagged["context limit"] == ("1",)
    assert [len(query.expansions) for query in rewriting.queries] == [0, 1]


@pytest.mark.parametrize(
    "error",
    [
        StageError("generate", "query '2'", "unknown parameter"),
        ContextError("generate", "query '9'", "too long", ("query '9'",)),
    ],
)
def test_a_model_that_fails_fails_the_rewriting_with_its_error(desk: Desk, error: StageError) -> None:
    def fail(ask: Ask) -> list[Completion | None]:
        raise error

    with pytest.raises(StageError) as raised:
        desk.lead(agent(), fail, queries=QUERIES)

    assert raised.value is error
    assert vars(pickle.loads(pickle.dumps(raised.value))) == vars(error)


@pytest.mark.parametrize("change", [{"in_place": True}, {"answer_format": "think"}, {"max_turns": 1}])
def test_what_changes_a_conversation_leads_it_anew(desk: Desk, change: dict[str, object]) -> None:
    desk.lead(agent(), Agent({"why the rash": ["<answer>x</answer>"]}))

    assert desk.unfinished(agent(**change)) == 1
    assert desk.unfinished(agent(rules=Rules.of("r2med"))) == 0


def test_a_turn_searches_reads_and_keeps_what_has_ended(desk: Desk) -> None:
    said = {"why the rash": ["<search>rash", "<answer>a</answer>"], "why the fever": ["<answer>b</answer>"]}
    leader = agent()

    desk.lead(leader, Agent(said), queries=QUERIES)

    recall, first, find, read, kept, second, kept_later = desk.demands
    keys = tuple(leader.key(query) for query in QUERIES)
    assert recall == Recall(keys=keys)
    assert isinstance(first, Ask)
    assert isinstance(second, Ask)
    assert [[prompt.unit for prompt in ask.prompts] for ask in (first, second)] == [
        ["query '1', turn 1", "query '2', turn 1"],
        ["query '1', turn 2"],
    ]
    request = Query(query_id="request 0", text="rash")
    assert find == Find(task=task(), first_stage=TOOL, queries=(request,), k=5)
    assert read == Read(task=task(), doc_ids=frozenset({"request 0: document 0", "request 0: document 1"}))
    assert isinstance(kept, Keep)
    assert isinstance(kept_later, Keep)
    assert (kept.key, kept_later.key) == (keys[1], keys[0])
    assert list(kept.files) == ["transcript.json"]


def test_the_key_of_a_transcript_names_all_that_changes_it() -> None:
    key = agent(max_seconds=9).key(QUERIES[0])

    assert key.kind == "transcript"
    assert key.inputs == {
        "method": "search-r1",
        "generator": {"model": "agent"},
        "tool": {"bm25": "k1=0.9"},
        "prompts": [START.digest, CONDENSE.digest],
        "limits": {"depth": 5, "words": 3, "max_turns": 5, "max_tokens": 16_384},
        "seed": 42,
        "conversation": {
            "model": {
                "reasoning": True,
                "thought_start": "<think>",
                "answer_start": "<answer>",
                "answer_end": "</answer>",
                "thought_end": "</think>",
                "thoughts_stay": True,
            },
            "in_place": False,
        },
        "rules": 5,
        "query": fingerprint("why the rash"),
    }


def test_no_request_finds_what_its_query_excludes(desk: Desk) -> None:
    excluding = replace(QUERIES[0], excluded=frozenset({"the source"}))
    model = Agent({"why the rash": ["<search>rash", "<answer>a</answer>"]})

    desk.lead(agent(), model, queries=[excluding])

    [find] = [demand for demand in desk.demands if isinstance(demand, Find)]
    assert [query.excluded for query in find.queries] == [{"the source"}]
    assert agent().key(excluding) != agent().key(QUERIES[0])


def test_nothing_is_read_where_a_request_finds_nothing(desk: Desk) -> None:
    library = Library()
    library.find = lambda demand: Run(tag="found", rankings={query.query_id: () for query in demand.queries})
    model = Agent({"why the rash": ["<search>rash", "<answer>a</answer>"]})

    desk.lead(agent(), model, library)

    assert Read not in [type(demand) for demand in desk.demands]
    assert "Nothing was found." in told(model.prompts[1])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"agent": None}, "a search agent needs `agent: {retriever: bm25}`"),
        ({"candidates": {"retriever": "bm25"}}, "leave out `candidates`: a search agent searches by itself"),
    ],
)
def test_settings_that_do_not_fit_an_agent_are_refused(values: dict[str, Any], message: str) -> None:
    settings = {"method": "search-r1", "llm": "m", "agent": {"retriever": "bm25"}} | values

    with pytest.raises(ConfigError, match=message):
        SearchAgent(
            RewriterConfig.model_validate(settings),
            task=task(),
            method=METHODS["search-r1"],
            model=Model(),
            tool=TOOL,
            tool_inputs={},
            start=START,
            condense=CONDENSE,
            in_place=False,
            rules=Rules(),
            system="agent",
        )
