"""How the passes of a model run: one after the other, or at once with one thread each."""

import threading
from collections.abc import Callable, Iterator

import pytest
import torch
import transformers

from r2med_ray.errors import DataError
from r2med_ray.models.catalog.devices import ALONE, BatchLimits
from r2med_ray.models.networks.passes import is_stateless, run_batches
from tests.unit.tiny_checkpoints import SMALL

EITHER_WAY = pytest.mark.parametrize(
    "limits", [pytest.param(ALONE._replace(at_once=False), id="one by one"), pytest.param(ALONE, id="at once")]
)
NO_ROOM = RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate")


@pytest.fixture(autouse=True)
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def test_as_many_passes_run_at_once_as_torch_has_threads_and_each_computes_in_one() -> None:
    # None of the first three passes ends before all three have begun.
    begun = threading.Barrier(3)
    done: list[tuple[int, int]] = []

    def forward(batch: list[int]) -> None:
        if batch[0] < 3:
            begun.wait(timeout=60)
        done.append((batch[0], torch.get_num_threads()))

    run_batches([1] * 5, ALONE, forward)

    assert sorted(done) == [(position, 1) for position in range(5)]
    assert torch.get_num_threads() == 3


def test_a_process_with_one_thread_starts_no_other() -> None:
    torch.set_num_threads(1)
    threads: set[threading.Thread] = set()

    run_batches([1, 1], ALONE, lambda batch: threads.add(threading.current_thread()))

    assert threads == {threading.main_thread()}


@EITHER_WAY
def test_no_pass_keeps_what_gradients_would_need(limits: BatchLimits) -> None:
    weight = torch.ones(1, requires_grad=True)
    kept: list[bool] = []

    run_batches([1, 1], limits, lambda batch: kept.append((weight * 2).requires_grad))

    assert kept == [False, False]


def test_a_text_that_has_no_room_beside_others_is_tried_again_alone() -> None:
    running: list[int] = []
    done: list[int] = []
    both = threading.Barrier(2)

    def forward(batch: list[int]) -> None:
        if not done:
            running.extend(batch)
            both.wait(timeout=60)
            if batch == [0]:
                raise NO_ROOM
        done.extend(batch)

    torch.set_num_threads(2)
    run_batches([1, 1], ALONE, forward)

    assert sorted(running) == [0, 1]
    assert done == [1, 0]


@EITHER_WAY
def test_a_failure_that_is_not_of_memory_stops_all_passes(limits: BatchLimits) -> None:
    calls: list[list[int]] = []

    def forward(batch: list[int]) -> None:
        calls.append(batch)
        raise RuntimeError("CUDA error: device-side assert triggered")

    with pytest.raises(RuntimeError, match="device-side assert"):
        run_batches([1] * 1000, limits, forward)
    assert len(calls) < 1000
    assert torch.get_num_threads() == 3


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(torch.OutOfMemoryError("CUDA out of memory"), id="gpu"),
        pytest.param(RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate"), id="cpu"),
    ],
)
def test_a_batch_that_does_not_fit_is_halved_until_it_does(failure: Exception):
    done: list[list[int]] = []

    def forward(batch: list[int]):
        if len(batch) > 2:
            raise failure
        done.append(batch)

    # 5 texts of 9 tokens are all that 45 allow.
    run_batches([9, 9, 9, 9, 9, 1], BatchLimits(most=45, few=0), forward)

    # [0..4] fails and is split into [0, 1] and [2, 3, 4]. [2, 3, 4] fails and is split into [2] and [3, 4].
    assert done == [[0, 1], [2], [3, 4], [5]]


def test_a_single_text_that_does_not_fit_is_named():
    def forward(batch: list[int]):
        if 7 in batch:
            raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(DataError, match="position 7"):
        run_batches([1] * 8, BatchLimits(most=2, few=2), forward)


@EITHER_WAY
def test_a_text_alone_that_does_not_fit_is_named(limits: BatchLimits) -> None:
    def forward(batch: list[int]) -> None:
        if batch == [4]:
            raise NO_ROOM

    with pytest.raises(DataError, match="position 4"):
        run_batches([1] * 6, limits, forward)


def small(name: str, **changes: object) -> torch.nn.Module:
    config = getattr(transformers, f"{name}Config")(**SMALL, **changes)
    model: torch.nn.Module = getattr(transformers, f"{name}Model")(config)
    return model


class OwnLayer(torch.nn.Module):
    """Code that does not come with a library."""


ROPE = {"factor": 2.0, "original_max_position_embeddings": 64, "rope_theta": 1e4}
FACTORS = {"short_factor": [1.0] * 8, "long_factor": [2.0] * 8}


@pytest.mark.parametrize(
    ("make", "stateless"),
    [
        pytest.param(lambda: small("Bert"), True, id="BERT"),
        pytest.param(lambda: small("Llama"), True, id="rotary"),
        pytest.param(lambda: small("Llama", rope_parameters={"rope_type": "yarn", **ROPE}), True, id="YaRN"),
        pytest.param(lambda: small("Llama", rope_parameters={"rope_type": "dynamic", **ROPE}), False, id="dynamic"),
        pytest.param(
            lambda: small("Llama", rope_parameters={"rope_type": "longrope", **ROPE, **FACTORS}), False, id="longrope"
        ),
        pytest.param(lambda: small("BigBird"), False, id="BigBird"),
        pytest.param(lambda: torch.nn.Sequential(torch.nn.Linear(1, 1), OwnLayer()), False, id="own code"),
    ],
)
def test_passes_run_at_once_where_none_changes_what_another_reads(
    make: Callable[[], torch.nn.Module], stateless: bool
) -> None:
    assert is_stateless(make()) is stateless
