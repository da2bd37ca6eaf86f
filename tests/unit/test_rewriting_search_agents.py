import pickle
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from r2med_ray.errors import ConfigError, ContextError, DataError, StageError
from r2med_ray.models.catalog.llm_rows import ChatCallPolicy, LanguageModelRow
from r2med_ray.models.services.chat import CONTINUED, ChatModel
from r2med_ray.protocols import ChatPrompt, Completion, TextGenerator
from r2med_ray.rewriting.agents.search_agents import Search, SearchAgent
from r2med_ray.rewriting.generations import StoredGenerator
from r2med_ray.settings.config import RewriterConfig
from r2med_ray.settings.templates import Template
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Query
from tests.http_services import Answer, Reply, Request, Service, completions, refuse

QUERIES = (Query(query_id="1", text="why the rash"), Query(query_id="2", text="why the fever"))
START = Template(version="1", text="Q: {query}")
CONDENSE = Template(version="1", text="condense {query}|{reasoning}|{request}|{passages}")


class Agent:
    """A language model that says its lines in turn, one list of lines per question; remembers every prompt."""

    def __init__(
        self, lines: Mapping[str, Sequence[str | Completion]], condensed: str | Completion = "facts"
    ) -> None:
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
    store: ArtifactStore, model: TextGenerator, library: Search, *, method: str = "search-r1", **changes: object
) -> SearchAgent:
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
        model,
        library,
        tool={"bm25": "k1=0.9"},
        start=START,
        condense=CONDENSE,
        store=store,
        answer_format=answer_format,
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


def took(seconds: float, text: str) -> Completion:
    return Completion(text=text, reasoning="", finish_reason="stop", seconds=seconds)


def test_a_conversation_begins_no_search_past_its_time(store: ArtifactStore) -> None:
    model = Agent({"why the rash": [took(4, "<search>a"), took(6, "<search>b")]})
    library = Library()

    rewriting = agent(store, model, library, max_seconds=10).rewrite(QUERIES[:1])

    assert library.calls == [["a"]]
    assert rewriting.flagged["time limit"] == ("1",)


def test_condensing_takes_time_and_other_conversations_do_not(store: ArtifactStore) -> None:
    request, again = "<|begin_search_query|>a", "<|begin_search_query|>b"
    said = {
        "why the rash": [took(4, request), took(4, again)],
        "why the fever": [took(1, request), took(1, again), took(1, "c")],
    }
    model = Agent(said, condensed=took(3, "facts"))

    rewriting = agent(store, model, Library(), method="search-o1", max_seconds=10).rewrite(QUERIES)

    # 4 + 3 + 4 seconds; and 1 + 3 + 1 + 3 + 1
    assert rewriting.flagged["time limit"] == ("1",)
    assert [len(query.expansions) for query in rewriting.queries] == [0, 1]


def test_a_conversation_that_time_ended_goes_on_under_a_longer_limit_only(store: ArtifactStore) -> None:
    said = {"why the rash": [took(4, "<search>a"), took(6, "<search>b"), took(1, "<answer>c</answer>")]}
    agent(store, Agent(said), Library(), max_seconds=10).rewrite(QUERIES[:1])
    longer = agent(store, Agent(said), Library(), max_seconds=20)

    assert agent(store, Agent({}), Library(), max_seconds=10).unfinished(QUERIES[:1]) == 0
    assert agent(store, Agent({}), Library(), max_seconds=5).unfinished(QUERIES[:1]) == 0
    assert longer.unfinished(QUERIES[:1]) == 1
    assert longer.rewrite(QUERIES[:1]).queries[0].expansions[0].text == "c"
    assert agent(store, Agent({}), Library(), max_seconds=30).unfinished(QUERIES[:1]) == 0


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


def test_a_conversation_about_the_same_question_is_counted_for_every_query(store: ArtifactStore) -> None:
    twins = tuple(Query(query_id=name, text="why the rash") for name in ("1", "2"))
    said = [took(9, "<search>a"), took(9, "<search>a")]

    rewriting = agent(store, Agent({"why the rash": said}), Library(), max_seconds=5).rewrite(twins)

    assert rewriting.flagged["time limit"] == ("1", "2")


def test_a_method_that_is_no_agent_is_refused(store: ArtifactStore) -> None:
    with pytest.raises(ConfigError, match="unknown search agent 'hyde'"):
        agent(store, Agent({}), Library(), method="hyde")


R1_TEMPLATE = (
    "{% for message in messages %}{% if message['role'] == 'user' %}<|User|>{{ message['content'] }}"
    "{% else %}<|Assistant|>{{ message['content'].split('</think>')[-1] }}<|end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|Assistant|><think>{% endif %}"
)
"""Cuts ended thoughts out of all messages of the model, as the templates of R1, QwQ and Qwen3 do."""

KEEPING_TEMPLATE = R1_TEMPLATE.replace(".split('</think>')[-1]", "")


