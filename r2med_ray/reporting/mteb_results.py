"""A result in the shape of MTEB's result files (github.com/embeddings-benchmark/results), for tools that read those.

`mteb_version` and `kg_co2_emissions` are null: no release of mteb made these files, and nothing was weighed.
"""

from r2med_ray.artifacts import Json
from r2med_ray.evaluation.evaluate import evaluate
from r2med_ray.evaluation.measures import Measure
from r2med_ray.reporting.record import BenchmarkRecord, ResultRecord, TaskRecord

CUTOFFS = (1, 3, 5, 10, 20, 100, 1000)
DECIMALS = 5

_KEYS = {"ndcg": "nDCG", "map": "AP", "recall": "R", "precision": "P", "mrr": "RR"}


def mteb_result(record: BenchmarkRecord, task: TaskRecord, result: ResultRecord) -> Json:
    """Return the content of one file; measures stop at the depth of the runs, values are on the scale 0 to 1."""
    measures = {
        f"{key}_at_{cutoff}": Measure(name, cutoff)
        for key, name in _KEYS.items()
        for cutoff in CUTOFFS
        if cutoff <= record.depth
    }
    means = evaluate(result.run, task.qrels, tuple(measures.values())).means
    return {
        "dataset_revision": task.revision,
        "task_name": _task_name(task),
        "mteb_version": None,
        "scores": {
            "test": [
                {
                    **{key: round(means[str(measure)], DECIMALS) for key, measure in measures.items()},
                    "main_score": round(result.evaluation.means[record.main_measure], DECIMALS),
                    "hf_subset": "default",
                    "languages": ["eng-Latn"],
                }
            ]
        },
        "evaluation_time": sum(result.seconds.values()),
        "kg_co2_emissions": None,
    }


def _task_name(task: TaskRecord) -> str:
    """Return MTEB's name of an R2MED task, e.g. `R2MEDMedQADiagRetrieval`; any other task keeps its own."""
    return f"R2MED{task.name.replace('-', '')}Retrieval" if task.suite == "R2MED" else task.name
