import pytest

from r2med_ray.protocols import Candidates
from r2med_ray.reranking.orderings import Ordering, RepairCounts, rank_scores, window_starts
from r2med_ray.types import Document, Query


def ordering(*order: int) -> Ordering:
    documents = [Document(doc_id=f"d{position}", text="rash") for position in range(len(order))]
    candidates = Candidates(Query(query_id="q", text="rash"), documents, [0.0] * len(order))
    return Ordering(candidates, 0, list(order), RepairCounts())


@pytest.mark.parametrize(
    ("length", "starts"),
    [
        pytest.param(0, [], id="nothing to order"),
        pytest.param(1, [], id="nothing to compare"),
        pytest.param(3, [0], id="shorter than a window"),
        pytest.param(4, [0], id="one window"),
        # windows of 4 move by 2 from the end: 6..9, 4..7, 2..5, 0..3
        pytest.param(10, [6, 4, 2, 0], id="several"),
        # the windows are 5..8, 3..6, 1..4, and the head 0..3
        pytest.param(9, [5, 3, 1, 0], id="the last one begins at the head"),
    ],
)
def test_windows_go_from_the_end_to_the_head(length: int, starts: list[int]) -> None:
    assert window_starts(length, 4, 2) == starts


def test_orders_of_passes_are_fused_and_equal_sums_keep_the_first_stages_order() -> None:
    # 0 and 1 each have 1/61 + 1/62, and 2 has 2/63; 0 is before 1, as in the first stage
    assert rank_scores([[[1], [0], [2]], [[0], [1], [2]]]) == [3.0, 2.0, 1.0]
    # 2 is first twice: 2/61; 0 is second twice, 1 third twice
    assert rank_scores([[[2], [0], [1]], [[2], [0], [1]]]) == [2.0, 1.0, 3.0]


def test_passes_treat_tied_candidates_as_equal() -> None:
    # In the first pass 0 and 1 each have (1/61 + 1/62) / 2, so the second pass decides: 1 has 1/61, 0 has 1/62. If 0
    # were before 1 in the first pass, their sums would be equal and 0 would be first.
    assert rank_scores([[[0, 1], [2]], [[1], [0], [2]]]) == [2.0, 3.0, 1.0]
    # All three share 1/61 + 1/62 + 1/63, and the second pass decides alone.
    assert rank_scores([[[0, 1, 2]], [[2], [1], [0]]]) == [1.0, 2.0, 3.0]
    # A tie takes nothing from who is below: 2 has 1/63, and not 1/62.
    # 0 has (1/61 + 1/62) / 2 + 1/63 = 0.03213…, 2 has 1/63 + 1/61 = 0.03227…, 1 has (1/61 + 1/62) / 2 + 1/62.
    assert rank_scores([[[0, 1], [2]], [[2], [1], [0]]]) == [1.0, 3.0, 2.0]


def test_equal_sums_are_equal_whichever_pass_gave_what() -> None:
    # 0 has the ranks 1, 7, 2 and 1 has the ranks 2, 1, 7. Added one after the other in floating point, 1 has more.
    orders = [[0, 1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 0], [2, 0, 3, 4, 5, 6, 1]]
    assert 1 / 61 + 1 / 67 + 1 / 62 < 1 / 62 + 1 / 61 + 1 / 67

    scores = rank_scores([[[position] for position in order] for order in orders])

    assert scores[0] == scores[1] + 1


def test_the_first_stages_order_decides_inside_a_tie() -> None:
    shuffled = ordering(2, 0, 1)

    shuffled.reorder(0, "[1] = [3] > [2]", "", window=3)

    assert shuffled.order == [1, 2, 0]
    assert shuffled.levels == [[1, 2], [0]]


def test_a_tie_ends_if_a_later_window_shows_only_one_of_the_two() -> None:
    led = ordering(0, 1, 2, 3)
    led.reorder(1, "[1] = [2] = [3]", "", window=3)
    assert led.levels == [[0], [1, 2, 3]]

    led.reorder(0, "[2] = [3] > [1]", "", window=3)  # 3 is not shown
    assert led.levels == [[1, 2], [0], [3]]


def test_an_unreadable_answer_leaves_order_and_ties() -> None:
    led = ordering(0, 1, 2, 3)
    led.reorder(1, "[2] = [3] > [1]", "", window=3)
    led.reorder(0, "no idea", "", window=3)

    assert led.levels == [[0], [2, 3], [1]]


def test_equal_grades_are_ties() -> None:
    led = ordering(3, 1, 0, 2)
    led.grade([3, 1], "[1]: 5\n[2]: 7", "", best=10)
    led.grade([0, 2], "[1]: 5\n[2]: 0", "", best=10)
    led.order_by_grades()

    assert led.levels == [[1], [0, 3], [2]]
