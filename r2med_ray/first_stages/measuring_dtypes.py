"""Measures in which dtype a first stage's model is fastest on this machine, and keeps what it found in the store.

All keys of a job depend on the answer, so one process measures, and whoever computes for the job follows it.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from r2med_ray.first_stage import Computing, FirstStage, Maker, ShardedFirstStage
from r2med_ray.first_stages.second_search import SecondSearch
from r2med_ray.first_stages.stored_speed import Speed
from r2med_ray.models.catalog.devices import Dtype, processor_name
from r2med_ray.models.catalog.fastest import MEASURED_DTYPES, FastestDtype
from r2med_ray.models.catalog.row import Row
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import ArtifactKey
from r2med_ray.storage.listing import made_for
from r2med_ray.types import Document

KIND = "fastest-dtype"
"""Kind of the artefacts that keep what was found. The finding is an attribute."""

RATES, DTYPE, COMPUTER = "rates", "dtype", "computer"

ANY_TASK = ""
ROUNDS = 5
ENOUGH_S = 30.0
"""After so many seconds no further round is begun."""

SAMPLE = 8
SHORTEST, LONGEST = 20, 200
"""Words of a text of the sample. R2MED's tasks have 84 to 1,273 words a document on average, which models cut."""

_TEXT = (
    "the patient was treated with for a and of in which after infection fever cough chest pain artery vein lesion "
    "biopsy protein receptor gene mutation therapy dose trial risk disease acute chronic kidney liver lung brain"
)


def is_unmeasured(first_stage: FirstStage) -> bool:
    """Return whether a first stage has the dtype `fastest`, and doesn't know yet what that is on a CPU."""
    row = first_stage.row
    return isinstance(row, Row) and row.dtype == "fastest" and row.found_dtype is None


def measured_as(first_stage: ShardedFirstStage) -> ShardedFirstStage:
    """Return the first stage that is measured: a second search goes by the retriever whose vectors it uses."""
    return first_stage.retriever if isinstance(first_stage, SecondSearch) else first_stage


def with_fastest(first_stage: FirstStage, found: FastestDtype) -> FirstStage:
    """Return a first stage whose rows know what `fastest` is."""
    if isinstance(first_stage, SecondSearch):
        row, documents = (row.with_fastest(found) for row in (first_stage.row, first_stage.documents))
        return replace(first_stage, row=row, documents=documents)
    stage = cast(Any, first_stage)  # kinds whose rows are measured are dataclasses with a `row`
    return cast(FirstStage, replace(stage, row=stage.row.with_fastest(found)))


def measuring(first_stage: FirstStage) -> str:
    """Return in words what is done for a first stage, for errors and waits."""
    return f"measuring the fastest dtype of {first_stage.label}"


def stored_fastest(store: ArtifactStore, first_stage: ShardedFirstStage, threads: int) -> FastestDtype | None:
    """Return what was found for a model on a machine such as this one, by any job on the store."""
    artifact = store.find(_key(first_stage, threads))
    if artifact is None:
        return None
    noted = artifact.attributes
    return FastestDtype(dtype=noted[DTYPE], rates=noted[RATES], computer=noted[COMPUTER])


def fastest_here(store: ArtifactStore, first_stage: ShardedFirstStage, computing: Computing) -> FastestDtype:
    """Return in which dtype a model is fastest on this machine; measure it if the store doesn't know it.

    Both dtypes take turns on the same texts, and the medians decide. Two copies of the model are in memory meanwhile.
    """
    found = stored_fastest(store, first_stage, computing.threads)
    if found is None:
        found = _measured(store, first_stage, computing)
        with store.create(_key(first_stage, computing.threads)) as writer:
            writer.attributes |= {DTYPE: found.dtype, RATES: dict(found.rates), COMPUTER: found.computer}
            writer.attributes |= made_for("", first_stage.label)
    return found


def _key(first_stage: ShardedFirstStage, threads: int) -> ArtifactKey:
    """Return the key of a finding: everything that changes the model's vectors but the dtype, and the machine."""
    vectors = _in_dtype(first_stage, "float32").queries_key(ANY_TASK, [], "cpu")
    assert vectors is not None, "whoever has a dtype makes vectors of queries"
    machine = {"processor": processor_name(), "threads": threads, "sample": [SAMPLE, SHORTEST, LONGEST]}
    return ArtifactKey(KIND, {"encoding": vectors.inputs["encoding"], **machine})


def _in_dtype(first_stage: ShardedFirstStage, dtype: Dtype) -> ShardedFirstStage:
    return cast(ShardedFirstStage, with_fastest(first_stage, FastestDtype(dtype=dtype)))


def _measured(store: ArtifactStore, first_stage: ShardedFirstStage, computing: Computing) -> FastestDtype:
    documents = _sample()
    makers = {dtype: _in_dtype(first_stage, dtype).load(store, computing) for dtype in MEASURED_DTYPES}
    seconds: dict[Dtype, list[float]] = {dtype: [] for dtype in makers}
    for maker in makers.values():
        _seconds(maker, documents[:1])
    began = time.monotonic()
    while len(seconds["float32"]) < ROUNDS and time.monotonic() - began < ENOUGH_S:
        for dtype, maker in makers.items():
            seconds[dtype].append(_seconds(maker, documents))
    computer = Speed.measured(len(documents), 1.0, computing).computer
    return FastestDtype.of_rounds(seconds, len(documents), computer)


def _sample() -> list[Document]:
    """Return the same texts in every process."""
    drawn = random.Random(0)
    return [
        Document(doc_id=str(number), text=" ".join(drawn.choices(_TEXT.split(), k=drawn.randint(SHORTEST, LONGEST))))
        for number in range(SAMPLE)
    ]


def _seconds(maker: Maker, documents: Sequence[Document]) -> float:
    """Return the CPU seconds of all threads of this process.

    Other work on the machine makes threads wait for each other. On one busy machine, wall-clock time said that
    bfloat16 was 1.3 times as fast, and CPU time that it was 0.7 times as fast, as it was on the idle machine.
    """
    began = time.process_time()
    maker.make_shard(ANY_TASK, documents, range(len(documents)))
    return time.process_time() - began
