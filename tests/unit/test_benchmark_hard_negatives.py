"""A benchmark with hard negatives: `base` is a plain benchmark, and the conditions are measured beside it."""

import json
from pathlib import Path
from typing import Any

import pytest

from r2med_ray.corpus.catalog import PACKAGE
from r2med_ray.errors import ConfigError, DataError
from r2med_ray.reporting.page import render_page
from r2med_ray.reporting.record import BenchmarkRecord
from r2med_ray.reporting.summary import Summary, summarise
from r2med_ray.reporting.tables import leaderboard_markdown
from r2med_ray.reporting.write import load_results, write_report
from r2med_ray.settings.config_files import parse_config
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.jsonl import read_jsonl
from r2med_ray.systems import resolve
from r2med_ray.workbench.bench import open_workbench
from r2med_ray.workbench.plan import make_plan
from tests.unit.corpus_files import write_jsonl
from tests.unit.tasks import run_in

KINDS = ["another entity", "contradicting", "mimic", "wrong question"]
WITH = {"task": "Demo-Evidence", "conditions": ["own", "all", "all-reindexed", "pairs"], "compat": "comp646"}
SYSTEMS = [{"name": "words", "retriever": "bm25"}, {"name": "other", "retriever": {"model": "bm25", "b": 0.9}}]


def run(folder: Path, *hard_negatives: dict[str, Any], **changes: Any) -> BenchmarkRecord:
    values = {
        "name": "x",
        "tasks": ["Demo-Evidence", "Demo-Cases"],
        "systems": SYSTEMS,
        "baseline": "words",
        "hard_negatives": list(hard_negatives),
        **changes,
    }
    return run_in(folder, resolve(parse_config(values)))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    return summarise(run(tmp_path_factory.mktemp("plain")))


@pytest.fixture(scope="module")
def fooled(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    return summarise(run(tmp_path_factory.mktemp("fooled"), WITH))


def test_base_has_the_run_files_and_the_leaderboard_of_a_plain_benchmark(
    tmp_path: Path, plain: Summary, fooled: Summary
) -> None:
    without, with_pack = (write_report(summary, tmp_path / name) for summary, name in ((plain, "a"), (fooled, "b")))

    runs = sorted(path.relative_to(without) for path in (without / "runs").rglob("*.trec"))
    assert len(runs) == 4
    for path in [*runs, Path("leaderboard.csv")]:
        assert (with_pack / path).read_bytes() == (without / path).read_bytes(), path
    assert len(list((with_pack / "runs").rglob("*.trec"))) == 4 + 2 * 4


def test_a_system_has_figures_in_every_condition(fooled: Summary) -> None:
    found = {(row.system, row.condition): row for row in fooled.hard_negatives}
    conditions = ["base", "own", "all", "all-reindexed", "pairs"]
    assert list(found) == [(system, condition) for condition in conditions for system in ("words", "other")]
    own, everything, pairs = (found["words", condition] for condition in ("own", "all", "pairs"))

    base = found["words", "base"].score
    assert base == fooled.record.results_of("words")["Demo-Evidence"].evaluation.means["nDCG@10"]
    for row in (own, everything):
        assert row.difference is not None
        assert row.difference.difference == pytest.approx(row.score - base, abs=1e-9)
    # With the statistics of the corpus, more documents can only push a positive down.
    assert everything.score <= own.score <= base
    assert not any(name.startswith("foreign") for name in own.values)
    # 15 queries with 5 of 75 passages each: 70 of 80 + 75 documents are foreign to a query.
    assert everything.values["foreign_hn_precision@10 chance"] == pytest.approx(70 / 155)
    assert list(pairs.by_kind) == KINDS
    assert 0 < pairs.values["pair_acc"] < 1
    # Each query has as many passages of each kind but mimics, of which it has two, so means weigh them so.
    weights = dict.fromkeys(KINDS, 1) | {"mimic": 2}
    assert sum(weights[kind] * found.values["pair_acc"] for kind, found in pairs.by_kind.items()) / 5 == (
        pytest.approx(pairs.values["pair_acc"], abs=1e-9)
    )
    assert list(everything.by_kind) == list(own.by_kind) == KINDS
    # The passages among the first 10 are of one kind each, so the kinds' precisions add up.
    assert sum(found.values["hn_precision@10"] for found in own.by_kind.values()) == pytest.approx(
        own.values["hn_precision@10"], abs=1e-9
    )
    assert not any("contrast" in name for name in pairs.values)
    assert {name.partition(":")[0] for name in everything.as_coded} == {
        "comp646, bm25 path",
        "comp646, dense path",
    }


def test_report_and_manifest_have_the_figures_and_a_report_is_made_again_from_its_files(
    tmp_path: Path, fooled: Summary
) -> None:
    folder = write_report(fooled, tmp_path / "x")

    stored = json.loads((folder / "manifest.json").read_text())
    assert [(row["system"], row["condition"]) for row in stored["hard_negatives"]] == [
        (row.system, row.condition) for row in fooled.hard_negatives
    ]
    assert summarise(load_results(folder)).hard_negatives == fooled.hard_negatives
    for text in (leaderboard_markdown(fooled), render_page(fooled)):
        for expected in (
            "Fooled most by",
            "Positives against hard negatives",
            "all-reindexed",
            "Each kind of hard negative alone",
            "for comparison only",
        ):
            assert expected in text.replace("\\", "")


def test_a_plain_benchmark_says_nothing_of_hard_negatives(plain: Summary) -> None:
    assert plain.hard_negatives == ()
    assert "ard negatives" not in leaderboard_markdown(plain) + render_page(plain)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"hard_negatives": [{"task": "Demo-Evidenc"}]},
            "task 'Demo-Evidenc' is not among `tasks`. Did you mean 'Demo-E",
        ),
        ({"hard_negatives": [{"task": "Demo-Cases"}] * 2}, "'Demo-Cases' comes twice"),
        ({"tasks": [{"path": ".", "name": "A+hn-all"}]}, r"tasks: 'A\+hn-all': '\+hn-' marks a condition"),
    ],
)
def test_settings_that_do_not_fit_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve(parse_config({"name": "x", "tasks": ["Demo-*"], "systems": SYSTEMS, **settings}))


