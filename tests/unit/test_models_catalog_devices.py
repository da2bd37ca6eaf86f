from pathlib import Path

import pytest

from r2med_ray.models.catalog.devices import batch_limits, best_dtype, cpu_has_bfloat16, pass_inputs
from r2med_ray.models.networks.token_budget import plan_batches


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ("fpu avx2 avx512f amx_bf16 amx_int8", True),
        ("fpu avx2 avx512_bf16", True),
        ("fpu avx2 avx512f avx512_vnni", False),
        ("fpu avx2 avx512_bf16x", False),
    ],
)
def test_a_cpu_is_asked_for_its_bfloat16_unit(tmp_path: Path, flags: str, expected: bool):
    cpu_info = tmp_path / "cpuinfo"
    cpu_info.write_text(f"processor\t: 0\nflags\t\t: {flags}\nbugs\t\t: spectre_v1\n")

    assert cpu_has_bfloat16(cpu_info) is expected


def test_a_cpu_that_cannot_be_asked_has_none(tmp_path: Path):
    assert not cpu_has_bfloat16(tmp_path / "missing")


def test_half_precision_only_where_it_is_known_to_gain():
    assert best_dtype("cpu") == ("bfloat16" if cpu_has_bfloat16() else "float32")
    assert best_dtype("cuda") in ("bfloat16", "float16")
    assert best_dtype("mps") == "float32"


def test_on_a_cpu_every_text_goes_through_the_model_alone():
    assert plan_batches([3, 1, 3, 200], batch_limits("cpu", 16_384)) == [[3], [0], [2], [1]]


def test_the_key_says_so_of_a_cpu_alone():
    assert pass_inputs("cpu") == {"pass": "one text"}
    assert pass_inputs("cuda") == pass_inputs("cuda:1") == {}


def test_a_token_budget_is_an_upper_bound_on_a_gpu():
    assert batch_limits("cuda", 16_384).most == 16_384
    assert batch_limits("cuda:1", 1000).few == 1000
