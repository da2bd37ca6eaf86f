"""Every path of a benchmark file starts at the folder of the file, wherever a command is run."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from r2med_ray.errors import ConfigError
from r2med_ray.settings.config import BenchmarkConfig
from r2med_ray.settings.config_files import load_config, parse_config

VALUES: dict[str, Any] = {
    "name": "paths",
    "models": "own/models.yaml",
    "tasks": [
        "Demo-Posts",
        {"path": "../data", "name": "Mine"},
        {"path": "vaswani", "layout": "ir_datasets", "name": "V"},
    ],
    "systems": [
        {
            "name": "a",
            "retriever": {"candidates": "runs/{task}.trec"},
            "rewriter": {"method": "hyde", "llm": "m", "prompts": "prompts", "candidates": {"retriever": "bm25"}},
        },
        {"name": "b", "retriever": "bm25", "rewriter": {"method": "hyde", "generations": "texts.jsonl"}},
        {"name": "c", "retriever": {"candidates": "bm25"}, "rewriter": {"method": "hyde", "generations": "qwen2.5"}},
    ],
}  # fmt: skip


def paths(config: BenchmarkConfig) -> list[str | None]:
    """Return every value of the file that is a path, or might be one."""
    a, b, c = config.systems
    return [
        config.models,
        *(task.path for task in config.tasks if not isinstance(task, str)),
        *(system.first_stages[0].candidates for system in (a, c)),
        a.rewriter.prompts,
        *(system.rewriter.generations for system in (b, c)),
    ]


def test_paths_start_at_the_file_and_names_stay_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "a.yaml").write_text(yaml.safe_dump(VALUES))
    expected = [
        "jobs/own/models.yaml", "jobs/../data", "vaswani", "jobs/runs/{task}.trec", "bm25", "jobs/prompts",
        "jobs/texts.jsonl", "qwen2.5",
    ]  # fmt: skip

    monkeypatch.chdir(tmp_path)
    assert paths(load_config(Path("jobs/a.yaml"))) == expected
    monkeypatch.chdir(tmp_path / "jobs")
    here = [path.removeprefix("jobs/") for path in expected]
    assert paths(load_config(Path("a.yaml"))) == here
    monkeypatch.chdir("/")
    there = [f"{tmp_path}/{path}" if path.startswith("jobs/") else path for path in expected]
    assert paths(load_config(tmp_path / "jobs" / "a.yaml")) == there


def test_absolute_paths_and_those_of_a_home_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(VALUES))

    config = load_config(tmp_path / "a.yaml", ["models=/own.yaml", "systems.0.rewriter.prompts=~/prompts"])
    assert (config.models, config.systems[0].rewriter.prompts) == ("/own.yaml", "/home/me/prompts")


def test_a_path_of_the_command_line_starts_at_the_file_too(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(VALUES))

    assert load_config(tmp_path / "a.yaml", ["models=b.yaml"]).models == str(tmp_path / "b.yaml")


def test_plain_values_start_where_the_command_runs() -> None:
    assert parse_config(VALUES).models == "own/models.yaml"


def test_a_home_of_nobody_is_named(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text(
        "name: a\ntasks: [Demo-Cases]\nsystems: [{name: s, retriever: bm25}]\nmodels: ~nobody-here/m.yaml\n"
    )

    with pytest.raises(ConfigError, match=r"models: should be a path, got '~nobody-here/m.yaml': no such user"):
        load_config(file)
