"""A typo in a benchmark file stops the benchmark before it starts, and the error says what would be right."""

from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from r2med_ray.errors import ConfigError
from r2med_ray.settings.config import BenchmarkConfig, FusionConfig, TaskConfig
from r2med_ray.settings.config_files import find_place, load_config, load_with, parse_config
from r2med_ray.settings.resources import LanguageModelResources
from r2med_ray.settings.retriever import RetrieverConfig
from r2med_ray.systems import resolve
from tests.unit.corpus_files import BENCHMARK_FILES

VALID: dict[str, Any] = {"name": "x", "tasks": ["Demo-*"], "systems": [{"name": "b", "retriever": "bm25"}]}


def with_system(**system: object) -> dict[str, Any]:
    return {**VALID, "systems": [{"name": "b", "retriever": "bm25", **system}]}


def test_a_name_alone_is_a_retriever() -> None:
    assert parse_config(VALID).systems[0].first_stages[0].model == "bm25"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        pytest.param({**VALID, "sytems": []}, r"sytems: unknown key\. Did you mean 'systems'\?", id="top"),
        pytest.param(with_system(retriver="x"), r"systems\.0\.retriver: .* 'retriever'\?", id="in-a-system"),
        pytest.param(
            {**VALID, "resources": {"encode": {"actor": 2}}}, r"resources\.encode\.actor: .* 'actors'\?", id="nested"
        ),
        pytest.param(with_system(compat="r2m"), r"systems\.0\.compat: .* got 'r2m'", id="value"),
        pytest.param({**VALID, "depth": 0}, r"depth: .*greater than or equal to 1, got 0", id="range"),
        pytest.param(with_system(name="a b"), r"systems\.0\.name: .* got 'a b'", id="white-space-in-a-run-tag"),
        pytest.param({**VALID, "systems": VALID["systems"] * 2}, r"two systems are called 'b'", id="two-of-one-name"),
        pytest.param({**VALID, "baseline": "c"}, r"baseline 'c' is none of .* Known: b", id="baseline"),
        pytest.param(
            {**VALID, "measures": ["nDGC@10", "RR"]},
            r"`measures` lacks nDCG@10, the main measure unless `main_measure` names another\. It has nDGC@10, RR",
            id="no main measure",
        ),
        pytest.param(
            {**VALID, "main_measure": "ndcg@10"},
            r"main_measure 'ndcg@10' is not among `measures`\. Did you mean 'nDCG@10'\?",
            id="main-measure",
        ),
        pytest.param(with_system(retrievers=["a", "b"]), r"either `retriever: NAME` or", id="both"),
        pytest.param(
            with_system(fusion={"method": "rrf"}), r"give `retrievers` and `fusion` together", id="fusion-of-one"
        ),
        pytest.param(
            {**VALID, "systems": [{"name": "h", "retrievers": ["a", "b"], "fusion": {"weights": [1]}}]},
            r"1 weights for 2 retrievers",
            id="weights",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_place(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_config(values)


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({**VALID, "tasks": "Demo-*"}, "tasks: should be a list, got 'Demo-*'"),
        ({**VALID, "tasks": []}, "tasks: should name at least one"),
        ({**VALID, "tasks": [5]}, "tasks.0: should be a text or keys and values, e.g. `path: ...`, got 5"),
        ({**VALID, "systems": {}}, "systems: should be a list, got keys and values"),
        ({**VALID, "depth": "many"}, "depth: should be a whole number, got 'many'"),
        ({**VALID, "name": "a b"}, "name: should be letters, digits, `_`, `.` and `-`, got 'a b'"),
        ({**VALID, "name": None}, "name: should be a text, got nothing"),
        ({**VALID, "ignore_identical_ids": "maybe"}, "ignore_identical_ids: should be true or false, got 'maybe'"),
        (with_system(reranker={"depth": 3}), "systems.0.reranker.model: is missing"),
        (
            with_system(reranker={"model": "a"}, rerankers=[{"model": "a"}]),
            "systems.0: give either `reranker: {…}` or `rerankers: [{…}, {…}]`",
        ),
        (
            with_system(rerankers=[{"model": "a", "depth": 3}, {"model": "b", "depth": 4}]),
            "systems.0: rerankers: b has depth 4, and a before it 3: a cascade goes from deep to shallow",
        ),
        (
            with_system(rewriter="hyde"),
            "systems.0.rewriter: should be keys and values, e.g. `method: ...`, got 'hyde'",
        ),
        (
            with_system(compat="r2m"),
            "systems.0.compat: should be 'none' or 'r2med', got 'r2m'. Did you mean 'r2med'?",
        ),
        (
            {**VALID, "resources": {"encode": {"actors": "many"}}},
            "resources.encode.actors: should be a whole number or 'auto', got 'many'",
        ),
    ],
)
def test_what_is_wrong_is_one_line_in_the_words_of_the_file(values: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_config(values, source="b.yaml")

    assert str(raised.value) == f"b.yaml:\n  {line}"


AGENT = {"method": "search-r1", "llm": "m", "agent": {"retriever": {"model": "bm25", "xyz": 1}}}


@pytest.mark.parametrize(
    ("values", "section", "model"),
    [
        ({**VALID, "tasks": [{"path": "p", "name": "n", "xyz": 1}]}, "tasks.0", TaskConfig),
        (with_system(retriever={"model": "bm25", "xyz": 1}), "systems.0.retriever", RetrieverConfig),
        (with_system(fusion={"xyz": 1}), "systems.0.fusion", FusionConfig),
        (with_system(rewriter=AGENT), "systems.0.rewriter.agent.retriever", RetrieverConfig),
        (
            {**VALID, "resources": {"language_model": {"xyz": 1}}},
            "resources.language_model",
            LanguageModelResources,
        ),
    ],
)
def test_an_unknown_key_is_answered_with_the_keys_of_its_own_section(
    values: dict[str, Any], section: str, model: type[BaseModel]
) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_config(values, source="b.yaml")

    known = ", ".join(sorted(model.model_fields))
    assert str(raised.value) == f"b.yaml:\n  {section}.xyz: unknown key. Known: {known}"


class Leaf(BaseModel):
    model_config = ConfigDict(extra="forbid")

    number: int = 0


class Other(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: str


class Sections(BaseModel):
    """A model that holds sections in every possible way."""

    plain: Leaf = Leaf()
    optional: Leaf | None = None
    listed: tuple[Leaf, ...] = ()
    named: dict[str, Leaf] = Field(default_factory=dict)
    short: Annotated[Leaf, BeforeValidator(lambda value: value)] | None = None
    either: Annotated[Leaf | Other | int | Literal["auto"] | None, Field(description="x")] = None
    shorts: list[Annotated[Leaf, BeforeValidator(lambda value: value)] | str] = []


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"plain": {"x": 1}}, [(("plain",), [Leaf])]),
        ({"optional": {"x": 1}}, [(("optional",), [Leaf])]),
        ({"listed": [{}, {"x": 1}]}, [(("listed", 1), [Leaf])]),
        ({"named": {"int": {"x": 1}}}, [(("named", "int"), [Leaf])]),
        ({"short": {"x": 1}}, [(("short",), [Leaf])]),
        # pydantic tries both models, and the key is wrong in both.
        ({"either": {"x": 1}}, [(("either",), [Leaf]), (("either",), [Other])]),
        # pydantic's name for this case doesn't show that the model was tried, because of the validator.
        ({"shorts": ["a", {"x": 1}]}, [(("shorts", 1), [Leaf, str])]),
    ],
)
def test_a_section_is_found_in_the_annotations_however_a_model_holds_it(
    values: dict[str, Any], found: list[tuple[tuple[int | str, ...], list[type]]]
) -> None:
    with pytest.raises(ValidationError) as raised:
        Sections.model_validate(values)

    unknown = [problem["loc"] for problem in raised.value.errors() if problem["type"] == "extra_forbidden"]
    assert [find_place(Sections, location[:-1]) for location in unknown] == found


