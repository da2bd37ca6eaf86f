import json
import logging
import signal
import threading
import time
from typing import Any

import pytest

from r2med_ray.chat import ChatPrompt, Completion, ToolCall
from r2med_ray.errors import ConfigError, NotAtHand, StageError
from r2med_ray.models.catalog.language_models import ChatCallPolicy, LanguageModelRow
from r2med_ray.models.services.chat import ChatModel
from r2med_ray.models.services.retries import RefusedError
from tests.http_services import (
    Answer,
    Reply,
    Request,
    Service,
    as_json,
    calling,
    completions,
    continuations,
    events,
    garbage,
    half,
    refuse,
    slow,
    stalling,
)

KEY = "sk-secret-0123456789"
TOO_LONG = "This model's maximum context length is 4096 tokens. However, your request has 5000 input tokens."

shout = completions(str.upper)


def policy(**changes: Any) -> ChatCallPolicy:
    quick = {"max_in_flight": 8, "timeout_s": 5, "attempts": 3, "base_wait_s": 0.01, "max_wait_s": 0.02}
    return ChatCallPolicy(**quick | changes)


def row(**changes: Any) -> LanguageModelRow:
    return LanguageModelRow(**{"name": "m", "kind": "openai", "model": "org/m", "calls": policy()} | changes)


def prompt(text: str = "hello", *, seed: int = 42, **more: Any) -> ChatPrompt:
    return ChatPrompt(unit=f"query {text!r}", messages=({"role": "user", "content": text},), seed=seed, **more)


def ask(service: Service, *prompts: ChatPrompt, **changes: Any) -> list[Completion]:
    return ChatModel(row(**changes), base_url=service.url).generate(prompts or [prompt()])


def last_message(request: Request) -> str:
    return str(request.body["messages"][-1]["content"])


def chunk(finish_reason: str | None = None, **delta: Any) -> str:
    return json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]})


def stream(*data: str) -> Answer:
    return lambda request: events(*data, "[DONE]")


@pytest.mark.parametrize("streamed", [True, False])
def test_a_completion_has_its_text_its_end_and_its_tokens(streamed: bool) -> None:
    with Service(completions(str.upper, "length")) as service:
        (completion,) = ask(service, stream=streamed)

    # a token is a character, so "hello" has 5 tokens, and so has "HELLO"
    assert completion == Completion(
        text="HELLO", reasoning="", finish_reason="length", prompt_tokens=5, completion_tokens=5
    )


@pytest.mark.parametrize("streamed", [True, False])
def test_what_a_model_is_computed_on_is_noted_with_its_answers_and_stored_with_them(streamed: bool) -> None:
    with Service(shout) as service:
        chat = ChatModel(row(stream=streamed), base_url=service.url, computer="H100")
        (completion,) = chat.generate([prompt("hello")])

    assert Completion.from_json(completion.to_json()).computer == "H100"


def test_a_request_says_what_the_row_says_and_nothing_else() -> None:
    asked = prompt("hello", seed=7, stop=("</search>",))
    sampling = {"temperature": 0.6, "top_p": 0.95, "max_tokens": 9}
    body = {"chat_template_kwargs": {"enable_thinking": True}, "top_k": 20}
    with Service(shout) as service:
        ask(service, asked, sampling=sampling, body=body)
        ask(service, asked, sampling={"temperature": None}, token_limit="max_completion_tokens", system_prompt=None)

    system = {"role": "system", "content": "You are a helpful assistant."}
    user = {"role": "user", "content": "hello"}
    shared = {"model": "org/m", "seed": 7, "stop": ["</search>"], "stream": True}
    shared["stream_options"] = {"include_usage": True}
    assert service.requests[0].body == shared | sampling | body | {"messages": [system, user]}
    assert service.requests[1].body == shared | {"max_completion_tokens": 10240, "messages": [user]}


