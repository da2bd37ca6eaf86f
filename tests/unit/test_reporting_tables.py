"""The leaderboard as Markdown, CSV and text. Its figures are those of `test_reporting_summary`."""

import csv
import io
from dataclasses import replace

from r2med_ray.approximations import Approximation
from r2med_ray.reporting.run_details import result_columns
from r2med_ray.reporting.summary import summarise
from r2med_ray.reporting.tables import leaderboard_csv, leaderboard_markdown, leaderboard_text
from r2med_ray.types import Repairs
from tests.unit.reporting_records import ALPHA, BETA, FIRST, RESULTS, SECOND, record


def test_markdown_holds_scores_on_a_scale_of_0_to_100_best_first():
    lines = leaderboard_markdown(summarise(record())).splitlines()
    start = lines.index("RR on a scale of 0–100; the best of each column is bold.")

    assert lines[start + 2 : start + 6] == [
        "| System | Mean | Alpha | Beta | Unanswered | Flagged |",
        "| :--- | ---: | ---: | ---: | ---: | ---: |",
        "| first<br>bm25 → maxsim@20 | **87.50** | **75.00** | **100.00** | 0 | 2 |",
        # on Alpha, `second` has (1/2 + 0) / 2
        "| second<br>bm25 | 12.50 | 25.00 | 0.00 | 1 | 0 |",
    ]


def test_markdown_names_the_other_averages():
    text = leaderboard_markdown(summarise(record()))

    assert "| System | RR | R@1 | RR by query | R@1 pooled |" in text
    assert "| first | **87.50** | **41.67** | **83.33** | **40.00** |" in text


def test_a_comparison_stands_beside_the_scores():
    text = leaderboard_markdown(summarise(record(baseline="second")))

    assert "| System | Mean | Alpha | Beta | Δ | 95% interval | p | Unanswered | Flagged |" in text
    # Beta has one query, which can't be resampled
    assert "| first<br>bm25 → maxsim@20 | **87.50** | **75.00** | **100.00** | +75.00 | – | 0.250 | 0 | 2 |" in text


def test_suites_of_several_tasks_get_a_mean_of_their_own():
    tasks = (ALPHA, BETA, replace(ALPHA, name="Gamma", suite="Gamma"))
    results = record().results
    results += tuple(replace(result, task="Gamma") for result in results if result.task == "Alpha")

    # the mean of Greek is (0.75 + 1) / 2; the mean of all is (0.75 + 1 + 0.75) / 3
    text = leaderboard_markdown(summarise(record(tasks=tasks, results=results)))
    assert "| System | Mean | Mean Greek (2) | Alpha | Beta | Gamma |" in text
    assert "| first<br>bm25 → maxsim@20 | **83.33** | **87.50** | **75.00** | **100.00** | **75.00** |" in text


def test_names_can_not_break_the_markdown():
    systems = (replace(FIRST, description="a|b <script>"), SECOND)
    text = leaderboard_markdown(summarise(record(systems=systems)))

    assert "- first: a\\|b \\<script\\>\n" in text
    assert "| first<br>a\\|b \\<script\\> | **87.50** |" in text


def test_the_second_line_of_a_name_says_what_the_page_says_there():
    named = replace(SECOND, description="m[IVF64,Flat;nprobe=1]", compat="r2med")
    text = leaderboard_markdown(summarise(record(systems=(FIRST, named), baseline="second")))

    assert "| second<br>baseline, compat r2med, m\\[IVF64,Flat;nprobe=1\\] | 12.50 |" in text
    assert "| second | 12.50 |" in text  # among all measures


def test_csv_holds_every_figure_and_says_the_scale():
    rows = list(csv.DictReader(io.StringIO(leaderboard_csv(summarise(record(baseline="second"))))))

    assert [row["System"] for row in rows] == ["first", "second"]
    assert rows[0]["Mean (0-100)"] == "87.50"
    assert rows[0]["R@1 pooled (0-100)"] == "40.00"
    assert rows[0]["Δ (0-100)"] == "75.00"
    assert rows[0]["p"] == "0.2500"
    assert rows[1]["Δ (0-100)"] == ""
    assert (rows[1]["Unanswered"], rows[1]["Unjudged"]) == ("1", "0")


def test_queries_with_repaired_answers_have_a_column_where_there_are_any():
    repairs = [Repairs(rules={"q1": {"id missing": 2}}), Repairs(unreadable={"q3": {"empty": 1}})]
    repaired = [replace(result, repairs=of_task) for result, of_task in zip(RESULTS[:2], repairs, strict=True)]
    summary = summarise(record(results=[*repaired, *RESULTS[2:]]))

    # the repaired answers are those for q1 on Alpha and q3 on Beta
    text = leaderboard_markdown(summary)
    assert "| System | Mean | Alpha | Beta | Unanswered | Flagged | Repaired |" in text
    assert "| first<br>bm25 → maxsim@20 | **87.50** | **75.00** | **100.00** | 0 | 2 | 2 |" in text
    (column,) = [column for column in result_columns(summary.record) if column.title == "Repaired"]
    assert list(column.values) == [1, 1, 0, 0]


def test_the_recall_of_an_approximate_index_stands_beside_its_system():
    found = Approximation(search="m[IVF64]", recall=0.9, num_sampled=2, depth=9, num_queries=2, num_short=1)
    near = replace(RESULTS[0], approximations=(found, replace(found, recall=0.8)), num_short=1)
    other = replace(RESULTS[1], approximations=(replace(found, recall=0.85),))
    summary = summarise(record(results=[near, other, *RESULTS[2:]]))

    # The lowest of 0.9, 0.8 and 0.85. The other system's search is exact.
    text = leaderboard_markdown(summary)
    assert "| System | Mean | Alpha | Beta | Index recall | Unanswered | Flagged |" in text
    assert "| first<br>bm25 → maxsim@20 | **87.50** | **75.00** | **100.00** | 80.00 | 0 | 2 |" in text
    assert "| second<br>bm25 | 12.50 | 25.00 | 0.00 | – | 1 | 0 |" in text
    rows = list(csv.DictReader(io.StringIO(leaderboard_csv(summary))))
    assert [row["Index recall (0-100)"] for row in rows] == ["80.00", ""]
    columns = {column.title: column.values for column in result_columns(summary.record)}
    assert columns["Index recall"] == [0.8, 0.85, None, None]
    assert columns["Short"] == [1, 0, 0, 0]


def test_no_column_says_that_every_search_is_exact():
    assert "Index recall" not in leaderboard_csv(summarise(record())) + leaderboard_markdown(summarise(record()))


def test_text_ends_with_what_a_reader_must_know():
    text = leaderboard_text(summarise(record()))

    assert text.startswith("greek: RR on a scale of 0–100\n")
    assert "first: generated texts flagged 'empty' (1), generated texts flagged 'cut' (2)." in text


def test_the_same_results_give_the_same_text_whenever_they_were_made():
    later = record(finished="2027-01-01T00:00:00+00:00", stages=(), versions={})

    assert leaderboard_markdown(summarise(later)) == leaderboard_markdown(summarise(record()))
    assert leaderboard_csv(summarise(later)) == leaderboard_csv(summarise(record()))
