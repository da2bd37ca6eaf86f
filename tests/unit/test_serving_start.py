"""The start of Ray Serve where its proxy is slow."""

import logging
from collections.abc import Iterator

import pytest
from ray.exceptions import ActorDiedError

from r2med_ray.serving.serve_session import _start_or_join


class Starting:
    """Starts Serve as scripted: each call raises the next error, or is the start."""

    def __init__(self, *errors: Exception) -> None:
        self.calls = 0
        self._errors: Iterator[Exception] = iter(errors)

    def __call__(self) -> None:
        self.calls += 1
        for error in self._errors:
            raise error


@pytest.mark.parametrize("error", [ActorDiedError(), TimeoutError("HTTP proxies not available after 60s.")])
def test_a_proxy_that_serve_gave_up_is_told_and_serve_is_joined(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    start = Starting(error)

    with caplog.at_level(logging.WARNING):
        _start_or_join(start)

    assert start.calls == 2
    assert "gave up a proxy that was slow to start" in caplog.text


def test_a_serve_that_starts_is_started_once(caplog: pytest.LogCaptureFixture) -> None:
    start = Starting()

    _start_or_join(start)

    assert start.calls == 1
    assert caplog.text == ""


def test_a_serve_that_fails_twice_or_in_another_way_is_an_error() -> None:
    with pytest.raises(ActorDiedError):
        _start_or_join(Starting(ActorDiedError(), ActorDiedError()))
    with pytest.raises(ValueError, match="port"):
        _start_or_join(Starting(ValueError("port")))
