"""Candidates as a retriever of a benchmark file."""

from pathlib import Path

import pytest

from r2med_ray.corpus.loading import load_task
from r2med_ray.errors import ConfigError, DataError
from r2med_ray.evaluation.trec import write_run
from r2med_ray.first_stages.lexical import LexicalFirstStage
from r2med_ray.first_stages.ranked_lists import ListFirstStage
from r2med_ray.retrieval.ranked_lists import in_order
from r2med_ray.settings.config_files import parse_config
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.systems import resolve
from r2med_ray.types import Run, Task
from tests.unit.nano_files import DENSE, write_nano


def first_stage(retriever: object, **changes: object) -> ListFirstStage:
    values = {"name": "b", "tasks": ["Demo-Posts"], "systems": [{"name": "s", "retriever": retriever}], "depth": 101}
    [found] = resolve(parse_config({**values, **changes})).systems[0].first_stages
    assert isinstance(found, ListFirstStage)
    return found


@pytest.fixture
def task(tmp_path: Path) -> Task:
    source = write_nano(tmp_path / "set", harrier_oss_v1_270m=DENSE)
    return load_task(source, ArtifactStore(str(tmp_path / "store")), documents_per_shard=3)


def ranked(found: ListFirstStage, task: Task) -> dict[str, list[str]]:
    run = found.find(task, task.queries, 10)
    return {query_id: [hit.doc_id for hit in ranking] for query_id, ranking in run.rankings.items()}


def test_lists_that_came_with_the_task_are_kept_in_their_order(task: Task) -> None:
    assert ranked(first_stage({"candidates": "dense"}), task) == DENSE


def test_lists_that_did_not_come_are_named_with_those_that_did(task: Task) -> None:
    with pytest.raises(DataError, match=r"task 'NanoTiny' in .* has no candidates 'bm25'; it has dense"):
        first_stage({"candidates": "bm25"}).inputs(task, "cpu")


def test_a_path_may_name_the_task_and_may_be_a_trec_run(task: Task, tmp_path: Path) -> None:
    write_run(
        tmp_path / "NanoTiny.trec", Run(tag="t", rankings={query: in_order(ids) for query, ids in DENSE.items()})
    )

    assert ranked(first_stage({"candidates": f"{tmp_path}/{{task}}.trec"}), task) == DENSE
    with pytest.raises(DataError, match=r"candidates of task 'NanoTiny': .*other\.parquet is no file"):
        first_stage({"candidates": f"{tmp_path}/other.parquet"}).inputs(task, "cpu")


def test_a_query_that_our_own_run_found_nothing_for_has_an_empty_list(task: Task, tmp_path: Path) -> None:
    path = tmp_path / "own.trec"
    write_run(path, Run(tag="t", rankings={"q1": in_order(DENSE["q1"]), "q2": (), "q3": ()}))
    found = first_stage({"candidates": str(path)})

    assert ranked(found, task) == {"q1": DENSE["q1"], "q2": [], "q3": []}
    # a search for some of the queries, none of which the run answers
    assert found.find(task, task.queries[1:2], 10).rankings == {"q2": ()}


def test_a_run_of_another_task_is_refused(task: Task, tmp_path: Path) -> None:
    path = tmp_path / "other.trec"
    path.write_text("7 Q0 d1 1 2.0 t\n")

    with pytest.raises(DataError) as caught:
        ranked(first_stage({"candidates": str(path)}), task)

    assert str(caught.value) == (
        f"candidates of task 'NanoTiny': no query in common: {path} starts with '7', the task's queries with 'q1'"
    )


def test_candidates_of_three_columns_are_ranks_and_never_scores(task: Task, tmp_path: Path) -> None:
    path = tmp_path / "own.tsv"
    path.write_text("q1\td1\t2\nq1\td2\t1\n")
    assert ranked(first_stage({"candidates": str(path)}), task)["q1"] == ["d2", "d1"]

    path.write_text("q1\td1\t12.5\n")
    with pytest.raises(DataError, match=r"own\.tsv:1: query 'q1', document 'd1' has rank '12\.5'"):
        ranked(first_stage({"candidates": str(path)}), task)


@pytest.mark.parametrize(("ignore", "kept"), [(None, ["q1", "d2"]), (False, ["q1", "d2"]), (True, ["d2"])])
def test_ignore_identical_ids_holds_for_lists_too(tmp_path: Path, ignore: bool | None, kept: list[str]) -> None:
    source = write_nano(
        tmp_path / "own",
        documents={"q1": "cat", "d2": "dog", "d4": "fish"},
        harrier_oss_v1_270m={"q1": ["q1", "d2"], "q2": ["d2"], "q3": ["d4"]},
        qrels=[("q1", "d2"), ("q2", "d2"), ("q3", "d4")],
    )
    task = load_task(source, ArtifactStore(str(tmp_path / "store")), documents_per_shard=3)
    found, default = (
        first_stage({"candidates": "dense"}, ignore_identical_ids=setting) for setting in (ignore, None)
    )

    assert ranked(found, task)["q1"] == kept
    assert (found.inputs(task, "cpu") == default.inputs(task, "cpu")) is (ignore is not True)
    assert found.settings()["drop_identical_ids"] is bool(ignore)


def test_other_lists_are_another_run(task: Task, tmp_path: Path) -> None:
    kept, dropped = (first_stage({"candidates": "dense", "safeguard": choice}) for choice in ("keep", "drop"))

    before = kept.inputs(task, "cpu")
    assert before != dropped.inputs(task, "cpu")
    write_nano(tmp_path / "set", harrier_oss_v1_270m={**DENSE, "q1": ["d3"]})
    assert before != kept.inputs(task, "cpu")


@pytest.mark.parametrize(
    ("retriever", "message"),
    [
        ({"candidates": "dens"}, "candidates 'dens': no file. Did you mean 'dense'"),
        ("candidates", "candidates None: no file. Known by name: bm25, dense, reranking_hybrid"),
        ({"candidates": "dense", "k1": 2}, "leave out `k1`. 'candidates' is a list of candidates"),
        ({"model": "bm25", "safeguard": "drop"}, "leave out `safeguard`. 'bm25' is BM25"),
    ],
)
def test_wrong_settings_are_refused(retriever: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        first_stage(retriever)


def test_a_depth_that_cuts_off_kept_safeguards_is_refused() -> None:
    keep, drop = ({"candidates": "reranking_hybrid", "safeguard": choice} for choice in ("keep", "drop"))
    shallow = {"name": "s", "retriever": keep, "reranker": {"model": "maxsim-minilm", "depth": 100}}

    assert first_stage(drop, depth=100).keep == 100
    with pytest.raises(ConfigError, match="system 's': depth 100 cuts off the safeguards, which are at rank 101"):
        first_stage(keep, depth=100)
    with pytest.raises(ConfigError, match="set `depth: 101`, or `safeguard: drop`"):
        first_stage(keep, systems=[shallow])


def test_bm25_stages_with_other_analyzers_share_no_terms(task: Task) -> None:
    values = {"name": "b", "tasks": ["Demo-Posts"]}
    systems = [{"name": name, "retriever": name} for name in ("bm25", "bm25-nano")]
    lucene, nano = (
        system.first_stages[0] for system in resolve(parse_config({**values, "systems": systems})).systems
    )

    assert lucene.artifact_group != nano.artifact_group
    keys = [
        {found.shard_key(task.name, task.corpus, shard, "cpu").name for shard in task.corpus.shards}
        for found in (lucene, nano)
        if isinstance(found, LexicalFirstStage)
    ]
    assert len(keys) == 2
    assert keys[0].isdisjoint(keys[1])
