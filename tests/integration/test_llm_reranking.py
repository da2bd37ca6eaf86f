"""A language model that reranks behind an address: what was repaired in its answers is kept, reported and limited."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from r2med_ray.settings.pools import ClusterCapacity

from r2med_ray.workbench.sizing import size_pools
from r2med_ray.errors import NotAtHand
from r2med_ray.language_parts import LanguageParts
from r2med_ray.models.catalog.llm_rerankers import LlmRerankerRow
from r2med_ray.models.catalog.load import Catalog, load_catalog
from r2med_ray.protocols import Candidates
from r2med_ray.reranking.permutations import VERSION
from r2med_ray.serving.language_models import LanguageModels
from r2med_ray.settings.resources import ResourcesConfig
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Document, Query, Repairs, Run
from tests.http_services import Service, completions
from tests.integration.jobs import run_job, write_config

WORK = [
    Candidates(
        Query(query_id=text, text=text),
        [Document(doc_id=doc_id, text=doc_id) for doc_id in ("d1", "d2", "d3")],
        [3.0, 2.0, 1.0],
    )
    for text in ("rash", "fever")
]


def rows(folder: Path, url: str) -> Path:
    """Write a file with a language model behind an address, and a reranker of it called `order`."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text("{}")
    model = {"name": "m", "model": str(folder), "base_url": url, "sampling": {"max_tokens": 8}}
    reranker = {"name": "order", "strategy": "listwise", "language_model": "m"}
    path = folder / "models.yaml"
    path.write_text(yaml.safe_dump({"language_models": [model], "llm_rerankers": [reranker]}))
    return path


def parts(catalog: Catalog, store: ArtifactStore) -> LanguageParts:
    """The parts of a job whose first stages search for nobody."""
    resources, capacity = ResourcesConfig(), ClusterCapacity(num_nodes=1, cpus=2, gpus=0, cpus_of_largest_node=2)
    models = LanguageModels("test", resources.language_model, size_pools(resources, capacity), capacity)
    return LanguageParts(catalog, store, models, lambda *_: Run(tag="", rankings={}), device="cpu")


def nobody(row: LlmRerankerRow) -> None:
    raise NotAtHand(row.language_model)


def test_scores_are_made_again_from_kept_answers_without_a_model_at_hand(tmp_path: Path) -> None:
    store = ArtifactStore(str(tmp_path / "store"))
    with Service(completions(lambda prompt: "" if "rash" in prompt else "[3] > [1]", "length")) as service:
        catalog = load_catalog(rows(tmp_path / "models", service.url))
        row = catalog.llm_rerankers["order"]
        reranker = parts(catalog, store).reranker(row, lambda _: None)
        first = reranker.score_all(WORK)
    shutil.rmtree(tmp_path / "store" / "rerank")

    again = parts(catalog, store).reranker(row, nobody)

    # d3 d1 d2 for fever, the first of three candidates has score 3; rash keeps its order
    assert first.scores == {"rash": [3.0, 2.0, 1.0], "fever": [2.0, 1.0, 3.0]}
    assert first.repairs == Repairs(rules={"fever": {"id missing": 1}}, unreadable={"rash": {"cut at limit": 1}})
    assert again.score_all(WORK) == first
    # scores by other rules, or from before repairs were counted, have another key
    assert again.key(WORK).inputs["rules"] == VERSION
    with pytest.raises(NotAtHand, match="needs m"):
        again.score_all([WORK[0]._replace(query=Query(query_id="rash", text="itch"))])


@pytest.mark.ray
def test_a_job_is_refused_above_the_limit_and_reports_what_it_kept(tmp_path: Path, address: str) -> None:
    # The first of the 15 queries is about a cinema. Each has three candidates, so an order of two lacks one.
    with Service(completions(lambda prompt: "no idea" if "dim cinema" in prompt else "[2] > [1]")) as service:
        systems = [{"name": "listwise", "retriever": "bm25", "reranker": {"model": "order", "depth": 3}}]
        models = rows(tmp_path / "models", service.url)
        config = write_config(tmp_path / "job.yaml", systems=systems, baseline=None, models=str(models))

        refused = run_job(config, cwd=tmp_path, check=False, address=address)
        asked = len(service.requests)
        run_job(config, "--set", "systems.0.reranker.max_unusable=0.1", cwd=tmp_path, address=address)

        assert refused.returncode != 0
        assert "listwise on Demo-Posts: 1 of 15 queries have answers" in refused.stderr
        assert "(no list: 1), 5% may: 1." in refused.stderr
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
