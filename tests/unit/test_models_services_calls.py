import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from openai import AsyncOpenAI
from pydantic import TypeAdapter

from r2med_ray.errors import DataError, NotAtHand, StageError
from r2med_ray.models.catalog.call_policy import CallPolicy
from r2med_ray.models.services.calls import ApiCalls
from r2med_ray.models.services.retries import GarbageError, RefusedError
from tests import http_services
from tests.http_services import Service, as_json, completions, garbage, half, refuse, slow

QUICK = CallPolicy(max_in_flight=4, timeout_s=5, attempts=3, deadline_s=10, base_wait_s=0.01, max_wait_s=0.02)
KEY = "sk-secret-0123456789"

echo = completions(lambda prompt: f"you said {prompt}")


async def ask(client: AsyncOpenAI, prompt: str = "hello") -> str | None:
    answer = await client.chat.completions.create(model="m", messages=[{"role": "user", "content": prompt}])
    return TypeAdapter(str).validate_python(getattr(answer, "choices", [None])[0].message.content)


async def read_stream(client: AsyncOpenAI) -> str:
    stream = await client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "hello"}], stream=True
    )
    return "".join([part.choices[0].delta.content or "" async for part in stream])


def run(
    service: Service,
    request: Callable[[AsyncOpenAI], Awaitable[Any]] = ask,
    policy: CallPolicy = QUICK,
    key_variable: str | None = None,
) -> tuple[Any, ApiCalls]:
    async def main() -> tuple[Any, ApiCalls]:
        async with ApiCalls("rewrite with m", service.url, key_variable, policy, model="org/m") as calls:
            return await calls.call(request, unit="query '7'"), calls

    return asyncio.run(main())


def test_an_answer_arrives():
    with Service(echo) as service:
        answer, calls = run(service)

    assert (answer, calls.requests, dict(calls.retries)) == ("you said hello", 1, {})


def test_a_stream_arrives():
    with Service(echo) as service:
        assert run(service, read_stream)[0] == "you said hello"


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 503])
def test_a_passing_failure_is_cured_by_another_attempt(status: int):
    with Service(echo) as service:
        service.trouble(refuse(status), refuse(status))
        answer, calls = run(service)

    assert (answer, calls.requests, dict(calls.retries)) == ("you said hello", 3, {str(status): 2})


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
def test_a_final_status_is_not_sent_again_and_names_the_unit_and_what_the_service_said(status: int):
    with Service(refuse(status, "the model is not here")) as service:
        with pytest.raises(StageError, match=f"query '7': .*HTTP {status}: the model is not here"):
            run(service)
        assert len(service.requests) == 1


def test_a_spent_quota_is_final_although_its_status_is_429():
    def no_money(request: http_services.Request) -> http_services.Reply:
        return as_json({"error": {"message": "pay", "code": "insufficient_quota"}}, status=429)

    with Service(no_money) as service:
        with pytest.raises(StageError, match="HTTP 429: pay"):
            run(service)
        assert len(service.requests) == 1


def test_attempts_end_and_the_error_says_how_many_there_were():
    with Service(refuse(500, "broken")) as service:
        with pytest.raises(
            StageError, match=r"rewrite with m failed on query '7', after 3 attempts: .*HTTP 500: brok"
        ):
            run(service)
        assert len(service.requests) == 3


def test_the_wait_is_at_least_what_retry_after_asks_for():
    with Service(echo) as service:
        service.trouble(refuse(429, retry_after="0.4"))
        started = time.monotonic()
        run(service)

    # By base_wait_s and max_wait_s alone, the wait would end after 0.02 s.
    assert time.monotonic() - started >= 0.4


def test_retry_after_may_be_a_date():
    with Service(echo) as service:
        service.trouble(refuse(503, retry_after=format_datetime(datetime.now(UTC) + timedelta(seconds=2))))
        started = time.monotonic()
        run(service)

    # A date has whole seconds, so a date 2 s from now is read as more than 1 s from now.
    assert time.monotonic() - started >= 0.9


@pytest.mark.parametrize("asked", ["soon", "-5", "nan"])
def test_a_retry_after_that_says_nothing_changes_nothing(asked: str):
    with Service(echo) as service:
        service.trouble(refuse(429, retry_after=asked))

        assert run(service)[1].requests == 2


