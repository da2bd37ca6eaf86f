"""Texts that a language model wrote once are exported, so that others can replay them word for word."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from r2med_ray.cli.main import app
from r2med_ray.errors import ConfigError, DataError
from r2med_ray.interop.written_texts import export_texts
from r2med_ray.pipeline import rank
from r2med_ray.settings.config_files import load_config
from r2med_ray.systems import resolve
from r2med_ray.workbench.bench import open_workbench
from r2med_ray.workbench.parts import Ended
from tests.http_services import Service, completions

SYSTEMS: list[dict[str, Any]] = [
    {"name": "live", "retriever": "bm25", "rewriter": {"method": "hyde", "llm": "writer", "samples": 2}},
    {"name": "plain", "retriever": "bm25"},
    {"name": "two", "retriever": "bm25", "rewriter": {"method": "contrast", "llm": "writer"}},
]


def benchmark(folder: Path, url: str) -> Path:
    (folder / "checkpoint").mkdir()
    (folder / "checkpoint" / "config.json").write_text("{}")
    row = {"name": "writer", "model": "./checkpoint", "base_url": url, "sampling": {"max_tokens": 16}}
    (folder / "models.yaml").write_text(yaml.safe_dump({"language_models": [row]}))
    config = folder / "live.yaml"
    values = {"name": "live", "tasks": ["Demo-Posts"], "models": "models.yaml", "systems": SYSTEMS}
    config.write_text(yaml.safe_dump(values))
    return config


def test_exported_texts_are_replayed_word_for_word(tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    with Service(completions(lambda prompt: f"a passage of {len(prompt)} letters")) as service:
        config = benchmark(tmp_path, service.url)
        resolved = resolve(load_config(config))
        with pytest.raises(DataError, match="live on Demo-Posts: its texts are not written yet"):
            export_texts(config, "live", tmp_path / "out", store=store)
        with open_workbench(store, names=resolved.names) as bench:
            task = bench.task("Demo-Posts")
            live = bench.rank(task, resolved.systems[0])
        asked = len(service.requests)

        command = ["texts", "export", str(config), "--system", "live", "--output", str(tmp_path / "out")]
        exported = CliRunner().invoke(app, [*command, "--store", store, "--sample", "1"])

        assert asked == 2 * 15
        assert len(service.requests) == asked
    assert exported.exit_code == 0, exported.output
    path = tmp_path / "out" / "Demo-Posts" / "hyde" / "writer" / "query_with_hydoc.jsonl"
    assert exported.stdout.strip() == str(path)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["id"] for row in rows] == [query.query_id for query in task.queries]
    assert all(row["hy_doc"].startswith("a passage of ") for row in rows)

    with open_workbench(store) as bench:
        replay = bench.system(
            {"retriever": "bm25", "rewriter": {"method": "hyde", "generations": str(path)}, "name": "replay"}
        )
        [(_, ended)] = bench.run({"replay": rank(task, replay)})
    assert isinstance(ended, Ended)
    expansions = [query.expansions[0].text for query in ended.result.rewriting.queries]
    assert expansions == [query.expansions[1].text for query in live.rewriting.queries]


def test_what_has_no_texts_of_its_own_is_refused(tmp_path: Path) -> None:
    config = benchmark(tmp_path, "http://127.0.0.1:1/v1")

    with pytest.raises(ConfigError, match=r"system 'plain' is bm25: it has no texts that a language model writes"):
        export_texts(config, "plain", tmp_path / "out", store=str(tmp_path / "store"))
    with pytest.raises(ConfigError, match=r"system 'two' is contrast/writer .*: it has no texts .* one per query"):
        export_texts(config, "two", tmp_path / "out", store=str(tmp_path / "store"))
    with pytest.raises(ConfigError, match=r"unknown system 'liv'\. Did you mean 'live'\?"):
        export_texts(config, "liv", tmp_path / "out", store=str(tmp_path / "store"))
    with pytest.raises(ConfigError, match="sample 2: system 'live' has 2 samples, counted from 0"):
        export_texts(config, "live", tmp_path / "out", sample=2, store=str(tmp_path / "store"))