def test_all_problems_are_listed_at_once() -> None:
    with pytest.raises(ConfigError, match=r"(?s)sytems.*depth"):
        parse_config({**VALID, "sytems": 1, "depth": "many"})


def write(folder: Path, **changes: object) -> Path:
    path = folder / "benchmark.yaml"
    path.write_text(yaml.safe_dump({**VALID, **changes}))
    return path


@pytest.mark.parametrize(
    ("override", "read"),
    [
        pytest.param("depth=10", lambda config: config.depth == 10, id="number"),
        pytest.param("resources.encode.actors=3", lambda config: config.resources.encode.actors == 3, id="dotted"),
        pytest.param("tasks=[A, B]", lambda config: config.tasks == ("A", "B"), id="list"),
        pytest.param("systems.0.name=c", lambda config: config.systems[0].name == "c", id="position"),
    ],
)
def test_an_override_is_yaml_under_a_dotted_key(tmp_path: Path, override: str, read: Any) -> None:
    assert read(load_config(write(tmp_path), [override]))


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("depth", "expected key=value"),
        ("systems.4.name=x", "'4' is no position in a list of 1"),
        ("tasks=[", "--set 'tasks=\\[': the value is no YAML"),
        ("systems.0.retriever={model: bm25, k1: .inf}", "should be a finite number"),
        ("name.x=1", "'name' holds 'x', which has no keys"),
        ("resources.encod.actors=1", "Did you mean 'encode'"),
    ],
)
def test_an_override_that_fits_nothing_is_refused(tmp_path: Path, override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(write(tmp_path), [override])


def test_a_file_that_is_no_mapping_is_refused(tmp_path: Path) -> None:
    (tmp_path / "b.yaml").write_text("- a\n")
    with pytest.raises(ConfigError, match=r"b\.yaml: expected keys like `name:`"):
        load_config(tmp_path / "b.yaml")


def test_rows_of_ones_own_are_found_beside_the_file(tmp_path: Path) -> None:
    assert load_config(write(tmp_path, models="mine.yaml")).models == str(tmp_path / "mine.yaml")


@pytest.mark.parametrize(
    ("rewriter", "message"),
    [
        ("{method: hyde, llm: m, generations: m}", "give either `llm: MODEL` or `generations: NAME`, not both"),
        ("{method: hyde, generations: m, samples: 2}", "`samples` is a setting for texts that a model has to write"),
        ("{method: hyde, llm: m, base_url: host:80}", "systems.0.rewriter.base_url"),
        ("{method: lamer, llm: m, candidates: {retriver: bm25}}", "Did you mean 'retriever'"),
    ],
)
def test_a_rewriter_that_makes_no_sense_is_refused(tmp_path: Path, rewriter: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config(write(tmp_path), [f"systems.0.rewriter={rewriter}"])


def test_a_rewriter_has_a_writer_either_way(tmp_path: Path) -> None:
    live = load_config(write(tmp_path), ["systems.0.rewriter={method: lamer, llm: m, candidates: {retriever: bm25}}"])
    replayed = load_config(write(tmp_path), ["systems.0.rewriter={method: hyde, generations: gpt4}"])

    rewriters = [config.systems[0].rewriter for config in (live, replayed)]
    assert [rewriter and rewriter.writer for rewriter in rewriters] == ["m", "gpt4"]


@pytest.mark.parametrize("path", BENCHMARK_FILES, ids=lambda path: path.name)
def test_every_shipped_benchmark_file_is_valid(path: Path) -> None:
    assert isinstance(load_config(path), BenchmarkConfig)


@pytest.mark.parametrize("path", BENCHMARK_FILES, ids=lambda path: path.stem)
def test_a_configuration_that_was_written_out_in_full_is_the_same_when_it_is_read(path: Path) -> None:
    config = load_config(path)

    assert parse_config(config.model_dump(mode="json")) == config


def test_an_address_with_a_secret_in_it_is_refused_and_not_repeated() -> None:
    rewriter = {"method": "hyde", "llm": "m", "base_url": "https://me:hunter2@host/v1"}

    with pytest.raises(ConfigError, match=r"systems\.0\.rewriter: `base_url` should be scheme") as refused:
        parse_config(with_system(rewriter=rewriter))

    assert "hunter2" not in str(refused.value)


def test_every_fault_of_a_file_is_told_at_once(tmp_path: Path) -> None:
    values = {
        "name": "x",
        "tasks": ["Demo-Post", "Demo-Cases", {"path": "nowhere", "name": "Mine"}],
        "baselin": "a",
        "measures": ["nDCG@10", "RX", "R@ten"],
        "systems": [
            {"name": "a", "retriever": "bm26"},
            {"name": "b", "retriever": "bm25", "rewriter": {"method": "hyde", "samples": 0}},
            {"name": "c", "retriever": "bm25", "reranker": {"model": "maxsim-minilmm"}},
        ],
    }
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(values))

    with pytest.raises(ConfigError) as caught:
        load_with(resolve, tmp_path / "a.yaml")

    head, *lines = str(caught.value).splitlines()
    assert head == f"{tmp_path / 'a.yaml'}:"
    starts = [
        "  systems.1.rewriter.samples: should be greater than or equal to 1, got 0",
        "  baselin: unknown key. Did you mean 'baseline'?",
        "  unknown measure 'RX'",
        "  unknown measure 'R@ten'",
        "  unknown task 'Demo-Post'. Did you mean 'Demo-Posts'?",
        "  system 'a': unknown retriever 'bm26'. Did you mean 'bm25'?",
        "  system 'c': unknown reranker 'maxsim-minilmm'. Did you mean 'maxsim-minilm'?",
        f"  task 'Mine': {tmp_path}/nowhere is no folder",
    ]
    assert len(lines) == len(starts)
    for line, start in zip(lines, starts, strict=True):
        assert line.startswith(start), line


def test_what_names_a_task_with_a_fault_is_no_fault_of_its_own(tmp_path: Path) -> None:
    values = {
        "name": "x",
        "tasks": ["Demo-Cases", {"path": str(tmp_path), "name": "Mine", "layuot": "beir"}],
        "hard_negatives": [{"task": "Mine"}],
        "queries": {"Mine": 1},
        "systems": [{"name": "a", "retriever": "bm25"}],
    }
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(values))

    with pytest.raises(ConfigError, match=r"^[^\n]*a\.yaml:\n  tasks\.1\.layuot: unknown key[^\n]*$"):
        load_with(resolve, tmp_path / "a.yaml")


def test_a_fault_that_leaves_no_benchmark_is_told_alone(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(yaml.safe_dump({**VALID, "name": "a b"}))

    with pytest.raises(ConfigError, match=r"^[^\n]*a\.yaml:\n  name: should be letters, [^\n]*$"):
        load_with(resolve, tmp_path / "a.yaml")
