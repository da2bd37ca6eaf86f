"""The plots of first ranks show every query, also those without a hard negative in their ranking."""

from r2med_ray.evaluation.hard_negatives.measures import FirstRanks
from r2med_ray.reporting.hard_negative_plots import first_rank_plots
from r2med_ray.reporting.hard_negatives import ConditionFigures
from r2med_ray.reporting.page import render_page
from r2med_ray.reporting.summary import Summary, summarise
from tests.unit.reporting_records import record


def summary_of(ranks: tuple[int, ...], num_queries: int, depth: int) -> Summary:
    """Return a summary whose only figures are first ranks."""
    plain = summarise(record(depth=depth))
    first = FirstRanks(ranks=ranks, num_queries=num_queries)
    row = ConditionFigures(task="Alpha", system="<first>", condition="all", score=0.5, first_ranks=first)
    return Summary(record=plain.record, rows=plain.rows, hard_negatives=(row,))


def test_the_curve_steps_up_at_each_rank_and_leaves_out_what_is_beyond_the_depth() -> None:
    [plot] = first_rank_plots(summary_of((1, 10, 10), 4, depth=100))

    # A quarter of the queries at rank 1, which is the left edge; two more at 10, which is the middle of 1 to 100 on a
    # logarithmic scale. The fourth is beyond 100, so the curve ends at three quarters of the height of 40.
    assert plot.curve == "M0 40H0.00V30.00H50.00V10.00H100"


def test_the_bars_count_all_queries_in_the_same_ranges() -> None:
    [plot] = first_rank_plots(summary_of((1, 2, 3, 20), 6, depth=20))

    assert [(bar.ranks, bar.queries) for bar in plot.bars] == [
        ("1", 1), ("2", 1), ("3–5", 1), ("6–10", 0), ("11–20", 1), ("beyond 20", 2),
    ]  # fmt: skip
    assert sum(bar.queries for bar in plot.bars) == plot.num_queries


def test_a_depth_of_one_has_one_range_and_a_curve_at_its_left_edge() -> None:
    [plot] = first_rank_plots(summary_of((1,), 2, depth=1))

    assert [bar.ranks for bar in plot.bars] == ["1", "beyond 1"]
    assert plot.curve == "M0 40H0.00V20.00H100"


def test_the_page_draws_them_and_escapes_names() -> None:
    page = render_page(summary_of((1, 5), 4, depth=100))

    assert 'd="M0 40H0.00V30.00' in page
    assert "beyond 100: 2 of 4" in page
    assert "&lt;first&gt; <small>Alpha, all, 4 queries" in page
