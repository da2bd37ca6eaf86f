"""Reranking by a language model at an address: repairs of its answers are stored, reported and limited."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

from r2med_ray.errors import NotAtHand
from r2med_ray.models.catalog.language_models import LanguageModelRow
from r2med_ray.reranking.shown_ids import VERSION
from r2med_ray.settings.resources import ResourcesConfig
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.systems import Names
from r2med_ray.types import Repairs, ScoredDoc
from r2med_ray.workbench.bench import Workbench
from r2med_ray.workbench.local_runner import LocalRunner
from r2med_ray.workbench.worklog import Worklog
from tests.http_services import Service, completions
from tests.integration.jobs import run_job, write_config

# BM25 ranks the documents in the order of their names. All have the same length. They have the word that all queries
# share three times, twice and once.
DOCUMENTS = {"d1": "skin skin skin", "d2": "skin skin arm", "d3": "skin arm arm"}
QUERIES = {name: f"{name} skin" for name in ("rash", "fever")}
SYSTEM = {"retriever": "bm25", "reranker": {"model": "order", "depth": 3, "max_unusable": 1.0}}


def rows(folder: Path, url: str) -> Path:
    """Write a models file with a language model at an address, and a reranker `order` that uses the model."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text("{}")
    model = {"name": "m", "model": str(folder), "base_url": url, "sampling": {"max_tokens": 8}}
    reranker = {"name": "order", "strategy": "listwise", "language_model": "m"}
    path = folder / "models.yaml"
    path.write_text(yaml.safe_dump({"language_models": [model], "llm_rerankers": [reranker]}))
    return path


class NoModel(LocalRunner):
    """A runner that has no language model at hand."""

    def require(self, row: object) -> None:
        if isinstance(row, LanguageModelRow):
            raise NotAtHand(row.name)


def workbench(store: ArtifactStore, names: Names, kind: type[LocalRunner]) -> Workbench:
    resources, worklog = ResourcesConfig(), Worklog()
    return Workbench(store, kind(names.catalog, store, resources, worklog), names, worklog, resources)


def rerank_inputs(store: ArtifactStore) -> list[dict[str, Any]]:
    return [dict(artifact.inputs) for artifact in store.all() if artifact.name.startswith("rerank/")]


def test_scores_are_made_again_from_kept_answers_without_a_model_at_hand(
    tmp_path: Path, store: ArtifactStore
) -> None:
    with Service(completions(lambda prompt: "" if "rash" in prompt else "[3] > [1]", "length")) as service:
        names = Names.load(rows(tmp_path / "models", service.url))
        asking = workbench(store, names, LocalRunner)
        first = asking.rank(asking.task("skin", documents=DOCUMENTS, queries=QUERIES), SYSTEM)
        assert len(service.requests) == 2
    shutil.rmtree(tmp_path / "store" / "rerank")

    alone = workbench(store, names, NoModel)
    again = alone.rank(alone.task("skin", documents=DOCUMENTS, queries=QUERIES), SYSTEM)

    # The order for `fever` is d3 d1 d2, and the first of three candidates has score 3. `rash` keeps its order.
    assert first.run.rankings == {
        "rash": (ScoredDoc("d1", 3.0), ScoredDoc("d2", 2.0), ScoredDoc("d3", 1.0)),
        "fever": (ScoredDoc("d3", 3.0), ScoredDoc("d1", 2.0), ScoredDoc("d2", 1.0)),
    }
    assert first.repairs == Repairs(rules={"fever": {"id missing": 1}}, unreadable={"rash": {"cut at limit": 1}})
    assert again == first
    # scores by other rules, and scores from before repairs were counted, have another key
    [inputs] = rerank_inputs(store)
    assert inputs["rules"] == VERSION
    with pytest.raises(NotAtHand, match="needs m"):
        alone.rank(alone.task("skin", documents=DOCUMENTS, queries={"rash": "itch skin"}), SYSTEM)


@pytest.mark.ray
def test_a_job_is_refused_above_the_limit_and_reports_what_it_kept(tmp_path: Path, address: str) -> None:
    # The first of the 15 queries is about a cinema. Each query has three candidates, so an order of two lacks one.
    with Service(completions(lambda prompt: "no idea" if "dim cinema" in prompt else "[2] > [1]")) as service:
        systems = [{"name": "listwise", "retriever": "bm25", "reranker": {"model": "order", "depth": 3}}]
        models = rows(tmp_path / "models", service.url)
        config = write_config(tmp_path / "job.yaml", systems=systems, baseline=None, models=str(models))

        refused = run_job(config, cwd=tmp_path, check=False, address=address)
        asked = len(service.requests)
        run_job(config, "--set", "systems.0.reranker.max_unusable=0.1", cwd=tmp_path, address=address)

        assert refused.returncode != 0
        assert "listwise on Demo-Posts: the reranker's answers to 1 of 15 queries can't be read" in refused.stderr
        assert "(no list: 1); at most 5% are allowed: 1." in refused.stderr
        assert len(service.requests) == asked == 15
    results = tmp_path / "results" / "small"
    note = (
        "listwise on Demo-Posts: queries with repaired answers of the reranker (15): "
        "id missing (14), unreadable (1); unreadable answers (1): no list (1)."
    )
    for name in ("index.html", "leaderboard.md"):
        assert note in (results / name).read_text()
    [result] = json.loads((results / "manifest.json").read_text())["results"]
    assert result["repairs"]["unreadable"] == {"1": {"no list": 1}}
    assert len(result["repairs"]["rules"]) == 14
