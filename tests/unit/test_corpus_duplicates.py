import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from r2med_ray.corpus.duplicates import find_duplicates
from r2med_ray.errors import DataError
from r2med_ray.types import Document


def duplicates(pairs, *, on_conflict="error", ids_at_once=100, hash_of=hash, reads=None):
    documents = [Document(doc_id=doc_id, text=text) for doc_id, text in pairs]

    def read_rows(rows):
        if reads is not None:
            reads.append(len({documents[row].doc_id for row in rows}))
        return [(row, documents[row]) for row in rows.tolist()]

    return find_duplicates(
        np.array([hash_of(doc_id) for doc_id, _ in pairs], np.int64),
        read_rows,
        on_conflict=on_conflict,
        ids_at_once=ids_at_once,
        where=lambda row: f"corpus.jsonl:{row + 1}",
    )


def test_the_first_of_equal_rows_is_kept():
    found = duplicates([("a", "x"), ("b", "x"), ("a", "x"), ("a", "x")])

    assert found.rows == (2, 3)
    assert found.warnings == ("2 rows of the corpus repeat another row and are skipped, e.g. 'a', 'a'",)


def test_ids_that_come_once_are_not_read():
    reads = []

    assert duplicates([("a", "x"), ("b", "x"), ("c", "x")], reads=reads).rows == ()
    assert reads == []


def test_an_empty_corpus_has_no_duplicates():
    assert duplicates([]).rows == ()


def test_two_texts_under_one_id_are_refused_with_both_lines():
    with pytest.raises(DataError, match=r"corpus\.jsonl:3: id 'a' has another text than at corpus\.jsonl:1"):
        duplicates([("a", "x"), ("b", "x"), ("a", "y")])


@pytest.mark.parametrize(
    ("texts", "skipped"),
    [
        pytest.param("xy", (0,), id="the last is kept"),
        pytest.param("xxy", (0, 1), id="a repeat before the last goes too"),
        pytest.param("xyy", (0, 2), id="of equal last texts the first is kept"),
        pytest.param("xyx", (0, 1), id="the first text comes back"),
        pytest.param("xx", (1,), id="without a conflict as ever"),
    ],
)
def test_the_published_protocol_keeps_the_last_text(texts, skipped):
    assert duplicates([("a", text) for text in texts], on_conflict="last").rows == skipped


def test_replaced_rows_are_counted_apart_from_repeated_ones():
    found = duplicates([("a", "x"), ("a", "y"), ("b", "x"), ("b", "x")], on_conflict="last")

    assert found.warnings == (
        "1 rows of the corpus repeat another row and are skipped, e.g. 'b'",
        "1 rows of the corpus are skipped, because a later one has another text under their id, e.g. 'a'",
    )


def test_a_hash_that_two_ids_share_proves_nothing():
    assert duplicates([("a", "x"), ("b", "x"), ("a", "x")], hash_of=lambda _: 7).rows == (2,)


def test_comparing_holds_no_more_ids_than_it_may():
    pairs = [(f"d{number}", "x") for number in range(7)] * 2
    reads = []

    assert duplicates(pairs, ids_at_once=3, reads=reads).rows == tuple(range(7, 14))
    assert reads == [3, 3, 1]


@given(
    pairs=st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("xy")), max_size=12),
    ids_at_once=st.integers(1, 3),
    buckets=st.integers(1, 5),
)
def test_what_is_left_with_last_is_what_a_dictionary_would_hold(pairs, ids_at_once, buckets):
    found = duplicates(
        pairs, on_conflict="last", ids_at_once=ids_at_once, hash_of=lambda doc_id: ord(doc_id) % buckets
    )

    left = [pair for row, pair in enumerate(pairs) if row not in found.rows]
    assert sorted(left) == sorted(dict(pairs).items())
