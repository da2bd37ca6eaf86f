"""Random controls: a document of about the same length, never a positive, never twice for a query."""

from r2med_ray.negatives.controls import NEAREST, length_matched
from r2med_ray.negatives.drafts import Draft, Slot
from r2med_ray.storage.artifacts import ArtifactStore
from tests.unit.tasks import task_of


def draft(words: int, number: int = 0) -> Draft:
    return Draft(slot=Slot("q", "d0", "mimic", 1, number), attempt=0, seed=1, text=" ".join([f"w{number}"] * words))


def test_the_only_document_that_is_no_positive_is_drawn_whatever_its_length(store: ArtifactStore) -> None:
    task = task_of(store, ["a b c", "a b c d e f g"], shards=2)

    # d0 has the same number of words, but is the positive of q. The second draft finds nothing left.
    drawn = length_matched(store, task, [draft(3), draft(3, 1)], seed=1)

    assert [(one.query_id, one.source, one.text) for one in drawn] == [("q", "d1", "a b c d e f g")]


def test_documents_are_drawn_among_those_whose_numbers_of_words_are_nearest(store: ArtifactStore) -> None:
    # dN has N + 1 words. For 60 words the nearest 20 have 50 to 69 or 70: 10 below, 60 itself, and 9 above, as of two
    # equally near ones the shorter comes first.
    task = task_of(store, [" ".join(["w"] * (number + 1)) for number in range(100)], shards=1)

    drawn = {one.source for seed in range(200) for one in length_matched(store, task, [draft(60)], seed=seed)}

    assert drawn == {f"d{words - 1}" for words in range(50, 70)}
    assert len(drawn) == NEAREST


def test_a_query_gets_no_document_twice(store: ArtifactStore) -> None:
    task = task_of(store, [f"w{number} x" for number in range(9)], shards=1)

    drawn = length_matched(store, task, [draft(2, number) for number in range(8)], seed=3)

    assert sorted(one.source for one in drawn) == [f"d{number}" for number in range(1, 9)]
    assert drawn == length_matched(store, task, [draft(2, number) for number in range(8)], seed=3)
