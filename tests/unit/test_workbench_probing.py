"""The first piece of an encoder's work tells when all is done, and warns of what is far below the device."""

import logging
from dataclasses import replace

import pytest

from r2med_ray.first_stages.making import READ_TOKENS, WORKED_S
from r2med_ray.first_stages.vectors import DenseFirstStage
from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.reporting.run_details import stage_columns
from r2med_ray.settings.compat import Rules
from r2med_ray.settings.pools import Pool
from r2med_ray.workbench import probing
from r2med_ray.workbench.probing import Probe
from tests.unit.reporting_records import record

MINILM = DenseFirstStage(row=load_catalog().encoders["all-MiniLM-L6-v2"], rules=Rules())
CPUS = Probe(first_stage=MINILM, pool=Pool(actors=2, cpus=1), gpu=None, cpus=2)
MANY = 100_000


def numbers(seconds: float, *, documents: int = 1000, tokens: int = 200_000) -> dict[str, float]:
    return {"documents": documents, WORKED_S: seconds, READ_TOKENS: tokens}


def test_rate_and_end_are_told_after_the_first_piece(caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO, logger=probing.logger.name)

    assert CPUS(numbers(100), MANY) == ""
    # 1,000 documents and 200,000 tokens in 100 s: 100,000 documents take two workers 5,000 s.
    [line] = caplog.messages
    assert line.startswith(
        "all-MiniLM-L6-v2: a worker does 10 documents/s, 2,000 tokens/s; 100,000 documents are left, "
        "which 2 worker(s) will have done in 5000 s, at "
    )


@pytest.mark.parametrize(
    ("probe", "of_piece", "reason"),
    [
        # 2 × 0.0106 × 10⁹ × 200,000 FLOP = 4.24 TFLOP. In 1,000 s that is 0.0042 TFLOP/s, 8 % of the 0.05 of a CPU.
        pytest.param(
            CPUS,
            numbers(1000),
            "0.0042 TFLOP/s, 8% of the 0.05 expected of 1 thread(s): other work on the machine, or a slower device "
            "than expected",
            id="slow CPU",
        ),
        pytest.param(
            CPUS,
            numbers(1000, documents=20_000),
            "0.0042 TFLOP/s, 8% of the 0.05 expected of 1 thread(s): texts are short, 10 tokens on average",
            id="short texts",
        ),
        pytest.param(
            replace(CPUS, first_stage=replace(MINILM, row=MINILM.row.model_copy(update={"dtype": "bfloat16"}))),
            numbers(1000),
            "0.0042 TFLOP/s, 8% of the 0.05 expected of 1 thread(s): bfloat16 may be slow on this CPU, "
            "`dtype: fastest` measures it",
            id="half precision on a CPU",
        ),
        # 4.24 TFLOP in 10 s are 0.42 TFLOP/s, 0.1 % of 400.
        pytest.param(
            replace(CPUS, pool=Pool(actors=1, cpus=1, gpus=1), gpu="H100"),
            numbers(10),
            "0.42 TFLOP/s, 0% of the 4e+02 expected of a GPU: float32 leaves the fast units of a GPU unused",
            id="float32 on a GPU",
        ),
        pytest.param(
            replace(CPUS, pool=Pool(actors=1, cpus=1), cpus=16),
            numbers(100),
            "the workers compute with 1 of 16 CPUs: raise `resources.encode.actors` or `cpus`",
            id="one thread on 16 CPUs",
        ),
    ],
)
def test_what_is_far_below_the_device_is_warned_of_with_the_reason(
    probe: Probe, of_piece: dict[str, float], reason: str, caplog: pytest.LogCaptureFixture
):
    assert probe(of_piece, MANY) == reason
    assert caplog.messages[-1:] == [f"all-MiniLM-L6-v2: {reason}"]
    assert caplog.records[-1].levelno == logging.WARNING


def test_work_that_ends_soon_or_has_ended_is_not_warned_of():
    assert CPUS(numbers(1000), 100) == ""  # 100 documents of 1 s each on two workers are done in 50 s
    assert CPUS(numbers(1000), 0) == ""


def test_a_report_tells_what_was_slow():
    known = record()
    slow = replace(known, stages=tuple(replace(stage, slow="8% of a CPU") for stage in known.stages))

    assert "Slow" not in [column.title for column in stage_columns(known)]
    [column] = [column for column in stage_columns(slow) if column.title == "Slow"]
    assert set(column.values) == {"8% of a CPU"}
