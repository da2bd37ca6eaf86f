import pytest

from r2med_ray.ranking import best
from r2med_ray.retrieval.file_order import id_of, in_run_order, row_id
from r2med_ray.types import ScoredDoc


@pytest.mark.parametrize("doc_id", ["d1", "9", "ß/x.txt", "0123456789012345678901234567890"])
@pytest.mark.parametrize("row", [0, 9, 10, 60_405, 10**12])
def test_the_doc_id_comes_back_whatever_its_row(doc_id, row):
    assert id_of(row_id(row, doc_id), "file row") == doc_id
    assert id_of(doc_id, "doc id") == doc_id


@pytest.mark.parametrize(("earlier", "later"), [(0, 1), (9, 10), (99_999, 100_000), (1, 10**12)])
def test_an_earlier_row_comes_before_a_later_one_whatever_their_ids(earlier, later):
    for ids in (("a", "z"), ("z", "a")):
        hits = [ScoredDoc(row_id(later, ids[1]), 1.0), ScoredDoc(row_id(earlier, ids[0]), 1.0)]
        assert id_of(best(hits, 1)[0].doc_id, "file row") == ids[0]


def test_what_was_kept_is_ordered_by_score_and_doc_id():
    kept = (ScoredDoc(row_id(0, "a"), 1.0), ScoredDoc(row_id(7, "b"), 1.0), ScoredDoc(row_id(3, "c"), 2.0))

    assert in_run_order(kept) == (("c", 2.0), ("b", 1.0), ("a", 1.0))
