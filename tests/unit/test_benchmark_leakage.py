"""Generated texts that hold judged passages, from a file of texts to the tables of a report."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from r2med_ray.benchmark import run_benchmark
from r2med_ray.corpus.sources import TaskSource
from r2med_ray.reporting.record import BenchmarkRecord
from r2med_ray.reporting.summary import summarise
from r2med_ray.reporting.tables import leaderboard_markdown
from r2med_ray.reporting.write import load_results, write_report
from r2med_ray.settings.config_files import parse_config
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.systems import resolve
from r2med_ray.types import Expansion, Query, Rewriting
from r2med_ray.workbench.bench import open_workbench
from r2med_ray.workbench.leaks import Leaks
from tests.unit.corpus_files import write_jsonl, write_r2med

SUBJECTS = ("fever", "rash", "cough", "pain")


def passage(subject: str) -> str:
    """Return a passage of 20 words."""
    return f"{subject} one two three four five six seven eight nine ten " + " ".join(
        f"{subject}{number}" for number in range(9)
    )


TEXTS = {
    "q-fever": passage("fever").upper(),  # the whole passage, in capitals
    "q-rash": " ".join(passage("rash").split()[:12]),  # 12 words of it
    "q-cough": f"It is said: {' - '.join(passage('cough').split()[3:16])}.",  # 13 words of it
    "q-pain": passage("fever"),  # the passage of another query
}


def source(folder: Path) -> TaskSource:
    """Four queries with a judged passage each, and 40 passages that are not judged."""
    written = write_r2med(
        folder,
        corpus=[(subject, passage(subject)) for subject in SUBJECTS]
        + [(f"other-{number}", f"another passage on {number}") for number in range(40)],
        queries=[(f"q-{subject}", f"why {subject}") for subject in SUBJECTS],
        qrels=[(f"q-{subject}", subject, 1) for subject in SUBJECTS],
    )
    rows = [{"id": query_id, "text": f"why {query_id[2:]}", "hy_doc": text} for query_id, text in TEXTS.items()]
    (folder / "hyde" / "gpt4").mkdir(parents=True)
    write_jsonl(folder / "hyde" / "gpt4" / "query_with_hydoc.jsonl", rows)
    return written


def run(folder: Path, **settings: Any) -> BenchmarkRecord:
    values = {
        "name": "x",
        "tasks": [{"path": str(source(folder / "data").folder), "layout": "r2med", "name": "Tiny"}],
        "systems": [
            {"name": "bm25", "retriever": "bm25"},
            {"name": "hyde", "retriever": "bm25", "rewriter": {"method": "hyde", "generations": "gpt4"}},
        ],
    }
    benchmark = resolve(parse_config({**values, **settings}))
    with open_workbench(folder / "store", names=benchmark.names, resources=benchmark.config.resources) as bench:
        return run_benchmark(benchmark, bench)


def test_planted_leaks_of_a_published_file_are_found_and_told_in_every_table(tmp_path: Path) -> None:
    record = run(tmp_path)
    plain, hyde = record.results

    assert plain.leakage is None
    assert hyde.leakage is not None
    assert (hyde.leakage.asked, hyde.leakage.leaked) == (tuple(TEXTS), ("q-fever", "q-cough"))
    assert (hyde.leakage.num_passages, hyde.leakage.num_random, hyde.leakage.seed) == (4, 4, 42)

    folder = write_report(summarise(record), tmp_path / "results")
    [row] = csv.DictReader((folder / "leakage.csv").open(newline=""))
    assert (row["Task"], row["System"], row["Queries with a text"], row["Leaking"]) == ("Tiny", "hyde", "4", "2")
    assert float(row["Leaking, %"]) == 0.5
    # q-pain finds the passage on fever first, which its text is; without q-fever and q-cough, the mean of nDCG@10 is
    # over q-rash, whose first document is right, and q-pain, whose passage has the query's word and comes second:
    # (1 + 1 / log2(3)) / 2 = 0.81546. With them, (3 + 0.63093) / 4 = 0.90773.
    assert float(row["nDCG@10"]) == pytest.approx(0.90773, abs=5e-6)
    assert float(row["nDCG@10 without them"]) == pytest.approx(0.81546, abs=5e-6)
    markdown = (folder / "leaderboard.md").read_text()
    assert "## Generated texts that hold judged passages\n" in markdown
    assert "| Tiny | hyde | 4 | 2 | 50.00 | 0.00 | 90.77 | 81.55 | 4 | 4 |" in markdown
    assert "Generated texts that hold judged passages" in (folder / "index.html").read_text()
    [_, entry] = json.loads((folder / "manifest.json").read_text())["results"]
    assert entry["leakage"]["leaked"] == ["q-fever", "q-cough"]
    assert load_results(folder).results[1].leakage == hyde.leakage


def test_a_report_without_generated_texts_has_no_such_table(tmp_path: Path) -> None:
    record = run(tmp_path, systems=[{"name": "bm25", "retriever": "bm25"}])
    folder = write_report(summarise(record), tmp_path / "results")

    assert not (folder / "leakage.csv").exists()
    assert "judged passages" not in leaderboard_markdown(summarise(record))


def test_a_text_that_leaks_nothing_but_another_ones_passage_is_told_by_chance(tmp_path: Path) -> None:
    # Four passages in all, so the passage that is drawn for a query is one of the three others.
    with open_workbench(tmp_path / "store") as bench:
        documents = {subject: passage(subject) for subject in SUBJECTS}
        queries = {f"q-{subject}": f"why {subject}" for subject in SUBJECTS}
        qrels = {f"q-{subject}": {subject: 1} for subject in SUBJECTS}
        task = bench.task("few", documents=documents, queries=queries, qrels=qrels)
        everything = tuple(Expansion(text=text, method="hyde") for text in documents.values())
        texts = [replace(query, expansions=everything) for query in task.queries]
        others = [
            replace(query, expansions=tuple(part for part in everything if query.text[4:] not in part.text))
            for query in task.queries
        ]
        seen = [Leaks(bench.store, 7).of(task, Rewriting(queries=tuple(each))) for each in (texts, others)]

    for found, leaked in zip(seen, (tuple(queries), ()), strict=True):
        assert found is not None
        assert (found.leaked, found.by_chance) == (leaked, tuple(queries))


def test_the_passages_of_a_query_depend_on_no_other_query_and_on_the_seed(tmp_path: Path) -> None:
    with open_workbench(tmp_path / "store") as bench:
        documents = {f"d{number}": f"passage {number}" for number in range(200)}
        queries = {str(number): f"query {number}" for number in range(3)}
        qrels = {name: {f"d{number}": 1 for number in range(5)} for name in queries}
        task = bench.task("many", documents=documents, queries=queries, qrels=qrels)

        def drawn(seed: int, asked: tuple[Query, ...]) -> dict[str, list[str]]:
            return Leaks(bench.store, seed)._drawn(task, dict.fromkeys([query.query_id for query in asked], 5))

        all_of_them, last = drawn(7, task.queries), drawn(7, task.queries[2:])
        assert all_of_them["2"] == last["2"]
        assert len({*map(tuple, all_of_them.values())}) == 3
        assert drawn(8, task.queries) != all_of_them
        for names in all_of_them.values():
            assert len({*names}) == 5
            assert not {*names} & {*qrels["0"]}  # none of them is judged


def test_texts_of_no_query_are_nothing_to_look_for(store: ArtifactStore, tmp_path: Path) -> None:
    with open_workbench(tmp_path / "store") as bench:
        task = bench.task("one", documents={"d": "x"}, queries={"q": "x"}, qrels={"q": {"d": 1}})

        assert Leaks(store, 7).of(task, Rewriting(queries=task.queries)) is None