def test_a_retry_after_beyond_the_deadline_fails_at_once():
    with Service(refuse(429, "slow down", retry_after="20")) as service:
        started = time.monotonic()
        with pytest.raises(StageError, match="HTTP 429: slow down"):
            run(service)

    assert time.monotonic() - started < 5


@pytest.mark.parametrize("content_type", ["text/html", "application/json"])
@pytest.mark.parametrize("content", ["<html>Bad gateway</html>", "", '{"choices": [{"mess'])
def test_garbage_is_asked_for_again(content: str, content_type: str):
    async def ask_raw(client: AsyncOpenAI) -> dict[str, Any]:
        answer = await client.post("/chat/completions", cast_to=object, body={"messages": [{"content": "x"}]})
        return TypeAdapter(dict[str, Any]).validate_python(answer)

    with Service(echo) as service:
        service.trouble(garbage(content, content_type))
        answer, calls = run(service, ask_raw)

    assert answer["choices"][0]["message"]["content"] == "you said x"
    assert dict(calls.retries) == {"garbage": 1}


def test_a_request_may_call_an_answer_garbage():
    async def doubt(client: AsyncOpenAI) -> None:
        raise GarbageError("an answer about something else")

    with Service(echo) as service, pytest.raises(StageError, match=r"after 3 attempts: .*about something else"):
        run(service, doubt)


@pytest.mark.parametrize("request_of", [ask, read_stream])
def test_half_a_body_is_a_lost_connection(request_of: Callable[[AsyncOpenAI], Awaitable[Any]]):
    with Service(echo) as service:
        service.trouble(half(echo))
        answer, calls = run(service, request_of)

    assert (answer, dict(calls.retries)) == ("you said hello", {"connection": 1})


def test_a_closed_port_is_a_lost_connection():
    with Service(echo) as service:
        pass

    with pytest.raises(StageError, match=r"after 3 attempts: http://127.0.0.1:.*Connection error"):
        run(service)


def test_a_slow_answer_is_a_time_out():
    with Service(echo) as service:
        service.trouble(slow(echo, 0.5))
        answer, calls = run(service, policy=CallPolicy(timeout_s=0.2, base_wait_s=0.01))

    assert (answer, dict(calls.retries)) == ("you said hello", {"time-out": 1})


def test_a_call_ends_at_its_deadline():
    policy = CallPolicy(timeout_s=5, deadline_s=0.3, base_wait_s=0.01)
    with Service(slow(echo, 1.0)) as service:
        started = time.monotonic()
        with pytest.raises(StageError, match="no answer in time"):
            run(service, policy=policy)
        assert time.monotonic() - started < 0.9


def test_the_key_is_sent_and_never_told(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture):
    monkeypatch.setenv("SOME_KEY", f"{KEY}\n")
    with Service(refuse(401, f"Incorrect API key: {KEY}")) as service:
        service.trouble(refuse(500, f"it happened with {KEY}"))
        with pytest.raises(StageError, match=r"HTTP 401: Incorrect API key: \*\*\*") as raised:
            run(service, key_variable="SOME_KEY")

        assert service.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert "HTTP 500: it happened with ***" in caplog.text
    assert KEY not in caplog.text
    assert raised.value.__cause__ is None
    assert raised.value.__suppress_context__


def test_a_missing_key_is_named_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SOME_KEY", raising=False)
    with Service(echo) as service:
        with pytest.raises(NotAtHand, match="SOME_KEY"):
            run(service, key_variable="SOME_KEY")
        assert service.requests == []


