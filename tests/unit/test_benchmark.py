"""What a benchmark says of the collections that it ran on: one process, BM25, collections whose figures are plain."""

from pathlib import Path
from typing import Any

import pytest

from r2med_ray.corpus.sources import TaskSource
from r2med_ray.errors import DataError
from r2med_ray.pipeline import Ranked
from r2med_ray.recording import keeps_scores
from r2med_ray.reporting.notes import reading_notes, warnings
from r2med_ray.reporting.record import BenchmarkRecord
from r2med_ray.reporting.summary import summarise
from r2med_ray.reporting.tables import leaderboard_markdown, leaderboard_text
from r2med_ray.reporting.write import load_results, write_report
from r2med_ray.settings.config_files import parse_config
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.systems import resolve
from r2med_ray.types import Repairs, Rewriting, Run
from tests.unit.corpus_files import write_r2med
from tests.unit.tasks import run_in

WORDS = ("fever", "rash", "cough", "pain", "edema", "tremor", "anemia", "ulcer")


def run(source: TaskSource, folder: Path, **settings: Any) -> BenchmarkRecord:
    values = {
        "name": "x",
        "tasks": [{"path": str(source.folder), "layout": "r2med", "name": "Tiny"}],
        "systems": [{"name": "words", "retriever": "bm25"}],
        "measures": ["nDCG@10", "RR", "R@100", "Bpref"],
    }
    return run_in(folder, resolve(parse_config({**values, **settings})))


def five_ids_for_each_text(folder: Path) -> TaskSource:
    """Eight texts, each under five ids; of each text the document whose id comes last among ties is judged."""
    return write_r2med(
        folder,
        corpus=[(f"{word}-{number}", f"{word} {word}") for word in WORDS for number in range(1, 6)],
        queries=[(f"q-{word}", word) for word in WORDS],
        qrels=[(f"q-{word}", f"{word}-1", 1) for word in WORDS],
    )


def test_a_figure_that_ids_decide_among_equal_texts_comes_with_its_range(tmp_path: Path) -> None:
    record = run(five_ids_for_each_text(tmp_path / "a"), tmp_path)
    [result] = record.results

    # Five documents tie and are ordered by id, descending, so `fever-1` is fifth: 1 / log2(6) = 0.38685 and 1 / 5.
    # Any order of the five is as right, so it may be first, too: 1 and 1. R@100 is 1 in all orders.
    assert result.evaluation.means["nDCG@10"] == pytest.approx(0.38685, abs=5e-6)
    found = result.text_ties
    assert {name: (ties.num_queries, ties.least, ties.greatest) for name, ties in found.items()} == {
        "nDCG@10": (8, pytest.approx(0.38685, abs=5e-6), 1.0),
        "RR": (8, pytest.approx(0.2), 1.0),
    }
    note = (
        "words on Tiny: nDCG@10 depends for 8 of 8 queries (100.0%) on the order of documents with the same text and "
        "the same score, which their ids decide; over all such orders the mean is between 38.69 and 100.00."
    )
    assert note in reading_notes(record)
    assert note in leaderboard_markdown(summarise(record)).replace("\\", "")
    # 40 documents, of which 8 are judged; each of the other 32 has the text of a judged one.
    assert record.tasks[0].counts["same_text_as_judged"] == 32
    assert (
        "Tiny: 32 documents have the same text as a judged document with another id, e.g. 'fever-2', 'fever-3', "
        "'fever-4'"
    ) in warnings(record)
    assert load_results(write_report(summarise(record), tmp_path / "out")).results[0].text_ties == found


def test_equal_texts_that_are_cut_off_count_in_the_range(tmp_path: Path) -> None:
    record = run(five_ids_for_each_text(tmp_path / "a"), tmp_path, depth=3)
    [result] = record.results

    # `fever-1` is the fifth of five that tie, so it is cut; another order would have it first.
    assert result.evaluation.means["nDCG@10"] == 0.0
    ties = result.text_ties["nDCG@10"]
    assert (ties.num_queries, ties.least, ties.greatest) == (8, 0.0, 1.0)


@pytest.mark.parametrize(
    ("system", "with_cut_off"),
    [
        ({"retriever": "bm25"}, True),
        ({"retriever": {"candidates": "bm25"}}, False),
        ({"retrievers": ["bm25", "bm25-r2med"], "fusion": {}}, False),
        ({"retriever": "bm25", "reranker": {"model": "maxsim-minilm", "depth": 3}}, False),
    ],
    ids=["one retriever", "given", "fused", "reranked"],
)
def test_copies_that_were_cut_off_are_counted_only_where_one_retriever_scored_them(
    system: dict[str, Any], with_cut_off: bool
) -> None:
    resolved = resolve(parse_config({"name": "x", "tasks": ["Demo-Posts"], "systems": [{"name": "s", **system}]}))
    found = Ranked(run=Run(tag="s", rankings={}), rewriting=Rewriting(queries=()), repairs=Repairs())

    assert keeps_scores(resolved.systems[0], found) is with_cut_off


