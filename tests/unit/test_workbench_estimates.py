"""Hours of work: by what was measured, or by arithmetic; and the table of costs, which has the same numbers."""

import re
from pathlib import Path

import pytest

from r2med_ray.first_stages.stored_speed import Speed
from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.settings.pools import Pool
from r2med_ray.workbench.estimates import DOCUMENT_TOKENS, Work, estimate, line, model_seconds, tflops_of

PAGE = (Path(__file__).parents[2] / "cluster" / "README.md").read_text()
GPU = Pool(actors=8, cpus=1, gpus=1)
WORK = Work(
    stage="encode", model="m", items=1_000_000, unit="documents", tokens=200, tokens_are="assumed", billions=7.0
)
MODELS = {"BERT-base": "medcpt", "BERT-large": "bge-large-en-v1.5", "XLM-R-large": "bge-reranker-v2-m3"}


def test_the_costs_on_the_page_are_those_of_the_estimate() -> None:
    row_of_table = r"^\| ((?:encode|rerank) .*?) \| ([\d.]+) \| ([\d,]+) (tokens|pairs) \| ([\d.]+) \|$"
    rows = re.findall(row_of_table, PAGE, re.MULTILINE)
    catalog = load_catalog()

    assert len(rows) == 5
    for work, giga, times, unit, minutes in rows:
        number = float(times.replace(",", ""))
        tokens = number * 512 if unit == "pairs" else number
        billions = float(giga) / 2 / (512 if unit == "pairs" else 1)
        seconds = model_seconds(billions, tokens, tflops_of(GPU, "H100"))
        assert f"{seconds / 60:.1f}" == minutes, work
        for kind, name in MODELS.items():
            row = {**catalog.encoders, **catalog.rerankers}[name]
            assert kind not in work or row.billions == pytest.approx(billions, rel=0.02)
    assert round(82_500_000 / 357_080) == DOCUMENT_TOKENS


def test_hours_are_shared_by_as_many_workers_as_there_are_shards_for() -> None:
    # 2 x 7e9 FLOP x 2e8 tokens = 2.8e18 FLOP; an H100 does 400e12 a second: 7,000 s, 1.944 h; 3 shards, so 0.648 h.
    estimated = estimate(WORK, GPU, "H100", ())

    assert estimated is not None
    assert estimated.worker_seconds == pytest.approx(7000)
    assert line(WORK, GPU, estimated, most_workers=3) == (
        "encode m: 1,000,000 documents × 200 tokens (assumed): 0.65 h with 3 at once, 1.94 GPU-hours "
        "(arithmetic: 14 GFLOP per token, 400 TFLOP/s per H100)"
    )


def test_what_was_measured_on_the_same_kind_of_gpu_goes_before_arithmetic() -> None:
    h100 = Speed(documents=3000, seconds=10, device="NVIDIA H100 80GB HBM3", threads=1)
    l40s = Speed(documents=100, seconds=10, device="NVIDIA L40S", threads=1)

    estimated = estimate(WORK, GPU, "H100", [h100, l40s])

    # 300 documents/s: 1,000,000 / 300 = 3,333.3 s. An L4 is neither of the two, although `L40S` begins with its name.
    assert estimated is not None
    assert estimated.worker_seconds == pytest.approx(3333.3, abs=0.1)
    assert estimated.how == "measured: 300 documents/s per worker"
    other = estimate(WORK, GPU, "L4", [h100, l40s])
    assert other is not None
    assert other.how.startswith("arithmetic")


def test_cpus_count_by_their_number() -> None:
    measured = Speed(documents=60, seconds=10, device="cpu", threads=2)

    estimated = estimate(WORK, Pool(actors=1, cpus=4), None, [measured])

    # 6 documents/s with 2 CPUs are 12 with 4.
    assert estimated is not None
    assert estimated.how == "measured: 12 documents/s per worker"


def test_a_gpu_of_an_unknown_kind_and_a_model_of_unknown_size_are_said() -> None:
    unknown = estimate(WORK, GPU, None, ())
    assert unknown is not None
    assert unknown.how.endswith("400 TFLOP/s per GPU as if it were H100")

    sizeless = Work(stage="encode", model="m", items=5, unit="documents", tokens=9, tokens_are="assumed")
    assert "not estimated: nothing was measured, and the model's row has no `billions`" in line(
        sizeless, GPU, estimate(sizeless, GPU, "H100", ()), most_workers=1
    )
