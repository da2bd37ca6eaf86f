"""The shipped reproduction has every published system that files alone can give, under its published name."""

from pathlib import Path

from r2med_ray.evaluation.deviations import known_deviations
from r2med_ray.evaluation.published import PublishedScore, mteb_models, published, published_score
from r2med_ray.settings.config_files import load_config
from r2med_ray.systems import resolve

JOB = Path(__file__).parents[2] / "jobs" / "reproduce_r2med.yaml"
BENCHMARK = resolve(load_config(JOB))
TASKS = [task.name for task in BENCHMARK.tasks]


def compared() -> dict[str, PublishedScore]:
    """Return system of the job → the published figure on Biology that the system is compared with."""
    found = {
        system.name: published_score(task="Biology", measure="nDCG@10", **system.published_key or {})
        for system in BENCHMARK.systems
    }
    return {name: score for name, score in found.items() if score is not None}


def test_every_system_is_compared_with_the_figure_of_its_name():
    scores = compared()

    assert scores.keys() == {system.name for system in BENCHMARK.systems}
    assert all(score.system == name for name, score in scores.items() if score.family != "mteb")


def test_exactly_the_published_systems_that_need_no_api_are_there():
    wanted = {
        row.system
        for row in published(measure="nDCG@10")
        if row.family in ("base", "gar", "reranker") and row.task in TASKS and not known_deviations().need(row)
    }

    # 13 retrievers, 20 generation sets with three of them, 3 rerankers at 2 depths
    assert len(wanted) == 13 + 20 * 3 + 3 * 2
    assert {name for name, score in compared().items() if score.family != "mteb"} == wanted


def test_every_model_of_the_catalogue_that_mteb_has_measured_is_compared_with_it():
    wanted = {f"mteb/{row.name}" for row in BENCHMARK.names.catalog.encoders.values() if row.model in mteb_models()}

    assert {name for name, score in compared().items() if score.family == "mteb"} == wanted


def test_all_eight_tasks_are_run_and_gaps_are_shown():
    assert len(TASKS) == 8
    assert BENCHMARK.config.when_missing == "skip"