TOOLS = ({"type": "function", "function": {"name": "retrieve", "parameters": {"type": "object"}}},)


@pytest.mark.parametrize("streamed", [True, False])
def test_calls_of_tools_are_put_together_and_the_names_of_calls_are_left_out(streamed: bool) -> None:
    called = [("think", '{"thought": "gout?"}'), ("retrieve", '{"query": "urate"}')]
    with Service(calling(lambda messages: called)) as service:
        first, again = ask(service, prompt("a", tools=TOOLS), prompt("b", tools=TOOLS), stream=streamed)

    assert first.tool_calls == tuple(ToolCall(*call) for call in called)
    assert (first.text, first.finish_reason, first.completion_tokens) == ("", "tool_calls", 5)
    assert first == again
    assert [request.body["tools"] for request in service.requests] == [list(TOOLS)] * 2


def test_a_call_whose_name_is_no_text_is_garbage() -> None:
    call = {"index": 0, "function": {"name": 7, "arguments": "{}"}}
    with Service(stream(chunk(tool_calls=[call]), chunk("tool_calls"))) as service:
        with pytest.raises(StageError, match="expected text under `name`, got 7"):
            ask(service, prompt(tools=TOOLS))

        assert len(service.requests) == 3  # all attempts


def test_calls_and_results_are_sent_as_they_are() -> None:
    talk = (
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "call_1", "type": "function"}]},
        {"role": "tool", "content": "[p1] urate", "tool_call_id": "call_1"},
    )
    with Service(calling(lambda messages: [])) as service:
        ask(service, ChatPrompt(unit="query '7'", messages=talk, seed=1, tools=TOOLS), system_prompt=None)

    assert service.requests[0].body["messages"] == list(talk)
    assert "continue_final_message" not in service.requests[0].body


def test_a_conversation_with_its_own_system_message_keeps_it() -> None:
    messages = ({"role": "system", "content": "Search."}, {"role": "user", "content": "hello"})
    with Service(shout) as service:
        ask(service, ChatPrompt(unit="query '7'", messages=messages, seed=1))

    assert service.requests[0].body["messages"] == list(messages)


def test_a_conversation_that_ends_with_the_models_own_words_is_continued() -> None:
    begun = ({"role": "user", "content": "hello"}, {"role": "assistant", "content": "good"})
    with Service(shout) as service:
        ask(service, ChatPrompt(unit="u", messages=begun, seed=1), body={"top_k": 20})
        body = service.requests[0].body

    assert (body["continue_final_message"], body["add_generation_prompt"], body["top_k"]) == (True, False, 20)


def test_lm05_completions_come_in_the_order_of_prompts_however_they_arrive() -> None:
    def later_first(request: Request) -> Reply:
        text = last_message(request)
        return slow(shout, 0.02 * (5 - int(text.split()[1])))(request)

    with Service(later_first) as service:
        completed = ask(service, *(prompt(f"number {i}") for i in range(6)))

    assert [completion.text for completion in completed] == [f"NUMBER {i}" for i in range(6)]


def test_many_prompts_are_asked_at_once_and_never_more_than_allowed() -> None:
    together = threading.Barrier(64)

    def when_64_are_there(request: Request) -> Reply:
        together.wait(30)
        return shout(request)

    with Service(when_64_are_there) as service:
        prompts = [prompt(f"number {i}") for i in range(128)]
        completed = ask(service, *prompts, calls=policy(max_in_flight=64, timeout_s=60))

    assert (len(completed), len(service.requests), service.most_at_once) == (128, 128, 64)


@pytest.mark.parametrize(
    "trouble",
    [
        refuse(429, retry_after="0"),
        refuse(503),
        garbage(),
        garbage("{}", "application/json"),
        garbage("data: not json\n\n", "text/event-stream"),
        stream(chunk(content="half an an")),
        stream('{"choices": 5}'),
        stream(chunk(content=5)),
        stream('{"error": {"message": "engine died"}}'),
        half(shout),
    ],
)
def test_what_is_no_answer_is_asked_for_again(trouble: Answer) -> None:
    with Service(shout) as service:
        service.trouble(trouble)
        (completion,) = ask(service)

    assert (completion.text, len(service.requests)) == ("HELLO", 2)


