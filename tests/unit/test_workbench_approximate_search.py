"""An approximate index through the whole flow in this process: what it missed is measured, kept and found again."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from r2med_ray.types import Task
from r2med_ray.workbench.bench import Workbench, open_workbench
from tests.unit.tasks import texts_of_words

MINILM = "all-MiniLM-L6-v2"


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    with open_workbench(tmp_path_factory.mktemp("bench") / "store") as opened:
        yield opened


@pytest.fixture(scope="module")
def task(bench: Workbench) -> Task:
    texts = texts_of_words(66, seed=5)
    return bench.task(
        "mine",
        documents={f"d{number}": text for number, text in enumerate(texts[:60])},
        queries={f"q{number}": text for number, text in enumerate(texts[60:])},
    )


def test_one_cell_of_eight_misses_most_and_the_result_says_so(bench: Workbench, task: Task) -> None:
    exact = bench.rank(task, {"retriever": MINILM}, depth=40)
    near = bench.rank(task, {"retriever": {"model": MINILM, "index": "IVF8,Flat;nprobe=1"}}, depth=40)
    [missed] = near.approximations
    shared = sum(
        len({hit.doc_id for hit in ranking} & {hit.doc_id for hit in near.run.rankings[query_id]})
        for query_id, ranking in exact.run.rankings.items()
    )

    assert exact.approximations == ()
    # 6 queries have 40 documents each.
    assert missed.recall == shared / 240
    assert missed.recall < 0.9
    assert missed.num_short == sum(len(ranking) < 40 for ranking in near.run.rankings.values()) > 0
    assert (missed.search, missed.num_sampled, missed.depth) == (f"{MINILM}[IVF8,Flat;nprobe=1]", 6, 40)


def test_without_parameters_the_search_looks_at_more_than_one_cell(bench: Workbench, task: Task) -> None:
    near = bench.rank(task, {"retriever": {"model": MINILM, "index": "IVF8,Flat"}}, depth=40)
    [missed] = near.approximations

    # 8 cells are fewer than the 16 that are always searched, so nothing is missed.
    assert (missed.search, missed.recall, missed.num_short) == (f"{MINILM}[IVF8,Flat;nprobe=8]", 1.0, 0)


def test_a_search_through_the_public_door_says_what_it_missed(
    bench: Workbench, task: Task, caplog: pytest.LogCaptureFixture
) -> None:
    near = {"model": MINILM, "index": "IVF8,Flat;nprobe=1"}
    ranked = bench.rank(task, {"retriever": near}, depth=40)

    found = bench.find(task, near, k=40)

    assert (found.approximation,) == ranked.approximations
    assert f"mine: {found.approximation}" in caplog.messages
    assert str(found.approximation).startswith(f"{MINILM}[IVF8,Flat;nprobe=1] finds ")
    assert bench.find(task, MINILM, k=40).approximation is None


def test_the_log_warns_of_a_search_unless_it_misses_next_to_nothing(
    bench: Workbench, task: Task, caplog: pytest.LogCaptureFixture
) -> None:
    # 8 cells are all looked at, or 1 of them.
    with caplog.at_level("WARNING"):
        bench.find(task, {"model": MINILM, "index": "IVF8,Flat"}, k=30)
        assert not caplog.messages

        missed = bench.find(task, {"model": MINILM, "index": "IVF8,Flat;nprobe=1"}, k=30).approximation
        assert caplog.messages == [f"mine: {missed}"]


def test_a_second_run_finds_what_was_missed_in_the_store(bench: Workbench, task: Task) -> None:
    system = {"retriever": {"model": MINILM, "index": "IVF8,Flat;nprobe=2"}}
    first = bench.rank(task, system, depth=10)
    with open_workbench(bench.store.uri) as again:
        second = again.rank(task, system, depth=10)

        assert replace(second, run=first.run) == first
        assert again.worklog.entries == ()
