"""What a process is doing now, for a log and for the record of a job."""

import logging
import threading

import pytest

from r2med_ray import activity
from r2med_ray.activity import Inside, advanced, counted, doing, every, lines, told
from tests.fakes import Clock, wait_until


def test_all_work_that_goes_on_is_told_with_its_rates_and_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(activity, "time", clock)

    with doing("encode for m", 3000, "documents") as encoding, doing("waiting for nodes for b"):
        clock.now += 10
        encoding.add(1500, tokens=20_000)
        encoding.queue["shards waiting"] = 2
        # 1,500 documents and 20,000 tokens in 10 s, so the other 1,500 documents take 10 s more
        assert lines() == [
            "encode for m: 1,500 of 3,000 documents, 150 documents/s, 2,000 tokens/s, 10 s left, 2 shards waiting",
            "waiting for nodes for b: 10 s",
        ]
    assert lines() == []


def test_what_is_done_inside_of_a_piece_is_told_before_the_piece_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(activity, "time", clock)

    inside = Inside()
    with doing("encode for m", 3000, "documents") as encoding, counted(inside.advance):
        encoding.inside = inside
        clock.now += 100
        advanced(200, 5000)
        advanced(100)
        # 300 documents in 100 s are 3 a second, so the other 2,700 take 900 s.
        assert lines() == ["encode for m: 300 of 3,000 documents, 3 documents/s, 50 tokens/s, 15 min left"]
        inside.begin_again()
        encoding.add(1500, tokens=20_000)
        assert lines() == ["encode for m: 1,500 of 3,000 documents, 15 documents/s, 200 tokens/s, 2 min left"]
    advanced(7)
    assert inside() == (0, 0)


def test_a_log_says_again_and_again_what_is_being_done(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger=activity.logger.name)

    with told(every_s=0.01), doing("write with m", 4, "texts"):
        wait_until(lambda: bool(caplog.records))

    assert caplog.records[0].getMessage().startswith("after 0 min: write with m: 0 of 4 texts, ")


def test_what_is_called_again_and_again_ends_with_its_block() -> None:
    callers: list[threading.Thread] = []

    with every(0.01, lambda: callers.append(threading.current_thread())):
        wait_until(lambda: len(callers) > 1)

    [caller] = {*callers}
    assert not caller.is_alive()