def test_a_service_without_a_key_does_not_get_the_one_of_openai(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with Service(echo) as service:
        run(service)
        assert service.requests[0].headers["authorization"] == "Bearer no-key-needed"


PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A proxy that the environment names. It answers in place of the service."""
    for variable in PROXIES:
        monkeypatch.delenv(variable, raising=False)
        monkeypatch.delenv(variable.lower(), raising=False)
    with Service(completions(lambda prompt: "the proxy's")) as service:
        for variable in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(variable, service.url.removesuffix("/v1"))
        yield service


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_service_on_this_machine_is_not_asked_through_a_proxy(proxy: Service, host: str):
    with Service(echo) as service:
        service.url = service.url.replace("127.0.0.1", host)
        assert run(service)[0] == "you said hello"

    assert proxy.requests == []


def test_a_service_elsewhere_is_asked_through_the_proxy_of_the_environment(proxy: Service):
    elsewhere = Service(echo)
    elsewhere.url = "http://llm.invalid/v1"

    assert run(elsewhere)[0] == "the proxy's"
    assert proxy.requests[0].path == "http://llm.invalid/v1/chat/completions"


def test_a_policy_may_leave_the_proxy_out(proxy: Service):
    elsewhere = Service(echo)
    elsewhere.url = "http://llm.invalid/v1"

    with pytest.raises(StageError, match=r"llm\.invalid/v1: Connection error"):
        run(elsewhere, policy=QUICK.model_copy(update={"use_proxies": False}))
    assert proxy.requests == []


def each(service: Service, policy: CallPolicy, prompts: list[str], done: list[str]) -> ApiCalls:
    async def main() -> ApiCalls:
        async with ApiCalls("rewrite with m", service.url, None, policy, model="org/m") as calls:

            async def answer(prompt: str) -> None:
                done.append(await calls.call(lambda client: ask(client, prompt), unit=prompt) or "")

            await calls.each(prompts, answer)
            return calls

    return asyncio.run(main())


def test_no_more_calls_are_in_flight_than_the_policy_allows():
    done: list[str] = []
    with Service(slow(echo, 0.05)) as service:
        each(service, CallPolicy(max_in_flight=3), [str(number) for number in range(12)], done)

    assert service.most_at_once == 3
    assert sorted(done) == sorted(f"you said {number}" for number in range(12))


def test_calls_that_are_gathered_are_bounded_too():
    async def main(service: Service) -> None:
        async with ApiCalls("rewrite with m", service.url, None, CallPolicy(max_in_flight=3), model="org/m") as calls:
            await asyncio.gather(*(calls.call(ask, unit=f"query '{number}'") for number in range(9)))

    with Service(slow(echo, 0.05)) as service:
        asyncio.run(main(service))
        assert service.most_at_once == 3


def test_after_a_failure_what_is_in_flight_is_kept_and_nothing_else_is_begun():
    def answer(request: http_services.Request) -> http_services.Reply:
        prompt = request.body["messages"][-1]["content"]
        return refuse(400, "no")(request) if prompt == "bad" else slow(echo, 0.2)(request)

    done: list[str] = []
    with Service(answer) as service:
        with pytest.raises(StageError, match="bad"):
            each(service, CallPolicy(max_in_flight=2), ["good", "bad", "never"], done)
        assert len(service.requests) == 2

    assert done == ["you said good"]


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusal_of_everything_ends_what_is_in_flight_and_keeps_what_is_done(status: int):
    def answer(request: http_services.Request) -> http_services.Reply:
        prompt = request.body["messages"][-1]["content"]
        if prompt == "refused":
            time.sleep(0.1)  # the first prompt is answered before
            return refuse(status, "no")(request)
        return slow(echo, 0.0 if prompt == "first" else 3.0)(request)

    done: list[str] = []
    started = time.monotonic()
    with Service(answer) as service:
        with pytest.raises(RefusedError, match="refused"):
            each(service, CallPolicy(max_in_flight=3), ["first", "refused", "slow", "slow too", "never"], done)
        took = time.monotonic() - started
        assert len(service.requests) == 4

    # The calls in flight would take 3 s.
    assert took < 2
    assert done == ["you said first"]


def test_a_refusal_names_address_model_status_and_where_the_key_comes_from(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SOME_KEY", KEY)
    with Service(refuse(404, f"no such model\n{'x' * 600}")) as service, pytest.raises(RefusedError) as raised:
        run(service, key_variable="SOME_KEY")

    # The error has 500 characters of the message: "HTTP 404: no such model " and 476 of the 600 x.
    assert str(raised.value) == (
        f"rewrite with m failed on query '7': {service.url}, asked for the model 'org/m' with the key from the "
        f"environment variable SOME_KEY: HTTP 404: no such model {'x' * 476}"
    )


def test_cancellation_passes_through_and_is_not_tried_again():
    async def main(service: Service) -> None:
        async with ApiCalls("rewrite with m", service.url, None, QUICK, model="org/m") as calls:
            task = asyncio.create_task(calls.call(ask, unit="query '7'"))
            while not service.requests:
                await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert calls.requests == 1

    with Service(slow(echo, 0.3)) as service:
        asyncio.run(main(service))
        assert len(service.requests) == 1


def test_a_garbage_error_is_an_error_of_the_data():
    assert issubclass(GarbageError, DataError)
