from dataclasses import replace

import pytest

from r2med_ray.errors import DataError
from r2med_ray.reranking.readability import CONTEXT_LIMIT, require_readable
from r2med_ray.types import Repairs, Reranking


def reranked(*unreadable: str, asked: int, **reasons: int) -> Reranking:
    """Return the reranking of `asked` queries with two candidates, and of one query with nothing to order."""
    scores = {**{f"q{number}": [2.0, 1.0] for number in range(asked)}, "alone": [1.0]}
    return Reranking(scores=scores, repairs=Repairs(unreadable=dict.fromkeys(unreadable, reasons)))


def test_answers_may_be_unreadable_up_to_the_limit() -> None:
    # The limit is 29 of 100. In floating point, 0.29 × 100 is below 29.
    within = reranked(*(f"q{number}" for number in range(29)), asked=100, empty=1)

    require_readable(within, max_unusable=0.29, unit="s on T")
    require_readable(reranked(asked=0), max_unusable=0.0, unit="s on T")
    repaired = replace(within, repairs=Repairs(rules={"q1": {"id missing": 3}}))
    require_readable(repaired, max_unusable=0.0, unit="s on T")


def test_too_many_unreadable_answers_are_refused_with_queries_reasons_and_a_way_out() -> None:
    with pytest.raises(DataError) as raised:
        require_readable(reranked("q1", "q3", asked=4, empty=1, refusal=2), max_unusable=0.4, unit="s on T")

    # Two queries each have one empty answer and two refusals. The model was not asked about the fifth query.
    assert str(raised.value) == (
        "s on T: the reranker's answers to 2 of 4 queries can't be read (refusal: 4, empty: 2); at most 40% are "
        "allowed: q1, q3. Answers are stored, so the same settings give the same answers again. Set another `seed` "
        "in the reranker's row, a larger `max_tokens` in its language model's, or a larger `max_unusable` of the "
        "reranker"
    )


def test_a_refusal_names_ten_queries_and_counts_the_others() -> None:
    with pytest.raises(DataError, match=r"0% are allowed: q0, .*, q9 and 2 more\."):
        require_readable(reranked(*(f"q{n}" for n in range(12)), asked=12, empty=1), max_unusable=0, unit="s on T")


def test_where_prompts_were_too_long_the_way_out_is_a_shorter_prompt() -> None:
    repairs = Repairs(unreadable={"q0": {CONTEXT_LIMIT: 2}})

    with pytest.raises(DataError, match=r"\(context limit: 2\).*Set a smaller `window` or `passage_words`"):
        require_readable(replace(reranked(asked=4), repairs=repairs), max_unusable=0, unit="s on T")


def test_answers_about_single_candidates_are_limited_by_their_own_number() -> None:
    # 4 candidates of two queries with 2 answers each; nobody was asked about c. 1 of 8 answers is 12.5 %.
    reranking = Reranking(
        scores={"a": [2.0, 1.0], "b": [2.0, 1.0], "c": [1.0]}, repairs=Repairs(unreadable={"a": {"no number": 1}})
    )

    require_readable(reranking, max_unusable=0.125, unit="s on t", answers_per_candidate=2)
    with pytest.raises(DataError, match=r"s on t: 1 of 8 answers of the reranker can't be read \(no number: 1\)"):
        require_readable(reranking, max_unusable=0.12, unit="s on t", answers_per_candidate=2)
