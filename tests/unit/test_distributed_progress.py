"""How far a stage is, in the lines of a job's log."""

import logging
from collections.abc import Iterator, Mapping

import pytest

from r2med_ray import activity
from r2med_ray.activity import advanced
from r2med_ray.distributed import progress
from r2med_ray.distributed.progress import Progress, follow
from r2med_ray.first_stages.making import FOUND
from r2med_ray.first_stages.preparation import Left, QueryWork
from r2med_ray.settings.compat import Rules
from r2med_ray.storage.keys import ArtifactKey
from r2med_ray.types import Query
from tests.fakes import Clock

QUERIES = tuple(Query(query_id=f"q{number}", text="") for number in range(40))


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


def test_work_in_this_process_is_told_inside_of_a_shard() -> None:
    seen: list[str] = []

    def shards() -> Iterator[Mapping[str, int]]:
        for _ in range(2):
            advanced(30, 900)
            seen.extend(activity.lines())
            yield {"documents": 40, "read_tokens": 1000}

    work = [QueryWork(task="T", queries=QUERIES, rules=Rules(), key=ArtifactKey("k", {"n": n})) for n in range(2)]
    report = follow("encode for m", Left(work, 0), shards(), lambda usage: "")

    # 30 of the 40 documents of each shard are done when the line is written, and all 40 of the shard before.
    assert [line.split(",")[0] for line in seen] == [
        "encode for m: 30 of 80 documents",
        "encode for m: 70 of 80 documents",
    ]
    assert report.documents == 80


def test_a_shard_that_another_job_has_made_meanwhile_is_no_work() -> None:
    work = [QueryWork(task="T", queries=QUERIES, rules=Rules(), key=ArtifactKey("k", {"n": n})) for n in range(2)]
    report = follow("encode for m", Left(work, 3), [{FOUND: 40}, {"documents": 40}], lambda usage: "")

    assert (report.documents, report.stored_before) == (40, 4)
