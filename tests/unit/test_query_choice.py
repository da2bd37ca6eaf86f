"""A benchmark file may ask some queries: with the figures that they have among all, and from stored vectors."""

from pathlib import Path

import pytest
import yaml

from r2med_ray.corpus.query_subsets import choices_of
from r2med_ray.errors import ConfigError
from r2med_ray.first_stages import query_blocks
from r2med_ray.reporting.notes import warnings
from r2med_ray.reporting.record import BenchmarkRecord
from r2med_ray.settings.config_files import load_with, parse_config
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.systems import resolve
from r2med_ray.workbench.bench import open_workbench
from r2med_ray.workbench.plan import make_plan
from tests.unit.corpus_files import QUERIES, write_jsonl, write_r2med
from tests.unit.tasks import run_in

SYSTEMS = [
    {"name": "minilm", "retriever": "all-MiniLM-L6-v2"},
    {"name": "tokens", "retriever": "minilm-tokens"},
    {"name": "hyde", "retriever": "bm25", "rewriter": {"method": "hyde", "generations": "writer"}},
    {"name": "published", "retriever": "bm25-r2med", "compat": "r2med"},
]


def file_of(folder: Path, **keys: object) -> Path:
    """Write a collection of six documents and three queries with generated texts, and a benchmark file for it."""
    write_r2med(folder / "tiny")
    texts = folder / "tiny" / "hyde" / "writer"
    texts.mkdir(parents=True, exist_ok=True)
    rows = [{"id": query_id, "text": text, "hy_doc": f"a {text}"} for query_id, text in QUERIES.items()]
    write_jsonl(texts / "query_with_hydoc.jsonl", rows)
    values = {"name": "a", "tasks": [{"name": "Tiny", "path": "tiny"}], "systems": SYSTEMS, **keys}
    (folder / "a.yaml").write_text(yaml.safe_dump(values))
    return folder / "a.yaml"


def run(folder: Path, **keys: object) -> BenchmarkRecord:
    """Run the systems in this process, with `queries` as given."""
    return run_in(folder, load_with(resolve, file_of(folder, **keys)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("choice")


@pytest.fixture(scope="module")
def whole(folder: Path) -> BenchmarkRecord:
    return run(folder)


@pytest.mark.parametrize(
    ("queries", "expected"),
    [
        pytest.param(2, 2, id="number"),
        pytest.param(["q3", "q1"], {"q1", "q3"}, id="ids"),
        pytest.param({"Tiny": ["q2"]}, {"q2"}, id="ids-of-a-task"),
    ],
)
def test_some_queries_have_the_figures_that_they_have_among_all_and_their_vectors_are_not_made_again(
    queries: object, expected: int | set[str], folder: Path, whole: BenchmarkRecord
) -> None:
    part = run(folder, queries=queries)

    for of_part, of_all in zip(part.results, whole.results, strict=True):
        every = of_all.evaluation.per_query
        chosen = set(list(every)[:expected]) if isinstance(expected, int) else expected
        assert of_part.evaluation.per_query == {query_id: every[query_id] for query_id in every if query_id in chosen}
        assert set(of_part.run.rankings) == chosen
        assert of_part.run.rankings == {query_id: of_all.run.rankings[query_id] for query_id in chosen}
    encoded = [stage for stage in part.stages if stage.stage == "encode" and stage.documents]
    assert encoded == []
    store = ArtifactStore(str(folder / "store"))
    for kind in ("query-vectors", "query-token-vectors"):
        assert any("taken_from" in artifact.attributes for artifact in store.all(kind)), store.names()


def test_vectors_are_taken_from_all_blocks_of_the_whole_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_blocks, "MOST_QUERIES", 2)
    whole = run(tmp_path)

    part = run(tmp_path, queries=["q3", "q1"])  # of two blocks

    assert [stage for stage in part.stages if stage.stage == "encode" and stage.documents] == []
    for of_whole, of_part in zip(whole.results, part.results, strict=True):
        assert of_part.run.rankings == {query_id: of_whole.run.rankings[query_id] for query_id in ("q1", "q3")}


def test_the_report_says_it_and_compares_with_nothing_published(folder: Path, whole: BenchmarkRecord) -> None:
    part = run(folder, queries=2)

    told = "only 2 of 3 queries were asked, as `queries` of the benchmark file says"
    assert any(told in warning for warning in warnings(part))
    assert not any(told in warning for warning in warnings(whole))
    assert part.tasks[0].counts["queries"] == 2
    assert [system.published_key is None for system in whole.systems] == [True, True, True, False]
    assert all(system.published_key is None for system in part.systems)


def test_a_number_above_all_queries_is_the_whole_task(folder: Path, whole: BenchmarkRecord) -> None:
    assert run(folder, queries=99).tasks == whole.tasks


def test_an_id_that_the_task_lacks_names_the_nearest_before_anything_is_made(tmp_path: Path) -> None:
    benchmark = load_with(resolve, file_of(tmp_path, queries=["q1", "q33"]))

    with (
        open_workbench(tmp_path / "store", names=benchmark.names, only_to_plan=True) as bench,
        pytest.raises(ConfigError, match=r"^queries: task 'Tiny' has no query 'q33'. Did you mean 'q3'\?$"),
    ):
        make_plan(benchmark, bench.store, bench.runner)


def test_a_plan_says_how_many_queries_are_asked(tmp_path: Path) -> None:
    benchmark = load_with(resolve, file_of(tmp_path, queries={"Tiny": 2}))

    with open_workbench(tmp_path / "store", names=benchmark.names, only_to_plan=True) as bench:
        assert "; 2 of 3 queries" in make_plan(benchmark, bench.store, bench.runner).text()


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        (("1",), r"queries: ids need a task, because there are 2, e.g. \{Biology: \[ID, ID\]\}"),
        ({"Biolgy": 2}, r"queries: no task 'Biolgy'. Did you mean 'Biology'\? Known: Biology, MedQA-Diag"),
    ],
)
def test_a_choice_that_fits_no_task_is_refused(queries: object, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{message}$"):
        choices_of(queries, ["Biology", "MedQA-Diag"])


def test_ids_that_yaml_reads_as_numbers_are_texts() -> None:
    values = {"name": "a", "tasks": ["Demo-*"], "systems": SYSTEMS, "queries": {"Demo-Posts": [1, "2"]}}

    assert parse_config(values).queries == {"Demo-Posts": ("1", "2")}


@pytest.mark.parametrize("queries", [0, [], {"Tiny": 0}])
def test_a_choice_of_nothing_is_refused(queries: object) -> None:
    with pytest.raises(ConfigError, match="queries"):
        parse_config({"name": "a", "tasks": ["Demo-*"], "systems": SYSTEMS, "queries": queries})
