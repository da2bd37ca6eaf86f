"""How far a stage is, in the lines of a job's log."""

import logging

import pytest

from r2med_ray.distributed import progress
from r2med_ray.distributed.progress import Progress
from tests.fakes import Clock


def test_en13_rate_and_time_left_are_known_after_the_first_shard(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    caplog.set_level(logging.INFO, logger=progress.logger.name)

    with Progress("encode for m", num_units=4, num_documents=2000) as shown:
        for seconds, documents in ((5, 500), (1, 500), (9, 500), (1, 500)):
            clock.now += seconds
            shown.add(documents)

    # 500 documents took 5 s, so 1,500 more take 15 s. The last shard is told too: 2,000 documents in 16 s.
    assert [record.getMessage() for record in caplog.records] == [
        "encode for m: 1 of 4, 500 of 2000 documents, 100 docs/s, 15 s left",
        "encode for m: 4 of 4, 2000 of 2000 documents, 125 docs/s, 0 s left",
    ]
    assert shown.report(stored_before=0).documents == 2000