def test_a_whole_answer_that_is_none_is_asked_for_again() -> None:
    with Service(shout) as service:
        service.trouble(lambda request: as_json({"choices": [{"message": {"content": "half"}}]}), garbage())
        (completion,) = ask(service, stream=False)

    assert (completion.text, len(service.requests)) == ("HELLO", 3)


def test_a_stream_that_stalls_is_noticed_long_before_the_deadline() -> None:
    with Service(shout) as service:
        service.trouble(stalling(shout, 4.0))
        begun = time.monotonic()
        (completion,) = ask(service, calls=policy(idle_timeout_s=0.1))

    assert (completion.text, len(service.requests)) == ("HELLO", 2)
    assert time.monotonic() - begun < 2


def test_the_wait_for_the_first_word_is_not_idleness() -> None:
    silent_at_first = stream(chunk(role="assistant", padding="x" * 200), chunk(content="b"), chunk("stop"))
    with Service(slow(stalling(silent_at_first, 0.3), 0.3)) as service:
        ask(service, calls=policy(idle_timeout_s=0.1))

    assert len(service.requests) == 1


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning_that_the_server_split_off_is_read(field: str) -> None:
    thought, usage = chunk(**{field: "so "}), json.dumps({"choices": [], "usage": {"completion_tokens": 3}})
    answer = stream(chunk(role="assistant"), thought, thought, chunk(content="b"), chunk("stop"), usage)
    with Service(answer) as service:
        (streamed,) = ask(service)
    message = {"content": None, field: "so so"}
    with Service(lambda request: as_json({"choices": [{"message": message, "finish_reason": "length"}]})) as service:
        (whole,) = ask(service, stream=False)

    assert (streamed.reasoning, streamed.text, streamed.completion_tokens) == ("so so ", "b", 3)
    assert (whole.reasoning, whole.text, whole.finish_reason) == ("so so", "", "length")


def failing(*texts: str, other: Answer = shout, status: int = 500) -> Answer:
    refusal = refuse(status, "engine died")
    return lambda request: (refusal if last_message(request) in texts else other)(request)


def test_ry05_what_fails_for_ever_is_named_and_what_is_finished_is_kept() -> None:
    kept: dict[int, str] = {}
    both = threading.Barrier(2)

    def c_and_d_fail_together(request: Request) -> Reply:
        if last_message(request) in ("c", "d"):
            both.wait(4)
        return failing("c", "d")(request)

    model_row = row(calls=policy(max_in_flight=2))
    prompts = [prompt(text) for text in ("a", "b", "c", "d", "e")]

    with Service(c_and_d_fail_together) as service, pytest.raises(StageError) as raised:
        ChatModel(model_row, base_url=service.url).generate(
            prompts, keep=lambda position, completion: kept.update({position: completion.text})
        )

    # Two prompts are in flight at once. So c and d are in flight when one of them fails after three attempts, and e
    # is not begun.
    assert kept == {0: "A", 1: "B"}
    assert "generate with m failed on query 'c', after 3 attempts; query 'd', after 3 attempts" in str(raised.value)
    assert "HTTP 500: engine died" in str(raised.value)
    assert len(service.requests) == 2 + 2 * 3


