"""The notes below the tables."""

from dataclasses import replace

from r2med_ray.approximations import Approximation
from r2med_ray.evaluation.text_ties import TieRange
from r2med_ray.reporting.notes import reading_notes, warnings
from r2med_ray.reporting.page import render_page
from r2med_ray.reporting.record import MissingRecord
from r2med_ray.reporting.summary import summarise
from r2med_ray.reporting.tables import leaderboard_markdown, leaderboard_text
from r2med_ray.types import Repairs
from tests.unit.reporting_records import ALPHA, BETA, FIRST, RESULTS, SECOND, record


def test_demonstrations_are_called_that():
    demo = replace(ALPHA, suite="Demo")

    assert warnings(record(tasks=(demo, BETA))) == ["Alpha: a demonstration, not a benchmark."]


def test_what_is_missing_is_named():
    assert warnings(record(results=RESULTS[1:])) == ["No result for first on Alpha."]


def test_what_the_loader_said_is_passed_on():
    task = replace(BETA, warnings=("2 doc ids of the qrels are not in the corpus",))

    assert warnings(record(tasks=(ALPHA, task))) == ["Beta: 2 doc ids of the qrels are not in the corpus"]


def test_mt07_unanswered_queries_are_counted():
    assert "second: queries without an answer (1)." in reading_notes(record())


def test_the_queries_that_a_first_stage_ranks_nothing_for_are_counted_per_task():
    alone = replace(RESULTS[0], found_nothing={"candidates:own.trec": ("q1", "q2"), "bm25": ("q2",)})

    notes = [note for note in reading_notes(record(results=(alone, *RESULTS[1:]))) if "ranks nothing" in note]

    assert notes == [
        "first on Alpha: queries that candidates:own.trec ranks nothing for (2).",
        "first on Alpha: queries that bm25 ranks nothing for (1).",
    ]
    assert not [note for note in reading_notes(record()) if "ranks nothing" in note]


def test_a_query_without_an_answer_is_told_of_once_except_of_given_candidates():
    # second ranks nothing for q2 of Alpha, and something for q1.
    found_nothing = {"bm25": ("q1", "q2"), "bge": ("q2",), "candidates:own.trec": ("q2",)}
    results = (*RESULTS[:2], replace(RESULTS[2], found_nothing=found_nothing), RESULTS[3])

    assert [note for note in reading_notes(record(results=results)) if note.startswith("second")] == [
        "second: queries without an answer (1).",
        "second on Alpha: queries that bm25 ranks nothing for (1).",
        "second on Alpha: queries that candidates:own.trec ranks nothing for (1).",
    ]


def test_queries_that_are_used_as_they_are_stand_apart_from_flags():
    changed = replace(RESULTS[0], flagged={"empty": ("q1",)}, unchanged=("q1",))

    assert "first: queries used as they are (1), generated texts flagged 'empty' (1)." in reading_notes(
        record(results=(changed, *RESULTS[1:]))
    )


def test_repaired_answers_of_a_reranker_are_counted_per_system_and_task():
    alpha = Repairs(
        rules={"q1": {"id missing": 9, "id repeated": 1}, "q2": {"id missing": 4}},
        unreadable={"q2": {"cut at limit": 2, "no list": 1}},
    )
    beta = Repairs(rules={"q3": {"grade out of scale": 1}})
    results = (replace(RESULTS[0], repairs=alpha), replace(RESULTS[1], repairs=beta), *RESULTS[2:])

    notes = [note for note in reading_notes(record(results=results)) if "repaired" in note]

    assert notes == [
        # The note counts queries per rule, and then answers. q1 and q2 lacked ids; q2 has three unreadable answers.
        "first on Alpha: queries with repaired answers of the reranker (2): id missing (2), id repeated (1), "
        "unreadable (1); unreadable answers (3): cut at limit (2), no list (1).",
        "first on Beta: queries with repaired answers of the reranker (1): grade out of scale (1).",
    ]
    assert not [note for note in reading_notes(record()) if "repaired" in note]


def test_mt01_queries_without_a_positive_judgement_are_counted():
    task = replace(ALPHA, qrels={**ALPHA.qrels, "q8": {"d1": 0}, "q9": {}})

    assert "Alpha: queries without a positive judgement (2) are not in the mean." in reading_notes(
        record(tasks=(task, BETA))
    )


def test_systems_under_the_published_protocol_are_named():
    notes = reading_notes(record(systems=(replace(FIRST, compat="r2med"), SECOND)))

    assert "first: run by the published protocol of R2MED (compat: r2med), oddities included." in notes


def test_the_baseline_and_the_seed_are_named():
    (note,) = [note for note in reading_notes(record(baseline="second")) if note.startswith("Δ")]

    assert "second" in note
    assert "Seed 7" in note
    assert not [note for note in reading_notes(record()) if note.startswith("Δ")]


def test_what_was_not_at_hand_is_counted_once_per_need_and_not_named_again():
    missing = tuple(
        MissingRecord(system=system, task=task, needs=needs)
        for system, task, needs in (
            ("first", "Alpha", "weights"),
            ("first", "Beta", "weights"),
            ("second", "Beta", "data"),
        )
    )

    assert warnings(record(results=RESULTS[2:3], missing=missing)) == [
        "3 of 4 results are missing; an average over tasks needs all of its tasks.",
        "needs weights: first on Alpha, Beta.",
        "needs data: second on Beta.",
    ]


