"""What workers are given when they are started."""

from functools import partial
from pathlib import Path

from ray import cloudpickle

from r2med_ray.distributed.artifact_worker import ArtifactWorker
from r2med_ray.distributed.searching import _load_index
from r2med_ray.first_stage import Computing
from r2med_ray.first_stages.preparation import shards_left
from r2med_ray.workbench.bench import open_workbench


def arguments(folder: Path, words: int) -> int:
    """Return the bytes of all that workers are given to prepare and to search three documents of so many words."""
    with open_workbench(folder) as bench:
        task = bench.task("t", documents={str(number): f"{number} rash" * words for number in range(3)})
        first_stage = bench.first_stage("bm25")
        left = shards_left(bench.store, [(task, first_stage)], "cpu")
        loading = partial(_load_index, bench.store, task, first_stage, None, "cpu")
        return len(
            cloudpickle.dumps((left.work, partial(ArtifactWorker, bench.store, first_stage, Computing()), loading))
        )


def test_ry09_workers_are_given_no_text_of_the_corpus(tmp_path: Path) -> None:
    # A digest has the same length whatever it is of; only the lengths of a few numbers differ.
    assert abs(arguments(tmp_path / "long", 100_000) - arguments(tmp_path / "tall", 1)) < 100