def test_a_refused_key_stops_the_work_at_once_and_what_is_written_is_kept() -> None:
    kept: dict[int, str] = {}
    refused = refuse(401, "Incorrect API key")

    def second_is_refused(request: Request) -> Reply:
        if last_message(request) == "b":
            time.sleep(0.1)  # the first prompt is answered before
            return refused(request)
        return slow(shout, 0.0 if last_message(request) == "a" else 3.0)(request)

    with Service(second_is_refused) as service:
        model = ChatModel(row(calls=policy(max_in_flight=3)), base_url=service.url)
        begun = time.monotonic()
        with pytest.raises(RefusedError, match=r"query 'b': http.*'org/m' with no key: HTTP 401: Incorrect API key"):
            model.generate(
                [prompt(text) for text in "abcdefgh"],
                keep=lambda position, completion: kept.update({position: completion.text}),
            )
        took = time.monotonic() - begun

    # Three prompts are in flight at once. a is answered and b is refused. c and d are in flight for 3 s, and the
    # other four are not begun.
    assert (kept, len(service.requests)) == ({0: "A"}, 4)
    assert took < 2


def test_completions_are_kept_as_soon_as_they_are_there() -> None:
    first_is_kept = threading.Event()

    def second_waits(request: Request) -> Reply:
        assert last_message(request) == "a" or first_is_kept.wait(4)
        return shout(request)

    with Service(second_waits) as service:
        ChatModel(row(), base_url=service.url).generate(
            [prompt("a"), prompt("b")], keep=lambda position, completion: first_is_kept.set()
        )

    assert first_is_kept.is_set()


def test_a_prompt_that_is_too_long_is_named_with_its_length() -> None:
    with (
        Service(refuse(400, TOO_LONG)) as service,
        pytest.raises(StageError, match=r"query 'a b c', whose prompt of 3 words is too long.*length is 4096 tokens"),
    ):
        ask(service, prompt("a b c"))

    assert len(service.requests) == 1


def test_a_shorter_version_is_sent_where_there_is_one() -> None:
    shorter = tuple(({"role": "user", "content": text},) for text in ("a b", "a"))
    with Service(failing("a b c", "a b", status=400)) as service:
        service.trouble(refuse(400, TOO_LONG), refuse(400, TOO_LONG))
        (completion,) = ask(service, prompt("a b c", shorter=shorter))

    assert (completion.text, completion.shortened) == ("A", 2)


def test_another_refusal_is_final() -> None:
    with (
        Service(refuse(400, "unknown model")) as service,
        pytest.raises(StageError, match="HTTP 400: unknown model"),
    ):
        ask(service, prompt("a b", shorter=(({"role": "user", "content": "a"},),)))

    assert len(service.requests) == 1


