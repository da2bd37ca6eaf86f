"""Writes results as MTEB's result files, which mteb's `TaskResult` and `ResultCache` load.

    results/<model>/<revision>/<task>.json     one system on one task
    results/<model>/<revision>/model_meta.json the system

The files have the shape of mteb 2.26. `mteb_version` is null: mteb then knows that none of its releases made the
result. `kg_co2_emissions` is null because emissions were not measured. The `nauc_*` keys are left out because they
need mteb's confidence scores. `accuracy` is left out because it equals `recall_at_1`.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from r2med_ray.evaluation.evaluate import evaluate
from r2med_ray.evaluation.measures import Measure
from r2med_ray.reporting.file_names import file_names
from r2med_ray.reporting.record import BenchmarkRecord, ResultRecord, SystemRecord, TaskRecord
from r2med_ray.storage.keys import Json, fingerprint

CUTOFFS = (1, 3, 5, 10, 20, 100, 1000)
DECIMALS = 5
MAIN = Measure("nDCG", 10)
"""The main score of MTEB's retrieval tasks. The main measure of a benchmark here may be another one."""

MEASURE_OF_KEY: Mapping[str, str] = {
    "ndcg": "nDCG", "map": "AP", "recall": "R", "precision": "P", "mrr": "RR", "hit_rate": "Success",
}  # fmt: skip
"""The part of MTEB's keys before `_at_<cutoff>` → the measure."""

ORGANISATION = "r2med-ray"
"""The organisation in a model's name, which MTEB's names have. It is ours, since a system is more than an encoder."""

MODEL_META = "model_meta.json"

_NOT_KNOWN = (
    "loader", "release_date", "n_parameters", "memory_usage_mb", "max_tokens", "embed_dim", "license", "open_weights",
    "public_training_code", "public_training_data", "similarity_fn_name", "use_instructions", "training_datasets",
)  # fmt: skip


def export_mteb(record: BenchmarkRecord, folder: Path) -> list[Path]:
    """Write every result into a folder that `mteb.ResultCache(folder)` reads. Files of an earlier
    export are replaced.

    Returns:
        The files of results, in the order of the record.
    """
    safe_names = file_names(system.name for system in record.systems)
    tasks = {task.name: task for task in record.tasks}
    homes: dict[str, Path] = {}
    for system in record.systems:
        meta = model_meta(system, safe_names[system.name])
        home = folder / "results" / str(meta["name"]).replace("/", "__") / str(meta["revision"])
        homes[system.name] = home
        _write(home / MODEL_META, meta)
    written = []
    for result in record.results:
        content = mteb_result(record, tasks[result.task], result)
        written.append(homes[result.system] / f"{content['task_name']}.json")
        _write(written[-1], content)
    return written


def mteb_result(record: BenchmarkRecord, task: TaskRecord, result: ResultRecord) -> dict[str, Json]:
    """Return the content of one file of results, with values on the scale 0 to 1.

    No cut-off is larger than the depth of the runs.
    """
    measures = {
        f"{key}_at_{cutoff}": Measure(name, cutoff)
        for key, name in MEASURE_OF_KEY.items()
        for cutoff in CUTOFFS
        if cutoff <= record.depth
    }
    means = evaluate(result.run, task.qrels, (*measures.values(), MAIN)).means
    return {
        "dataset_revision": task.revision,
        "task_name": mteb_task_name(task.name, task.suite),
        "mteb_version": None,
        "scores": {
            "test": [
                {
                    **{key: round(means[str(measure)], DECIMALS) for key, measure in measures.items()},
                    "main_score": round(means[str(MAIN)], DECIMALS),
                    "hf_subset": "default",
                    "languages": ["eng-Latn"],
                }
            ]
        },
        "evaluation_time": sum(result.seconds.values()),
        "kg_co2_emissions": None,
    }


def model_meta(system: SystemRecord, safe_name: str) -> dict[str, Json]:
    """Return the content of a `model_meta.json`: mteb's `ModelMeta`, with null for what a system doesn't have.

    The revision is a digest of the system's parts and settings. So the results of a changed system don't replace its
    earlier results.

    Args:
        system: the system that takes the place of MTEB's model.
        safe_name: the system's name as a file name.
    """
    return {
        "name": f"{ORGANISATION}/{safe_name}",
        "revision": fingerprint([system.description, dict(system.settings), system.compat])[:12],
        "languages": ["eng-Latn"],
        "framework": [],
        **dict.fromkeys(_NOT_KNOWN),
    }


def mteb_task_name(name: str, suite: str) -> str:
    """Return MTEB's name of an R2MED task, e.g. `R2MEDMedQADiagRetrieval`. Any other task keeps its name."""
    return f"R2MED{name.replace('-', '')}Retrieval" if suite == "R2MED" else name


def _write(path: Path, content: Mapping[str, Json]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