def test_the_gain_of_ndcg_and_its_ideal_are_told_to_the_reader_of_a_report():
    ideal = (
        "divided by log2(rank + 1). The ideal ranking is over all documents that are judged relevant for the query, "
        "whether or not they are in the corpus."
    )
    exponential = "nDCG(dcg='exp-log2')@5"

    def gains(*measures):
        return [note for note in reading_notes(record(measures=measures)) if "gain" in note]

    assert gains("RR", "nDCG@10", "nDCG@100") == [
        f"nDCG@10, nDCG@100: the gain of a document is its grade (linear), {ideal}"
    ]
    assert gains("RR", "nDCG@10", exponential)[-1] == (
        f"nDCG@10: the gain of a document is its grade (linear); {exponential}: the gain of a document is 2 to the "
        f"power of its grade, minus 1 (exponential), {ideal}"
    )
    assert gains("RR", "R@1") == []


def test_the_page_and_both_leaderboards_tell_the_gain():
    ndcg = replace(record(measures=("RR", "R@1", "nDCG@1")), results=(), missing=())

    for text in (
        leaderboard_markdown(summarise(ndcg)),
        leaderboard_text(summarise(ndcg)),
        render_page(summarise(ndcg)),
    ):
        assert "the gain of a document is its grade" in " ".join(text.split())


def test_relevant_documents_that_were_left_out_for_their_id_are_one_warning_per_task_that_lists_the_systems():
    results = (
        replace(RESULTS[0], identical_ids=("q1", "q2"), identical_positives=("q2",)),
        replace(RESULTS[1], identical_ids=("q3",)),
        replace(RESULTS[2], identical_ids=("q1", "q2"), identical_positives=("q2",)),
        RESULTS[3],
    )

    assert warnings(record(results=results)) == [
        "Alpha: 1 relevant documents are left out of the rankings of first, second, because their id is the query's "
        "(ignore_identical_ids); they can't be found, but count, e.g. 'q2'."
    ]
    [note] = [note for note in reading_notes(record(results=results)) if note.startswith("first: ")]
    assert "documents left out because their id is the query's (3)" in note


def test_the_range_of_a_fused_or_reranked_system_says_that_only_ranked_copies_are_counted():
    def note(*, with_cut_off):
        found = TieRange(num_queries=1, least=0.5, greatest=1.0, with_cut_off=with_cut_off)
        results = (replace(RESULTS[0], text_ties={"RR": found}), *RESULTS[1:])
        [said] = [note for note in reading_notes(record(results=results)) if "same text" in note]
        return said

    assert note(with_cut_off=True).endswith("is between 50.00 and 100.00.")
    assert note(with_cut_off=False).endswith(
        "is between 50.00 and 100.00. Only documents in the ranking that have equal scores are counted."
    )


CLOSE = Approximation(
    search="bge[HNSW32;efSearch=256]", recall=0.9965, num_sampled=100, depth=50, num_queries=876, num_short=0
)
FAR = Approximation(
    search="bge[IVF64,Flat;nprobe=1]", recall=0.599, num_sampled=30, depth=100, num_queries=30, num_short=12
)


def test_an_approximate_search_that_is_far_from_exact_search_is_a_warning():
    changed = record(results=(replace(RESULTS[0], approximations=(FAR,)), *RESULTS[1:]))

    assert warnings(changed) == [
        "first on Alpha: bge[IVF64,Flat;nprobe=1] finds 59.90 of the first 100 documents of exact search "
        "(0-100, 30 queries); 12 of 30 rankings are shorter than those of exact search."
    ]


def test_short_rankings_are_a_warning_though_recall_is_high():
    assert len(warnings(record(results=(replace(RESULTS[0], approximations=(replace(CLOSE, num_short=1),)),)))) == 2


def test_an_approximate_search_that_is_close_to_exact_search_is_a_note():
    changed = record(results=(replace(RESULTS[0], approximations=(CLOSE,)), *RESULTS[1:]))

    assert warnings(changed) == []
    assert (
        "first on Alpha: bge[HNSW32;efSearch=256] finds 99.65 of the first 50 documents of exact search "
        "(0-100, 100 queries); 0 of 876 rankings are shorter than those of exact search."
    ) in reading_notes(changed)


def test_short_rankings_of_an_approximate_search_are_told_of_in_the_warning_alone():
    results = (replace(RESULTS[0], approximations=(FAR,), num_short=12), *RESULTS[1:])
    exact = (replace(RESULTS[0], approximations=(CLOSE,), num_short=12), *RESULTS[1:])

    assert len([said for said in warnings(record(results=results)) if "shorter than" in said]) == 1
    assert not [note for note in reading_notes(record(results=results)) if "fewer documents than asked" in note]
    assert [note for note in reading_notes(record(results=exact)) if "fewer documents than asked for (12)" in note]


def test_rankings_that_are_shorter_than_asked_for_are_counted_for_every_system():
    results = (replace(RESULTS[0], num_short=2), replace(RESULTS[1], num_short=1), *RESULTS[2:])

    assert any(
        "first: " in note and "queries with fewer documents than asked for (3)" in note
        for note in reading_notes(record(results=results))
    )
