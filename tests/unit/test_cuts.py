"""Counts of what was cut: added up, stored, and unknown where one part of them is."""

import pytest

from r2med_ray.cuts import CutCounter, Cuts, PartCuts, from_json, sum_of, sum_of_sides, to_json, together

ONE = Cuts(texts=10, cut=2, tokens=200, lost=30, lengths=(32,))
OTHER = Cuts(texts=6, cut=0, tokens=40, lost=0, lengths=(64,))
BOTH = Cuts(texts=16, cut=2, tokens=240, lost=30, lengths=(32, 64))


def test_a_counter_counts_texts_and_tokens_and_begins_anew_when_they_are_taken() -> None:
    counter = CutCounter()
    counter.note("query", [3, 4, 4], [0, 5, 1], 4)
    counter.note("query", [2], [0], 4)
    counter.note("document", [7, 2], [1, 0], 7, times=[3, 1])

    # Document 1 counts three times: 3 × 8 tokens and the 2 of document 2.
    assert counter.take() == {
        "query": Cuts(texts=4, cut=2, tokens=19, lost=6, lengths=(4,)),
        "document": Cuts(texts=4, cut=3, tokens=26, lost=3, lengths=(7,)),
    }
    assert counter.take() == {}


def test_shares_are_of_texts_and_of_tokens() -> None:
    assert (ONE.share_cut, ONE.share_lost) == (0.2, 0.15)
    assert (Cuts().share_cut, Cuts().share_lost) == (0, 0)


def test_a_tokenizer_without_a_limit_has_no_length() -> None:
    counter = CutCounter()
    counter.note("query", [3], [0], int(1e30))

    assert counter.take()["query"].lengths == ()


def test_a_sum_is_unknown_if_a_part_of_it_is() -> None:
    assert sum_of([ONE, OTHER]) == BOTH
    assert sum_of([ONE, None]) is None
    assert sum_of_sides([{"query": ONE}, {"query": OTHER, "document": ONE}]) == {"query": BOTH, "document": ONE}
    assert sum_of_sides([{"query": ONE}, None]) is None


def test_a_reranker_that_read_no_pair_cut_nothing() -> None:
    assert PartCuts.of_sides("r", "pairs", {}) == PartCuts(part="r", of="pairs", query=Cuts(), document=Cuts())
    assert PartCuts.of_sides("r", "pairs", None) == PartCuts(part="r", of="pairs")


def test_stored_counts_are_read_back() -> None:
    assert from_json(to_json(BOTH)) == BOTH
    assert from_json(None) is to_json(None) is None


def test_several_searches_in_one_corpus_add_up_their_queries_and_read_its_documents_once() -> None:
    first = PartCuts(part="m", of="texts", query=ONE, document=BOTH, queries=10, same=2)
    second = PartCuts(part="m", of="texts", query=OTHER, document=BOTH, queries=6, same=0)
    elsewhere = PartCuts(part="m", of="texts", query=OTHER, document=ONE, queries=6)

    assert together([first, elsewhere, second]) == (
        PartCuts(part="m", of="texts", query=BOTH, document=BOTH, queries=16, same=2),
        elsewhere,
    )


def test_counts_of_unequal_length_are_refused() -> None:
    # Numpy would stretch a list of one number to the length of the others.
    with pytest.raises(ValueError, match="inhomogeneous"):
        CutCounter().note("document", [5], [0, 1], 8, [1, 1])
