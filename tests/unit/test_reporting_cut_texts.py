"""A report warns of what was cut from 1 % on, says what is unknown, and has a table of all counts."""

from dataclasses import replace

import pytest

from r2med_ray.cuts import Cuts, PartCuts
from r2med_ray.reporting.cut_texts import cut_columns, cut_notes, cut_warnings
from r2med_ray.reporting.notes import reading_notes, warnings
from r2med_ray.reporting.page import render_page
from r2med_ray.reporting.record import BenchmarkRecord
from r2med_ray.reporting.summary import summarise
from r2med_ray.reporting.tables import leaderboard_markdown
from tests.unit.reporting_records import RESULTS, record

FEW = Cuts(texts=1000, cut=9, tokens=90_000, lost=200, lengths=(512,))
MANY = Cuts(texts=103, cut=98, tokens=20_000, lost=12_000, lengths=(32,))


def part(query: Cuts | None, document: Cuts | None = FEW, **fields: object) -> PartCuts:
    values = {"part": "colbert", "of": "texts", "query": query, "document": document, "queries": 103}
    return PartCuts(**(values | fields))  # type: ignore[arg-type]


def with_cuts(*cuts: tuple[PartCuts, ...]) -> BenchmarkRecord:
    """Return the benchmark with what was cut for first on Alpha, first on Beta, second on Alpha, second on Beta."""
    padded = [*cuts, *[()] * (len(RESULTS) - len(cuts))]
    return record(results=tuple(replace(each, cuts=found) for each, found in zip(RESULTS, padded, strict=True)))


def test_a_part_that_cuts_much_is_named_with_tasks_and_shares() -> None:
    assert list(cut_warnings(with_cuts((part(MANY),), (part(replace(MANY, cut=1, lost=9)),)))) == [
        # 12,000 of 20,000 tokens are 60 %. On Beta 1 of 103 is less than 1 %.
        "colbert reads at most 32 tokens of a query. Cut were 98 of 103 queries (60.00% of all tokens lost) on Alpha."
    ]


@pytest.mark.parametrize(("cut", "warned"), [(9, False), (10, True)])
def test_a_warning_begins_at_one_percent(cut: int, warned: bool) -> None:
    found = list(cut_warnings(with_cuts((part(None, replace(FEW, cut=cut)),))))

    assert bool(found) is warned
    if warned:
        assert found == [
            "colbert reads at most 512 tokens of a document. Cut were 10 of 1,000 documents (0.22% of all tokens "
            "lost) on Alpha."
        ]


def test_one_percent_of_the_tokens_is_enough() -> None:
    assert list(cut_warnings(with_cuts((part(None, replace(FEW, cut=1, lost=900)),))))


def test_systems_that_share_a_part_are_told_of_once_and_named_where_they_differ() -> None:
    same = with_cuts((part(MANY),), (), (part(MANY),))
    other = with_cuts((part(MANY),), (), (part(replace(MANY, cut=50)),))

    assert list(cut_warnings(same)) == [
        "colbert reads at most 32 tokens of a query. Cut were 98 of 103 queries (60.00% of all tokens lost) on Alpha."
    ]
    assert list(cut_warnings(other)) == [
        "colbert reads at most 32 tokens of a query. Cut were 98 of 103 queries (60.00% of all tokens lost) for "
        "first and 50 of 103 queries (60.00% of all tokens lost) for second on Alpha."
    ]


def test_a_system_is_named_where_others_read_the_same_task_with_another_length() -> None:
    longer = replace(MANY, cut=0, lost=0, lengths=(300,))

    assert list(cut_warnings(with_cuts((part(MANY),), (), (part(longer),)))) == [
        "colbert reads at most 32 tokens of a query. Cut were 98 of 103 queries (60.00% of all tokens lost) for "
        "first on Alpha."
    ]


def test_what_one_encoder_cut_is_told_of_once_though_systems_have_several_indexes_of_its_vectors() -> None:
    indexed = part(MANY, part="colbert[IVF8,Flat;nprobe=4]", encoder="colbert", same=28)
    told = [
        "colbert reads at most 32 tokens of a query. Cut were 98 of 103 queries (60.00% of all tokens lost) on "
        "Alpha.",
        "colbert has the same vector for different queries: 28 of 103 queries on Alpha.",
    ]

    assert list(cut_warnings(with_cuts((part(MANY, same=28),), (), (indexed,)))) == told


def test_queries_with_the_same_vector_are_told_of() -> None:
    assert list(cut_warnings(with_cuts((part(replace(MANY, cut=0, lost=0), same=28),), (part(FEW, same=1),)))) == [
        "colbert has the same vector for different queries: 28 of 103 queries on Alpha."
    ]


def test_a_rerankers_texts_are_counted_in_pairs() -> None:
    asked = replace(MANY, lengths=(512,))
    passages = Cuts(texts=50, cut=5, tokens=900, lost=90, lengths=(300,), unit="words")
    pairs = part(asked, None, part="qwen", of="pairs")
    shown = part(None, passages, part="listwise", of="pairs")
    prompts = part(None, replace(passages, lengths=(32, 64)), part="writer", of="prompts")

    assert list(cut_warnings(with_cuts((pairs, shown, prompts)))) == [
        "qwen reads at most 512 tokens at once. Cut were 98 of 103 queries in pairs (60.00% of all tokens lost) on "
        "Alpha.",
        "listwise reads at most 300 words of a document. Cut were 5 of 50 documents in pairs (10.00% of all words "
        "lost) on Alpha.",
        "writer reads at most 32 or 64 words of a document. Cut were 5 of 50 documents in prompts (10.00% of all "
        "words lost) on Alpha.",
    ]


def test_what_is_unknown_is_said() -> None:
    assert list(cut_notes(with_cuts((part(None),), (part(None),)))) == [
        "Unknown: what colbert has cut off queries on Alpha, Beta. It was made before cuts were counted, or by a "
        "class without `take_cuts`."
    ]
    assert not list(cut_notes(with_cuts((part(MANY),))))
    assert list(cut_notes(with_cuts((part(MANY, None, part="writer", of="prompts"),)))) == [
        "Unknown: what writer has cut off documents in prompts on Alpha. It was made before cuts were counted, or by "
        "a class without `Rewriting.cuts`."
    ]


def test_warnings_and_notes_stand_in_the_leaderboard() -> None:
    cut = with_cuts((part(MANY),), (part(None),))

    assert list(cut_warnings(cut)) == [warning for warning in warnings(cut) if "Cut were" in warning]
    assert list(cut_notes(cut)) == [note for note in reading_notes(cut) if note.startswith("Unknown")]
    assert "> colbert reads at most 32 tokens of a query" in leaderboard_markdown(summarise(cut))


def test_the_table_of_details_has_every_count() -> None:
    rows = [column.texts for column in cut_columns(with_cuts((part(MANY, same=28),), (part(None),)))]

    assert list(zip(*rows, strict=True)) == [
        ("first", "Alpha", "colbert", "queries", "32 tokens", "103", "98", "95.15", "60.00", "28"),
        ("first", "Alpha", "colbert", "documents", "512 tokens", "1,000", "9", "0.90", "0.22", "–"),
        ("first", "Beta", "colbert", "queries", "unknown", "–", "–", "–", "–", "–"),
        ("first", "Beta", "colbert", "documents", "512 tokens", "1,000", "9", "0.90", "0.22", "–"),
    ]


def test_the_page_shows_the_table_where_a_model_read_texts() -> None:
    assert "Texts that were cut" in render_page(summarise(with_cuts((part(MANY),))))
    assert "Texts that were cut" not in render_page(summarise(record()))
