"""Every name of a benchmark file is looked up before anything starts."""

from typing import Any

import pytest

from r2med_ray.corpora import Corpus
from r2med_ray.errors import ConfigError
from r2med_ray.first_stages.lexical import LexicalFirstStage
from r2med_ray.first_stages.vectors import DenseFirstStage
from r2med_ray.settings.config_files import parse_config
from r2med_ray.systems import resolve
from r2med_ray.types import Task

BM25 = {"name": "b", "retriever": "bm25"}
MINILM = {"name": "m", "retriever": "all-MiniLM-L6-v2"}
TASK = Task(
    name="t", suite="t", revision="1", corpus=Corpus(key="c", digest="d", shards=()), queries=(), qrels={}, folder=""
)


def config(*systems: dict[str, Any], **changes: object) -> Any:
    return parse_config({"name": "x", "tasks": ["Demo-Posts"], "systems": list(systems), **changes})


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        pytest.param(
            config(BM25, tasks=["Demo-Post"]), r"unknown task 'Demo-Post'\. Did you mean 'Demo-Posts'", id="task"
        ),
        pytest.param(config(BM25, tasks=["R2MED/Bio"]), r"'Bio'\. Did you mean 'Biology'", id="task-of-a-suite"),
        pytest.param(
            config({**BM25, "retriever": "bm52"}), r"retriever 'bm52'\. Did you mean 'bm25'", id="retriever"
        ),
        pytest.param(config(BM25, measures=["nDCG@10", "nDGC@5"]), r"nDGC@5", id="measure"),
        pytest.param(
            config({**BM25, "reranker": {"model": "maxsim"}}),
            r"reranker 'maxsim'\. Did you mean 'maxsim-minilm'",
            id="reranker",
        ),
        *(
            pytest.param(
                config({**BM25, "rewriter": {"method": "hide", **writer}}),
                r"system 'b': unknown rewriting method 'hide'\. Did you mean 'hyde'",
                id=f"method-{next(iter(writer))}",
            )
            for writer in ({"generations": "gpt4"}, {"llm": "gpt4"}, {"agent": {"retriever": "bm25"}, "llm": "gpt4"})
        ),
        pytest.param(
            config({**BM25, "retriever": {"model": "bm25", "max_length": 9}}),
            r"leave out `max_length`",
            id="bm25",
        ),
        pytest.param(
            config({**MINILM, "retriever": {"model": "all-MiniLM-L6-v2", "k1": 1}}),
            r"leave out `k1`",
            id="encoder",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_the_nearest_name(wrong: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve(wrong)


def test_a_setting_beside_a_name_overrides_its_row() -> None:
    retriever = {"model": "bm25", "k1": 1.5, "b": 0.75}
    first_stage = resolve(config({**BM25, "retriever": retriever})).systems[0].first_stages[0]

    assert isinstance(first_stage, LexicalFirstStage)
    assert (first_stage.row.k1, first_stage.row.b) == (1.5, 0.75)


@pytest.mark.parametrize(
    ("changes", "lexical", "dense"),
    [
        ({}, False, False),
        ({"compat": "r2med"}, False, True),
        ({"ignore_identical_ids": True}, True, True),
        ({"compat": "r2med", "ignore_identical_ids": False}, False, False),
    ],
)
def test_si01_identical_ids_are_dropped_where_the_protocol_or_the_file_says_so(
    changes: dict[str, object], lexical: bool, dense: bool
) -> None:
    systems = resolve(config(BM25, MINILM, **changes)).systems

    assert [system.first_stages[0].drop_identical_ids for system in systems] == [lexical, dense]


@pytest.mark.parametrize(
    "changes",
    [
        {"retriever": {"model": "all-MiniLM-L6-v2", "max_length": 128}},
        {"retriever": {"model": "all-MiniLM-L6-v2", "dtype": "float16"}},
        {"retriever": {"model": "all-MiniLM-L6-v2", "index": "IVF4,Flat"}},
        {"compat": "r2med"},
    ],
)
def test_en11_every_setting_of_an_encoder_is_part_of_a_runs_key(changes: dict[str, object]) -> None:
    [plain], [changed] = (resolve(config(system)).systems for system in (MINILM, {**MINILM, **changes}))

    assert plain.first_stages[0].inputs(TASK, "cpu") != changed.first_stages[0].inputs(TASK, "cpu")


def test_a_system_reads_as_the_flow() -> None:
    system = {
        "name": "s",
        "rewriter": {"method": "hyde", "generations": "gpt4"},
        "retrievers": ["bm25", "all-MiniLM-L6-v2"],
        "fusion": {"method": "rrf"},
        "reranker": {"model": "maxsim-minilm", "depth": 20},
    }

    assert (
        resolve(config(system)).systems[0].describe() == "hyde/gpt4 → rrf(bm25, all-MiniLM-L6-v2) → maxsim-minilm@20"
    )


@pytest.mark.parametrize(
    ("system", "compat", "key"),
    [
        pytest.param({**BM25, "retriever": "bm25-r2med"}, "r2med", "bm25", id="bm25"),
        pytest.param({**BM25, "retriever": "bge-large-en-v1.5"}, "r2med", "bge", id="bge"),
        pytest.param(
            {**BM25, "retriever": "bge-large-en-v1.5"}, "none", "BAAI/bge-large-en-v1.5", id="mteb-without-compat"
        ),
        pytest.param({**BM25, "retriever": {"model": "bm25-r2med", "k1": 1.2}}, "r2med", None, id="changed"),
        pytest.param(BM25, "r2med", None, id="another-bm25"),
        pytest.param(MINILM, "r2med", None, id="never-published"),
    ],
)
def test_a_system_is_compared_only_with_the_record_of_the_same_system(
    system: dict[str, object], compat: str, key: str | None
) -> None:
    published = resolve(config(system, compat=compat)).systems[0].published_key

    assert (published and published["retriever"]) == key


def test_stages_that_need_the_same_vectors_share_them() -> None:
    one, other = resolve(config(MINILM, {**MINILM, "name": "n", "compat": "r2med"})).systems
    first, second = one.first_stages[0], other.first_stages[0]

    assert isinstance(first, DenseFirstStage)
    assert first.artifact_group == second.artifact_group


def test_a_reranker_is_used_as_its_systems_compat_says() -> None:
    # R2MED's code loads this reranker in float32. By default the device decides the type.
    reranked = {**BM25, "reranker": {"model": "bge-reranker-v2-m3"}}
    published, ours = resolve(config({**reranked, "compat": "r2med"}, {**reranked, "name": "ours"})).systems

    assert [scorer.dtype for scorer in (*published.scorers, *ours.scorers)] == ["float32", "auto"]


@pytest.mark.parametrize(
    ("system", "concerned"),
    [
        pytest.param({"retriever": "bm25"}, {"bm25-cut"}, id="terms"),
        pytest.param({"retriever": "all-MiniLM-L6-v2"}, {"cosine-for-all"}, id="vectors"),
        pytest.param({"retriever": "voyage-3"}, {"cosine-for-all", "api-inputs"}, id="service"),
        pytest.param(
            {"retriever": "bm25", "rewriter": {"method": "hyde", "generations": "gpt4"}},
            {"bm25-cut", "bm25-rewrite", "missing-marker"},
            id="rewriter",
        ),
        pytest.param(
            {"retriever": "bm25", "reranker": {"model": "maxsim-minilm"}}, {"bm25-cut", "rerank-rest"}, id="reranker"
        ),
        pytest.param(
            {"retrievers": ["bm25", "all-MiniLM-L6-v2"], "fusion": {}}, {"bm25-cut", "cosine-for-all"}, id="fusion"
        ),
    ],
)
def test_the_differences_in_force_are_those_of_a_systems_parts(system: dict[str, Any], concerned: set[str]) -> None:
    # each of these differences concerns one part or one pair of parts
    own = {"bm25-cut", "cosine-for-all", "api-inputs", "bm25-rewrite", "missing-marker", "rerank-rest"}
    published, ours = resolve(config({"name": "r", "compat": "r2med", **system}, {"name": "o", **system})).systems

    in_force = {row.id for row in published.differences}

    assert in_force & own == concerned
    assert ours.differences == ()


def test_how_a_corpus_is_read_is_a_rule_of_the_whole_benchmark() -> None:
    system = {"name": "r", "retriever": "bm25", "compat": "r2med"}
    values = {"name": "x", "tasks": ["Demo-Posts"], "systems": [system]}
    alone = resolve(parse_config(values))
    whole = resolve(parse_config(values | {"compat": "r2med"}))

    assert "conflicting-texts" not in {row.id for row in alone.systems[0].differences}
    assert "conflicting-texts" in {row.id for row in whole.systems[0].differences}
    assert (alone.on_conflict, whole.on_conflict) == ("error", "last")


def test_a_rule_that_the_file_overrides_is_not_said_to_be_in_force() -> None:
    system = {"name": "r", "retriever": "all-MiniLM-L6-v2", "compat": "r2med"}
    values = {"name": "x", "tasks": ["Demo-Posts"], "systems": [system]}
    [left], [said] = (resolve(parse_config(values | more)).systems for more in ({}, {"ignore_identical_ids": False}))

    assert "identical-ids" in {row.id for row in left.differences}
    assert "identical-ids" not in {row.id for row in said.differences}


def test_a_limit_on_answers_is_refused_for_a_reranker_that_writes_none() -> None:
    system = {"name": "x", "retriever": "bm25", "reranker": {"model": "maxsim-minilm", "max_unusable": 0.2}}
    values = {"name": "x", "tasks": ["Demo-Posts"], "systems": [system]}

    with pytest.raises(ConfigError, match=r"'x'.*'maxsim-minilm' writes no texts.*`max_unusable: 0.2`"):
        resolve(parse_config(values))
