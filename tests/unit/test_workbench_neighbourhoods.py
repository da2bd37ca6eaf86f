"""A map's points belong to the documents that they name, whatever the shards and their order."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from r2med_ray.benchmark import run_benchmark
from r2med_ray.cli.main import app
from r2med_ray.corpus.conditions import with_hard_negatives
from r2med_ray.corpus.packs import Pack
from r2med_ray.errors import ConfigError
from r2med_ray.evaluation.hard_negatives.neighbourhood import NeighbourhoodMap, neighbourhood, principal_plane
from r2med_ray.reporting.page import render_page
from r2med_ray.reporting.summary import summarise
from r2med_ray.reporting.write import load_results, write_report
from r2med_ray.settings.config_files import parse_config
from r2med_ray.settings.resources import ResourcesConfig
from r2med_ray.systems import resolve
from r2med_ray.types import CONTROL, Document, HardNegative, HardNegatives, Rewriting
from r2med_ray.workbench.bench import open_workbench
from r2med_ray.workbench.neighbourhoods import neighbourhood_maps
from tests.unit.toy_models import DrawnVectors

DOCUMENTS = {f"d{number}": f"text {number}" for number in range(9)}
PASSAGES = {"h1": "own", "h2": "own too", "h3": "foreign"}
QUERIES = {"q": "a question", "r": "another"}
NEGATIVES = {"q": {"h1": HardNegative(), "h2": HardNegative()}, "r": {"h3": HardNegative()}}


def vectors(*texts: str) -> np.ndarray:
    """Return what the encoder of these tests makes of texts, one at a time and in no corpus."""
    return DrawnVectors.encode_plain(None, texts)  # type: ignore[arg-type]


def drawn(
    folder: Path,
    order: list[str],
    shard: int,
    *,
    retriever: str = "vectors",
    negatives: HardNegatives = NEGATIVES,
    of_agent: Sequence[str] = (),
) -> list[NeighbourhoodMap]:
    """Return the maps of q, over a corpus in this order and in shards of this size; an agent ranked some queries."""
    folder.mkdir()
    (folder / "models.yaml").write_text(
        "encoders: [{name: vectors, class: tests.unit.toy_models.DrawnVectors, similarity: cosine, max_length: 8}]\n"
    )
    resources = ResourcesConfig(documents_per_shard=shard)
    with open_workbench(folder / "store", models=folder / "models.yaml", resources=resources) as bench:
        documents = {doc_id: DOCUMENTS[doc_id] for doc_id in order}
        task = bench.task("Base", documents=documents, queries=QUERIES, qrels={"q": {"d4": 1}, "r": {"d5": 1}})
        passages = tuple(Document(doc_id=doc_id, text=text) for doc_id, text in PASSAGES.items())
        pack = Pack(documents=passages, negatives=NEGATIVES, writers={"a person": 3})
        _, searched = with_hard_negatives(task, pack, bench.store, ["all"], documents_per_shard=shard)
        system = bench.system({"retriever": retriever}, depth=6)
        asked = [query for query in searched.queries if query.query_id not in of_agent]
        ranked = bench.rank(replace(searched, queries=tuple(asked)), system)
        own = dict.fromkeys(of_agent, (("d1", "d2"),))
        ranked = replace(ranked, rewriting=Rewriting(queries=searched.queries, ranked=own))
        labelled = replace(searched, hard_negatives=negatives)
        return list(neighbourhood_maps(bench.store, labelled, system, ranked, ["q"], bench.runner.device))


def test_a_map_is_that_of_the_vectors_of_the_texts_in_any_order_of_shards(tmp_path: Path) -> None:
    draw = random.Random(5)
    orders = [list(DOCUMENTS), list(DOCUMENTS)[::-1], draw.sample(list(DOCUMENTS), len(DOCUMENTS))]
    maps = [drawn(tmp_path / f"{n}", order, shard=1 + n)[0] for n, order in enumerate(orders)]

    [first, *others] = maps
    for other in others:
        assert [point[:3] for point in other.points] == [point[:3] for point in first.points]
        for ours, theirs in zip(first.points, other.points, strict=True):
            assert (ours.x, ours.y) == pytest.approx((theirs.x, theirs.y), abs=1e-6), ours.doc_id
    # The same map out of the texts themselves.
    texts = {**DOCUMENTS, **PASSAGES}
    expected = neighbourhood(
        "x",
        "x",
        "q",
        vectors(QUERIES["q"])[0],
        {point.doc_id: vectors(texts[point.doc_id])[0] for point in first.points},
        {point.doc_id: point.role for point in first.points},
        {},
    )
    for ours, theirs in zip(first.points, expected.points, strict=True):
        assert ours.doc_id == theirs.doc_id
        assert (ours.x, ours.y) == pytest.approx((theirs.x, theirs.y), abs=1e-6)


def test_positives_and_own_hard_negatives_are_on_the_map_wherever_they_rank(tmp_path: Path) -> None:
    [found] = drawn(tmp_path / "a", list(DOCUMENTS), shard=2)
    roles = {point.doc_id: point.role for point in found.points}

    assert {doc_id: roles[doc_id] for doc_id in ("d4", "h1", "h2")} == {"d4": "positive", "h1": "own", "h2": "own"}
    assert roles.get("h3", "foreign") == "foreign"
    ranks = sorted(point.rank for point in found.points if point.rank)
    # Six documents are ranked, and of each the map has its rank.
    assert ranks == [1, 2, 3, 4, 5, 6]
    by_cosine = {
        doc_id: float(vectors(text)[0] @ vectors(QUERIES["q"])[0] / np.linalg.norm(vectors(text)[0]))
        for doc_id, text in {**DOCUMENTS, **PASSAGES}.items()
    }
    best = sorted(by_cosine, key=lambda doc_id: -by_cosine[doc_id])[:6]
    ranked = {point.rank: point.doc_id for point in found.points if point.rank}
    assert [ranked[rank] for rank in range(1, 7)] == best


def test_a_system_without_one_vector_per_text_has_no_map(tmp_path: Path) -> None:
    assert drawn(tmp_path / "a", list(DOCUMENTS), shard=2, retriever="bm25") == []


def test_a_query_that_an_agent_ranked_was_not_searched_for_and_has_no_map(tmp_path: Path) -> None:
    assert drawn(tmp_path / "a", list(DOCUMENTS), shard=9, of_agent="q") == []
    # q was searched for alone, because the agent ranked r
    [found] = drawn(tmp_path / "b", list(DOCUMENTS), shard=9, of_agent="r")
    assert found.query_id == "q"


def test_a_control_is_no_hard_negative_on_a_map(tmp_path: Path) -> None:
    control = {"c1": HardNegative(kind=f"{CONTROL}: random")}
    [found] = drawn(tmp_path / "a", list(DOCUMENTS), shard=9, negatives=NEGATIVES | {"q": NEGATIVES["q"] | control})

    # All positives and hard negatives have vectors. A control is in no condition but `pairs`, and is not sought.
    assert found.without_vector == 0
    assert {point.doc_id for point in found.points if point.role == "own"} == {"h1", "h2"}


def test_the_plane_of_points_on_a_line_holds_all_differences_in_one_direction() -> None:
    # Unit vectors at the angles -60, 0 and 60 degrees: they differ by 2 sin 60 = 1.732 in y and by 0.5 in x.
    angles = np.deg2rad([-60, 0, 60])
    places, explained = principal_plane(np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32))

    # Around the means 2/3 and 0, the squares are 2 (0.75) = 1.5 in y, and 2 (1/6)² + (1/3)² = 1/6 in x.
    assert explained == pytest.approx((1.5 / (1.5 + 1 / 6), (1 / 6) / (1.5 + 1 / 6)), abs=1e-6)
    assert places[:, 0].tolist() == pytest.approx([-(3**0.5) / 2, 0, 3**0.5 / 2], abs=1e-6)
    assert places[:, 1].tolist() == pytest.approx([-1 / 6, 1 / 3, -1 / 6], abs=1e-6)


def test_equal_vectors_have_one_place_and_no_differences() -> None:
    places, explained = principal_plane(np.ones((3, 4), np.float32))

    assert np.abs(places).max() == pytest.approx(0, abs=1e-9)
    assert explained == (0, 0)


def demo(**settings: object) -> dict[str, object]:
    wanted = {"task": "Demo-Evidence", "conditions": ["all"], **settings}
    systems = [{"name": "words", "retriever": "bm25"}, {"name": "minilm", "retriever": "all-MiniLM-L6-v2"}]
    return {"name": "x", "tasks": ["Demo-Evidence"], "systems": systems, "hard_negatives": [wanted]}


def test_the_report_has_the_maps_and_is_made_again_with_them(tmp_path: Path) -> None:
    benchmark = resolve(parse_config(demo(maps=["exam-01"])))
    with open_workbench(tmp_path / "store", names=benchmark.names, resources=benchmark.config.resources) as bench:
        record = run_benchmark(benchmark, bench)
    summary = summarise(record)

    [found] = record.maps
    assert (found.task, found.system, found.query_id) == ("Demo-Evidence+hn-all", "minilm", "exam-01")
    assert {f"hn_exam_01_{number}" for number in range(1, 6)} <= {point.doc_id for point in found.points}
    assert load_results(write_report(summary, tmp_path / "x")).maps == record.maps
    (tmp_path / "plots").mkdir()
    drawn_at = ["plot", str(tmp_path / "x"), str(tmp_path / "plots"), "--hard-negatives"]
    assert CliRunner().invoke(app, drawn_at).exit_code == 0
    expected = {"first-rank-Demo-Evidence-all", "map-Demo-Evidence+hn-all-minilm-exam-01"}
    written = {path.name: path.read_bytes() for path in (tmp_path / "plots").iterdir()}
    assert written.keys() == {f"{name}{ending}" for name in expected for ending in (".svg", ".png")}
    assert all(content.startswith(b"\x89PNG") for name, content in written.items() if name.endswith(".png"))
    assert b"query exam-01" in written["map-Demo-Evidence+hn-all-minilm-exam-01.svg"]
    assert CliRunner().invoke(app, drawn_at).exit_code == 0
    assert written == {path.name: path.read_bytes() for path in (tmp_path / "plots").iterdir()}
    page = render_page(summary)
    assert "Around a query" in page
    assert page.count("<circle") >= len(found.points)


def test_a_map_of_a_query_that_is_not_there_is_refused_before_anything_is_searched(tmp_path: Path) -> None:
    benchmark = resolve(parse_config(demo(maps=["exam-1"])))
    with (
        open_workbench(tmp_path / "store", names=benchmark.names, resources=benchmark.config.resources) as bench,
        pytest.raises(ConfigError, match=r"task 'Demo-Evidence' has no query 'exam-1'. Did you mean 'exam-"),
    ):
        run_benchmark(benchmark, bench)
    with pytest.raises(ConfigError, match="`maps` are of the condition `all`, which is not among `conditions`"):
        parse_config(demo(maps=["exam-01"], conditions=["own"]))
