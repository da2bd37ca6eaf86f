"""What processes compute on, as far as Ray tells."""

import pytest
import ray

from r2med_ray.distributed.nodes import computer_of
from r2med_ray.models.catalog.devices import processor_name


def node(*, alive: bool = True, **resources: float) -> dict[str, object]:
    return {"Alive": alive, "Resources": {"CPU": 8.0} | {name.replace("__", ":"): 1.0 for name in resources}}


H100, A100, CPU = node(GPU=1, accelerator_type__H100=1), node(GPU=1, accelerator_type__A100=1), node()
GONE = node(alive=False, GPU=1, accelerator_type__A100=1)


@pytest.mark.parametrize(
    ("nodes", "gpus", "accelerator", "computer"),
    [
        pytest.param([CPU, H100], 1, None, "H100", id="the only kind of GPU"),
        pytest.param([H100, A100, H100], 0.5, None, "A100 or H100", id="one of two kinds"),
        pytest.param([H100, A100], 1, "A100", "A100", id="the kind that was asked for"),
        pytest.param(
            [CPU, node(alive=False, GPU=1, accelerator_type__A100=1)], 1, None, "", id="a GPU without a name"
        ),
        pytest.param([CPU], 0, None, processor_name(), id="this machine"),
        pytest.param([CPU, CPU], 0, None, "", id="one of several machines"),
    ],
)
def test_a_computer_is_named_as_far_as_ray_tells(
    monkeypatch: pytest.MonkeyPatch,
    nodes: list[dict[str, object]],
    gpus: float,
    accelerator: str | None,
    computer: str,
) -> None:
    monkeypatch.setattr(ray, "nodes", lambda: nodes)

    assert computer_of(gpus, accelerator) == computer