def test_a_fused_ranking_has_no_range_for_copies_that_were_cut_off(tmp_path: Path) -> None:
    fused = [{"name": "words", "retrievers": ["bm25", "bm25-r2med"], "fusion": {}}]
    cut = run(five_ids_for_each_text(tmp_path / "a"), tmp_path, depth=3, systems=fused)

    # Reciprocal ranks differ: of five copies, the first three are ranked, with three scores.
    assert cut.results[0].evaluation.means["nDCG@10"] == 0.0
    assert cut.results[0].text_ties == {}


def test_texts_that_differ_have_no_range_and_no_note(tmp_path: Path) -> None:
    record = run(write_r2med(tmp_path / "a"), tmp_path)

    assert record.results[0].text_ties == {}
    assert not [note for note in reading_notes(record) if "same text" in note]
    assert record.tasks[0].counts["same_text_as_judged"] == 0


def test_relevant_documents_with_the_id_of_their_query_are_counted_when_they_are_left_out(tmp_path: Path) -> None:
    # q1 and q2 are documents, too, and relevant for themselves; q3 shares no word with any document.
    source = write_r2med(
        tmp_path / "a",
        corpus=[("q1", "cat"), ("q2", "dog"), ("d1", "cow"), ("d2", "cat dog")],
        queries=[("q1", "cat"), ("q2", "dog"), ("q3", "zzz")],
        qrels=[("q1", "q1", 1), ("q2", "q2", 1), ("q3", "d1", 1)],
    )
    kept, dropped = (run(source, tmp_path, ignore_identical_ids=ignored) for ignored in (False, True))

    # Found first for two of three queries, then for none.
    assert [record.results[0].evaluation.means["RR"] for record in (kept, dropped)] == [pytest.approx(2 / 3), 0.0]
    warning = (
        "Tiny: 2 relevant documents are left out of the rankings of words, because their id is the query's "
        "(ignore_identical_ids); they can't be found, but count, e.g. 'q1'."
    )
    assert warning in warnings(dropped)
    assert warning in leaderboard_text(summarise(dropped)).replace("\n", " ")
    assert [note for note in reading_notes(dropped) if note.startswith("words: ")] == [
        "words: queries without an answer (1), queries with fewer documents than asked for (2), documents left out "
        "because their id is the query's (2)."
    ]  # q1 and q2 each find d2 alone, of four documents of which their own is left out; q3 finds none
    assert (dropped.results[0].identical_ids, dropped.results[0].identical_positives) == (("q1", "q2"), ("q1", "q2"))
    assert (kept.results[0].identical_ids, kept.results[0].identical_positives) == ((), ())
    assert not [sentence for sentence in warnings(kept) if "left out" in sentence]


def test_rankings_of_all_that_can_be_ranked_are_not_short_though_documents_are_left_out_for_their_id(
    tmp_path: Path,
) -> None:
    # q1 and q2 are documents, too; every document has the word of every query, so all are ranked but their own.
    source = write_r2med(
        tmp_path / "a",
        corpus=[("q1", "cat"), ("q2", "cat dog"), ("d1", "cat cow")],
        queries=[("q1", "cat"), ("q2", "cat"), ("q3", "cat")],
        qrels=[("q1", "d1", 1), ("q2", "d1", 1), ("q3", "d1", 1)],
    )
    [result] = run(source, tmp_path, ignore_identical_ids=True).results

    assert {query_id: len(ranking) for query_id, ranking in result.run.rankings.items()} == {
        "q1": 2,
        "q2": 2,
        "q3": 3,
    }
    assert result.num_short == 0


def test_a_task_without_a_positive_stops_the_benchmark_by_name_before_anything_is_made(tmp_path: Path) -> None:
    source = write_r2med(tmp_path / "a", qrels=[("q1", "d1", 0), ("q2", "d2", -1), ("qX", "d1", 1)])

    problem = (
        r"^task 'Tiny': nothing can be measured: none of its 3 queries has a judgement above 0 in .*qrels\.jsonl"
    )
    with pytest.raises(DataError, match=problem):
        run(source, tmp_path)

    assert ArtifactStore(str(tmp_path / "store")).names() == []
