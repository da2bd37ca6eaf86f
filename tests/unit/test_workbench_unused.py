"""What no named benchmark uses is removed; a benchmark that was named finds all of its artefacts afterwards."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from r2med_ray.cli.main import app
from r2med_ray.errors import ConfigError, NotAtHand
from r2med_ray.settings.config_files import load_with, parse_config
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import ArtifactKey
from r2med_ray.systems import resolve
from r2med_ray.workbench.unused import unused
from tests.unit.corpus_files import write_r2med
from tests.unit.tasks import run_in

LATER = datetime.now(UTC) + timedelta(days=1)


def run(folder: Path, task: str, retriever: object) -> Path:
    """Run a benchmark of one system on one task, and return its file."""
    write_r2med(folder / task, corpus=[("d1", f"cat {task}"), ("d2", "dog"), ("d6", "horse")])
    file = folder / f"{task}.yaml"
    systems = [{"name": "s", "retriever": retriever}]
    file.write_text(yaml.safe_dump({"name": task, "tasks": [{"name": task, "path": task}], "systems": systems}))
    run_in(folder, load_with(resolve, file))
    return file


def test_what_a_benchmark_uses_stays_and_the_rest_goes(tmp_path: Path) -> None:
    words = run(tmp_path, "words", "bm25")
    store = ArtifactStore(str(tmp_path / "store"))
    of_words = set(store.names())
    vectors = run(tmp_path, "vectors", {"model": "all-MiniLM-L6-v2", "index": "IVF1,Flat"})
    of_vectors = set(store.names()) - of_words
    text = ArtifactKey("generation", {"prompt": "paid for"})
    with store.create(text) as writer:
        writer.write("text", b"a passage")
    kinds = {name.split("/")[0] for name in of_vectors}
    assert kinds == {"ann", "ann-trained", "corpus", "query-vectors", "run", "text_survey", "vectors"}

    names = [load_with(resolve, file) for file in (words, vectors)]
    assert unused(store, names, before=LATER) == []
    assert set(unused(store, names[1:], before=LATER)) == of_words
    assert set(unused(store, names[:1], before=LATER)) == of_vectors
    assert unused(store, names[:1], before=datetime(2000, 1, 1, tzinfo=UTC)) == []

    arguments = ["artifacts", "gc", "--store", str(tmp_path / "store"), "--keep-used-by", str(words)]
    arguments += ["--older-than-hours", "-1"]
    told = CliRunner().invoke(app, [*arguments, "--dry-run"]).stdout.splitlines()
    assert told == [f"would remove {name}" for name in sorted(of_vectors)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert set(store.names()) == of_words | {text.name}


def test_what_was_measured_stays_and_so_do_vectors_of_the_dtype_that_was_chosen(tmp_path: Path) -> None:
    file = run(tmp_path, "measured", {"model": "all-MiniLM-L6-v2", "dtype": "fastest"})
    other = run(tmp_path, "words", "bm25")
    store = ArtifactStore(str(tmp_path / "store"))

    benchmarks = [load_with(resolve, each) for each in (file, other)]
    assert unused(store, benchmarks, before=LATER) == []
    removed = unused(store, benchmarks[1:], before=LATER)
    assert {name.split("/")[0] for name in removed} >= {"vectors", "query-vectors"}
    assert "fastest-dtype" not in {name.split("/")[0] for name in removed}


def test_the_sentences_that_a_report_shows_go_with_the_vectors_of_their_model(tmp_path: Path) -> None:
    benchmarks = [
        load_with(resolve, run(tmp_path, *each)) for each in (("tokens", "minilm-tokens"), ("words", "bm25"))
    ]
    store = ArtifactStore(str(tmp_path / "store"))

    assert unused(store, benchmarks, before=LATER) == []
    removed = {name.split("/")[0] for name in unused(store, benchmarks[1:], before=LATER)}
    assert removed >= {"sentences", "token-vectors"}


def test_nothing_is_judged_by_a_benchmark_with_hard_negatives(tmp_path: Path) -> None:
    values = {"name": "a", "tasks": ["Demo-Evidence"], "systems": [{"name": "s", "retriever": "bm25"}]}
    benchmark = resolve(parse_config({**values, "hard_negatives": [{"task": "Demo-Evidence"}]}))

    with pytest.raises(ConfigError, match="benchmark 'a' has hard negatives, and what it uses for them is not known"):
        unused(ArtifactStore(str(tmp_path / "store")), [benchmark], before=LATER)


def test_nothing_is_judged_by_a_benchmark_whose_data_is_not_here(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    values = {"name": "a", "tasks": ["Biology"], "systems": [{"name": "s", "retriever": "bm25"}]}

    with pytest.raises(NotAtHand):
        unused(ArtifactStore(str(tmp_path / "store")), [resolve(parse_config(values))], before=LATER)