def rendered(prompt: ChatPrompt, template: str) -> str:
    """Render a prompt as vLLM does, which refuses what transformers can't render."""
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
    store: ArtifactStore, method: str, answer_format: str, template: str, said: list[str], roles: list[str]
) -> None:
    model = Agent({"why the rash": said}, condensed="condensed fact")
    leader = agent(store, model, Library(), method=method, answer_format=answer_format, in_place=True)

    rewriting = leader.rewrite(QUERIES[:1])

    turns = [prompt for prompt in model.prompts if not prompt.messages[0]["content"].startswith("condense")]
    assert [prompt.messages[-1]["role"] for prompt in turns] == roles
    shown = "condensed fact" if method == "search-o1" else "one two three"
    assert [rendered(prompt, template).count(shown) for prompt in turns] == [0, 1, 2]
    assert rewriting.queries[0].expansions[0].text == "c"


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("answer_format", ["answer-tag", "think", "plain"])
def test_an_answer_holds_nothing_of_the_searches_before_it(
    store: ArtifactStore, in_place: bool, answer_format: str
) -> None:
    said = [
        "<think>maybe measles</think><search>measles rash</search>",
        "<think>yes, Koplik spots</think><answer>Measles causes a rash.</answer>",
    ]
    leader = agent(store, Agent({"why the rash": said}), Library(), in_place=in_place, answer_format=answer_format)

    rewriting = leader.rewrite(QUERIES[:1])

    assert [item.text for item in rewriting.queries[0].expansions] == ["Measles causes a rash."]
    assert rewriting.flagged == {}


