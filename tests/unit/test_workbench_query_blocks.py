"""Many queries are prepared and searched in blocks, and the run is the one that all of them together have."""

from pathlib import Path

import pytest

from r2med_ray.first_stages import query_blocks
from r2med_ray.first_stages.query_blocks import blocks
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.listing import SECONDS
from r2med_ray.types import Query, Ranking
from r2med_ray.workbench.bench import open_workbench

DOCUMENTS = {f"d{number}": f"fever {'rash ' * (number % 3)}after {number} days" for number in range(9)}
QUERIES = {f"q{number}": f"a rash that lasts {number} days" for number in range(5)} | {
    "again": "a rash that lasts 1 days"
}
"""The last one has the text of q1."""


def found(folder: Path, retriever: str) -> tuple[dict[str, Ranking], ArtifactStore]:
    with open_workbench(folder) as bench:
        task = bench.task("mine", documents=DOCUMENTS, queries=QUERIES)
        run = bench.rank(task, {"retriever": retriever}, depth=4).run
    return dict(run.rankings), ArtifactStore(str(folder))


@pytest.mark.parametrize(("retriever", "artefacts"), [("bm25", (0, 0)), ("all-MiniLM-L6-v2", (1, 3))])
def test_a_search_in_blocks_gives_the_same_run_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, retriever: str, artefacts: tuple[int, int]
) -> None:
    whole, store = found(tmp_path / "whole", retriever)
    monkeypatch.setattr(query_blocks, "MOST_QUERIES", 2)
    parts, other = found(tmp_path / "parts", retriever)

    assert list(parts.items()) == list(whole.items())
    [one], [two] = (list(each.all("run")) for each in (store, other))
    assert one.files["run.parquet"].sha256 == two.files["run.parquet"].sha256
    took = {SECONDS: one.attributes[SECONDS]}
    assert (one.name, one.attributes) == (two.name, two.attributes | took)
    # 6 queries are 3 blocks of 2.
    assert tuple(len(each.names_of("query-vectors")) for each in (store, other)) == artefacts


def test_queries_below_the_bound_are_one_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_blocks, "MOST_QUERIES", 3)
    queries = [Query(query_id=f"q{number}", text="fever") for number in range(7)]

    assert [len(block) for block in blocks(queries)] == [3, 3, 1]
    assert blocks(queries[:3]) == [queries[:3]]
    assert blocks([]) == [[]]


def test_a_killed_job_prepares_the_blocks_that_are_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_blocks, "MOST_QUERIES", 2)
    whole, store = found(tmp_path, "all-MiniLM-L6-v2")
    before = {each.name: each.path("vectors.parquet") for each in store.all("query-vectors")}
    lost = min(before)
    store.remove(lost)
    for name in store.names_of("run"):
        store.remove(name)
    again, _ = found(tmp_path, "all-MiniLM-L6-v2")

    # A path has the name of the attempt that wrote the file.
    after = {each.name: each.path("vectors.parquet") for each in store.all("query-vectors")}
    assert again == whole
    assert {name for name in before if before[name] != after[name]} == {lost}
