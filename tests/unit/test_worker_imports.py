"""What every worker imports before it can work is no more than it needs: each job waits for it in each process."""

import subprocess
import sys

IMPORTS = """
import sys
import r2med_ray.distributed.artifact_worker, r2med_ray.distributed.shard_rows, r2med_ray.first_stages.vectors
print(*sorted({"rich", "torch", "transformers", "faiss", "scipy", "r2med_ray.settings.resources",
               "r2med_ray.workbench", "r2med_ray.reporting", "r2med_ray.evaluation"} & set(sys.modules)))
"""


def test_a_worker_imports_nothing_of_the_driver_and_no_library_before_its_model_asks_for_it() -> None:
    found = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True)

    assert found.stdout.split() == []