def test_the_key_comes_from_the_environment_and_is_in_no_message(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("M_KEY", KEY)
    with caplog.at_level(logging.INFO), Service(refuse(500, f"wrong key {KEY}")) as service:
        with pytest.raises(StageError) as raised:
            ask(service, key_variable="M_KEY")

        assert service.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert KEY not in str(raised.value) + caplog.text

    monkeypatch.delenv("M_KEY")
    with pytest.raises(NotAtHand, match="M_KEY"):
        ask(service, key_variable="M_KEY")


def test_a_model_without_an_address_is_refused() -> None:
    with pytest.raises(ConfigError, match="language model 'm' has no address"):
        ChatModel(row())


def test_an_interrupt_ends_the_requests() -> None:
    def interrupt(position: int, completion: Completion) -> None:
        signal.raise_signal(signal.SIGINT)

    with Service(lambda request: slow(shout, 0.0 if last_message(request) == "a" else 3.0)(request)) as service:
        begun = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            ChatModel(row(), base_url=service.url).generate([prompt("a"), prompt("b")], keep=interrupt)

    assert time.monotonic() - begun < 2


def test_no_prompts_need_no_service() -> None:
    assert ChatModel(row(), base_url="http://127.0.0.1:9/v1").generate([]) == []


def error_in_stream(reason: str, **more: Any) -> Answer:
    end = json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": reason, **more}]})
    return stream(chunk(content="half an an"), end)


FAILURES = ["error", "abort", "aborted", "cancelled", "canceled", "insufficient_system_resource", "network_error"]


@pytest.mark.parametrize("reason", FAILURES)
def test_an_answer_that_the_service_broke_off_is_asked_for_again(reason: str) -> None:
    with Service(shout) as service:
        service.trouble(error_in_stream(reason))
        (streamed,) = ask(service)
        service.trouble(completions(str.upper, reason))
        (whole,) = ask(service, stream=False)

    assert [completion.text for completion in (streamed, whole)] == ["HELLO", "HELLO"]
    assert len(service.requests) == 4


def test_a_service_that_breaks_off_every_answer_fails_by_name_and_in_its_own_words() -> None:
    broken = error_in_stream("error", error={"code": 502, "message": "the GPU fell off the bus"})
    with Service(broken) as service, pytest.raises(StageError) as raised:
        ask(service)

    assert "generate with m failed on query 'hello', after 3 attempts: http" in str(raised.value)
    assert "broke the answer off, with the finish_reason 'error': the GPU fell off the bus" in str(raised.value)
    assert len(service.requests) == 3


@pytest.mark.parametrize("reason", ["repetition", "tool_calls"])
def test_an_end_that_is_no_failure_of_the_service_is_kept_with_its_word(reason: str) -> None:
    with Service(completions(str.upper, reason)) as service:
        (completion,) = ask(service)

    assert (completion.finish_reason, len(service.requests)) == (reason, 1)


@pytest.mark.parametrize("reason", ["none", "null", ""])
def test_a_word_that_gives_no_reason_is_none(reason: str) -> None:
    with (
        Service(completions(str.upper, reason)) as service,
        pytest.raises(StageError, match="without a finish_reason"),
    ):
        ask(service)


WORDS = "The engine has no room for your request. " + "Wait, and ask again. " * 10


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize(
    "answer",
    [
        lambda request: as_json({"error": {"message": WORDS, "code": 503}}),
        lambda request: as_json({"object": "error", "message": WORDS}),
        lambda request: as_json({"detail": WORDS}),
        lambda request: as_json({"error": WORDS}),
        garbage(f"<!DOCTYPE html><html><head><title>Sorry</title></head><body><h1>{WORDS}</h1></body></html>"),
        garbage(WORDS, "text/plain"),
        garbage(json.dumps({"error": {"message": WORDS}}, indent=2), "text/event-stream"),
    ],
)
def test_what_a_service_says_in_place_of_an_answer_is_quoted(answer: Answer, streamed: bool) -> None:
    with Service(answer) as service, pytest.raises(StageError, match=r"after 3 attempts") as raised:
        ask(service, stream=streamed)

    # 41 + 10 × 21 characters, of which the last is a blank
    assert len(WORDS) == 251
    assert WORDS.strip() in str(raised.value)
    assert "<" not in str(raised.value)


@pytest.mark.parametrize(
    "data",
    [
        json.dumps({"error": {"message": WORDS}}),
        json.dumps({"error": WORDS}),
        json.dumps({"object": "error", "message": WORDS}),
        json.dumps({"error": {"message": "Provider returned error", "metadata": {"raw": WORDS}}}),
        WORDS,
    ],
)
def test_what_a_service_says_within_a_stream_is_quoted(data: str) -> None:
    with Service(stream(chunk(content="half"), data)) as service, pytest.raises(StageError) as raised:
        ask(service)

    assert WORDS.strip() in str(raised.value)


def test_words_after_a_stream_was_begun_are_quoted() -> None:
    body = f"data: {chunk(content='half')}\n\n" + json.dumps({"error": {"message": WORDS}})
    with Service(garbage(body, "text/event-stream")) as service, pytest.raises(StageError) as raised:
        ask(service)

    assert f"no stream came; the service sent: {WORDS.strip()}" in str(raised.value)


def test_a_whole_answer_in_place_of_a_stream_is_asked_for_once_and_names_the_setting() -> None:
    whole = {"choices": [{"message": {"content": "HELLO"}, "finish_reason": "stop"}]}
    with Service(lambda request: as_json(whole)) as service:
        with pytest.raises(StageError, match=r"a whole answer came in place of a stream; set `stream: false`.*HELLO"):
            ask(service)
        assert len(service.requests) == 1
        assert [completion.text for completion in ask(service, stream=False)] == ["HELLO"]


def test_a_stream_in_place_of_a_whole_answer_is_asked_for_once_and_names_the_setting() -> None:
    with Service(stream(chunk(content="HELLO"), chunk("stop"))) as service:
        with pytest.raises(StageError, match=r"a stream came in place of a whole answer; set `stream: true`.*HELLO"):
            ask(service, stream=False)
        assert len(service.requests) == 1


@pytest.mark.parametrize(
    "words",
    [
        "System role not supported",
        "Conversation roles must alternate user/assistant/user/assistant/...",
        "Only user and assistant roles are supported!",
        "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
        "Developer instruction is not enabled for models/gemma-3-27b-it",
    ],
)
def test_a_template_without_a_system_role_names_the_setting(words: str) -> None:
    with Service(refuse(400, words)) as service:
        with pytest.raises(StageError) as raised:
            ask(service)
        assert f"HTTP 400: {words}. Set `system_prompt: null` in the row of m" in str(raised.value)
        with pytest.raises(StageError) as without:
            ask(service, system_prompt=None)

    assert "Set `" not in str(without.value)


@pytest.mark.parametrize(
    "words",
    [
        "Your organization must be verified to stream this model.",
        "Unrecognized request argument supplied: stream_options",
        "stream is not supported by this endpoint",
    ],
)
def test_a_service_without_streams_names_the_setting(words: str) -> None:
    with Service(refuse(400, words)) as service:
        with pytest.raises(StageError, match="Set `stream: false` in the row of m"):
            ask(service)
        with pytest.raises(StageError) as without:
            ask(service, stream=False)

    assert "Set `" not in str(without.value)


def test_a_raw_prompt_is_continued_without_messages_and_its_next_tokens_are_told() -> None:
    answer = continuations(lambda text: f"{text} thoughts", lambda text: {" true": -0.1, " false": -2.5, "x": -0.1})
    with Service(answer) as service:
        asked = [prompt("a <think>", is_raw=True, stop=("</think>",)), prompt("b", is_raw=True, top_tokens=3)]
        text, tokens = ask(service, *asked, sampling={"temperature": 0.6, "max_tokens": 9}, body={"top_k": 5})
        bodies = {request.body["prompt"]: request.body for request in service.requests}

    assert {request.path for request in service.requests} == {"/v1/completions"}
    assert bodies == {
        "a <think>": {
            **{"model": "org/m", "prompt": "a <think>", "seed": 42, "temperature": 0.6, "max_tokens": 9, "top_k": 5},
            "stop": ["</think>"],
        },
        "b": {
            **{"model": "org/m", "prompt": "b", "seed": 42, "temperature": 0.0, "max_tokens": 1, "top_k": 5},
            "logprobs": 3,
        },
    }
    assert (text.text, text.finish_reason, text.top_tokens) == ("a <think> thoughts", "stop", ())
    assert tokens.top_tokens == ((" true", -0.1), ("x", -0.1), (" false", -2.5))
    assert Completion.from_json(json.loads(json.dumps(tokens.to_json()))) == tokens
    assert "top_tokens" not in text.to_json()


def test_a_service_that_tells_no_tokens_is_an_error() -> None:
    silent = {"choices": [{"index": 0, "text": "x", "finish_reason": "length"}]}
    message = "the service gave no log-probabilities of 3 tokens"
    with Service(lambda request: as_json(silent)) as service, pytest.raises(StageError, match=message):
        ask(service, prompt("b", is_raw=True, top_tokens=3))