def test_the_plan_names_the_conditions(tmp_path: Path) -> None:
    values = {"name": "x", "tasks": ["Demo-Evidence"], "systems": SYSTEMS, "hard_negatives": [WITH]}
    benchmark = resolve(parse_config(values))
    with open_workbench(tmp_path / "store", names=benchmark.names) as bench:
        text = make_plan(benchmark, bench.store, bench.runner).text()

    assert "Demo-Evidence+hn-all-reindexed" in text


def test_the_shipped_pack_has_five_passages_of_four_kinds_for_every_query() -> None:
    folder = PACKAGE / "demo" / "Demo-Evidence" / "hard_negatives"
    passages, labels = (
        [record.values for record in read_jsonl(folder / f"{name}.jsonl")] for name in ("passages", "labels")
    )
    queries = [record.values["id"] for record in read_jsonl(folder.parent / "query.jsonl")]

    assert all(40 <= len(passage["text"].split()) <= 120 and passage["synthetic"] for passage in passages)
    assert [label["doc_id"] for label in labels] == [passage["doc_id"] for passage in passages]
    for query_id in queries:
        kinds = [label["kind"] for label in labels if label["query_id"] == query_id]
        assert sorted(kinds) == sorted([*KINDS, "mimic"])


def test_whatever_terms_the_store_lacks_are_made_again_before_they_are_counted(tmp_path: Path) -> None:
    before = run(tmp_path, WITH)
    store = ArtifactStore(str(tmp_path / "store"))

    for lost in store.names_of("terms"):
        for name in [lost, *store.names_of("run")]:
            store.remove(name)
        assert [result.run for result in run(tmp_path, WITH).results] == [result.run for result in before.results]


def part_of_pack(folder: Path, *kept: tuple[str, str]) -> Path:
    """Write the demo's pack with the labels of some queries and kinds alone, and return its folder."""
    pack = PACKAGE / "demo" / "Demo-Evidence" / "hard_negatives"
    folder.mkdir()
    (folder / "passages.jsonl").write_bytes((pack / "passages.jsonl").read_bytes())
    labels = [record.values for record in read_jsonl(pack / "labels.jsonl")]
    write_jsonl(folder / "labels.jsonl", (each for each in labels if (each["query_id"], each["kind"]) in kept))
    return folder


def test_a_kind_that_no_asked_query_has_is_in_no_figure(tmp_path: Path) -> None:
    pack = part_of_pack(tmp_path / "pack", ("exam-01", "mimic"), ("exam-02", "contradicting"))
    wanted = {"task": "Demo-Evidence", "packs": [str(pack)], "conditions": ["pairs"]}

    found = summarise(run(tmp_path, wanted, queries={"Demo-Evidence": ["exam-01"]}))

    assert {kind for row in found.hard_negatives for kind in row.by_kind} == {"mimic"}
    [*told] = [warning for task in found.record.tasks for warning in task.warnings if "only 1 of 15" in warning]
    assert len(told) == 1


def test_labels_of_other_queries_than_the_asked_ones_are_refused_before_anything_is_searched(tmp_path: Path) -> None:
    pack = part_of_pack(tmp_path / "pack", ("exam-01", "mimic"))
    wanted = {"task": "Demo-Evidence", "packs": [str(pack)], "conditions": ["all"]}

    with pytest.raises(DataError, match=r"^none of the 1 queries with a positive has a hard negative of its own$"):
        run(tmp_path, wanted, queries={"Demo-Evidence": ["exam-02"]})

    assert not list(ArtifactStore(str(tmp_path / "store")).names_of("run"))