@pytest.mark.parametrize("in_place", [True, False])
@pytest.mark.parametrize("answer_format", ["answer-tag", "think", "solution"])
@pytest.mark.parametrize("first", [("hm", "{} a"), ("hm {} a", "")])
def test_a_server_that_takes_reasoning_apart_changes_neither_request_nor_answer(
    store: ArtifactStore, in_place: bool, answer_format: str, first: tuple[str, str]
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
    leader = agent(store, model, library, method="search-o1", in_place=in_place, answer_format=answer_format)

    rewriting = leader.rewrite(QUERIES[:1])

    assert library.calls == [["a"]]
    assert [item.text for item in rewriting.queries[0].expansions] == ["Measles."]


def test_a_thought_that_goes_on_in_place_is_opened_once(store: ArtifactStore) -> None:
    thoughts = ["hm <|begin_search_query|>a", "so <|begin_search_query|>b"]
    said = [Completion(text="", reasoning=thought, finish_reason="stop") for thought in thoughts]
    model = Agent({"why the rash": [*said, "yes</think>c"]})

    agent(store, model, Library(), method="search-o1", in_place=True).rewrite(QUERIES[:1])

    assert model.prompts[-1].messages[-1]["content"].count("<think>") == 1


def test_what_a_thought_that_stayed_open_says_is_no_answer(store: ArtifactStore) -> None:
    said = ["<think>hm <|begin_search_query|>a", "so it may be measles", "really</think>Measles."]
    rewriting = agent(store, Agent({"why the rash": said}), Library(), method="search-o1", in_place=True).rewrite(
        QUERIES[:1]
    )

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
def test_a_mark_that_is_only_mentioned_asks_for_nothing(store: ArtifactStore, method: str, said: str) -> None:
    library = Library()

    rewriting = agent(store, Agent({"why the rash": [said]}), library, method=method).rewrite(QUERIES[:1])

    assert library.calls == []
    assert rewriting.flagged == {}
    assert rewriting.queries[0].expansions[0].text == "Measles."


TOO_LONG = "This model's maximum context length is 64 tokens. However, you requested 65 tokens."


def forgetful(is_too_long: Callable[[list[dict[str, str]]], bool], *, listens: bool = True) -> Answer:
    """A service that looks for the rash for ever, or until an answer is demanded, and for the fever once."""

    def say(last: str) -> str:
        if listens and "No more searches" in last:
            return "<answer>demanded</answer>"
        if "about fever" in last or "facts" in last:
            return "<answer>a cold</answer>"
        return "<search>fever</search>" if "fever" in last else "<search>rash</search>"

    answer, refusal = completions(say), refuse(400, TOO_LONG)
    return lambda request: (refusal if is_too_long(request.body["messages"]) else answer)(request)


def chat(service: Service, store: ArtifactStore) -> StoredGenerator:
    calls = ChatCallPolicy(max_in_flight=2, attempts=1)
    row = LanguageModelRow(name="m", kind="openai", model="m", system_prompt=None, stream=False, calls=calls)
    return StoredGenerator(ChatModel(row, base_url=service.url), store)


def words_in(messages: list[dict[str, str]]) -> int:
    return sum(len(message["content"].split()) for message in messages)


def test_a_conversation_that_outgrows_the_model_ends_alone(store: ArtifactStore) -> None:
    with Service(forgetful(lambda messages: len(messages) > 3)) as service:
        rewriting = agent(store, chat(service, store), Library()).rewrite(QUERIES)
        service.forget()
        again = agent(store, chat(service, store), Library()).rewrite(QUERIES)

        assert service.requests == []

    assert rewriting.flagged == {"empty": ("1",), "context limit": ("1",)}
    assert [[item.text for item in query.expansions] for query in rewriting.queries] == [[], ["a cold"]]
    assert again == rewriting


def test_too_many_conversations_that_outgrow_the_model_are_an_error(store: ArtifactStore) -> None:
    with (
        Service(forgetful(lambda messages: True)) as service,
        pytest.raises(DataError, match=r"2 of 2 queries have no usable text \(empty: 2, context limit: 2\)"),
    ):
        agent(store, chat(service, store), Library(), unusable=0.5).rewrite(QUERIES)


# The question has 4 words, a request 1, and what it finds 103: 100 with a number and two marks. Two searches make 212
# words, three 316, which is more than 250. In brief three make 4 + 3 * (1 + 32 + 2) and 10 of the demand: 119.
@pytest.mark.parametrize(
    ("listens", "flagged", "texts"),
    [
        pytest.param(True, {"results shortened": ("1",)}, ["demanded"], id="it answers"),
        pytest.param(
            False,
            {"empty": ("1",), "results shortened": ("1",), "context limit": ("1",)},
            [],
            id="it goes on searching",
        ),
    ],
)
def test_a_model_that_can_not_read_all_results_is_shown_little_of_them_and_asked_for_its_answer(
    store: ArtifactStore, listens: bool, flagged: dict[str, tuple[str, ...]], texts: list[str]
) -> None:
    searches: list[str] = []

    def shelf(requests: Sequence[str]) -> list[list[tuple[str, str]]]:
        searches.extend(requests)
        return [[("d1", "word " * 100)] for _ in requests]

    with Service(forgetful(lambda messages: words_in(messages) > 250, listens=listens)) as service:
        rewriting = agent(store, chat(service, store), shelf, words=100, max_turns=9).rewrite(QUERIES[:1])

    assert rewriting.flagged == flagged
    assert [item.text for item in rewriting.queries[0].expansions] == texts
    assert len(searches) == 3


def test_a_conversation_whose_passages_can_not_be_condensed_ends_alone(store: ArtifactStore) -> None:
    model = Agent({"why the rash": ["<|begin_search_query|>a"], "why the fever": ["<|begin_search_query|>b", "c"]})

    class Forgetful(Agent):
        def generate(
            self, prompts: Sequence[ChatPrompt], *, keep: Callable[[int, Completion], None] | None = None
        ) -> list[Completion]:
            too_long = tuple(
                prompt.unit for prompt in prompts if prompt.unit == "agent, query '1', condensing search 1"
            )
            if too_long:
                raise ContextError("generate", "; ".join(too_long), "too long", too_long)
            return model.generate(prompts)

    rewriting = agent(store, Forgetful({}), Library(), method="search-o1").rewrite(QUERIES)

    assert rewriting.flagged["context limit"] == ("1",)
    assert [len(query.expansions) for query in rewriting.queries] == [0, 1]


def test_a_model_that_fails_otherwise_fails_the_rewriting(store: ArtifactStore) -> None:
    def fail(request: Request) -> Reply:
        about = request.body["messages"][0]["content"]
        return refuse(400, TOO_LONG if "rash" in about else "unknown parameter")(request)

    with Service(fail) as service, pytest.raises(StageError) as raised:
        agent(store, chat(service, store), Library()).rewrite(QUERIES)

    assert "unknown parameter" in raised.value.cause
    assert not isinstance(raised.value, ContextError)


def test_an_error_about_other_conversations_is_passed_on(store: ArtifactStore) -> None:
    class Mistaken(Agent):
        def generate(
            self, prompts: Sequence[ChatPrompt], *, keep: Callable[[int, Completion], None] | None = None
        ) -> list[Completion]:
            raise ContextError("generate", "query '9'", "too long", ("query '9'",))

    with pytest.raises(ContextError) as raised:
        agent(store, Mistaken({}), Library()).rewrite(QUERIES)

    assert pickle.loads(pickle.dumps(raised.value)).units == ("query '9'",)


@pytest.mark.parametrize("change", [{"in_place": True}, {"answer_format": "think"}, {"max_turns": 1}])
def test_what_changes_a_conversation_leads_it_anew(store: ArtifactStore, change: dict[str, object]) -> None:
    agent(store, Agent({"why the rash": ["<answer>x</answer>"]}), Library()).rewrite(QUERIES[:1])

    assert agent(store, Agent({}), Library(), **change).unfinished(QUERIES[:1]) == 1
    assert agent(store, Agent({}), Library(), compat="r2med").unfinished(QUERIES[:1]) == 0
