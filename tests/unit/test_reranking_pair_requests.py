"""Pairs are packed into the same requests whoever asks, and their scores come back to their places."""

from dataclasses import replace
from itertools import pairwise

import pytest

from r2med_ray.cuts import Cuts
from r2med_ray.protocols import Candidates
from r2med_ray.reranking.pair_requests import gathered, packed, read_scored, scored_files
from r2med_ray.reranking.pair_reranking import Scored
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Document, Query


def candidates(query_id: str, *doc_ids: str) -> Candidates:
    documents = [Document(doc_id=doc_id, text=f"about {doc_id}") for doc_id in doc_ids]
    return Candidates(Query(query_id=query_id, text=f"what is {query_id}"), documents, [0.0] * len(documents))


WORK = [candidates("q1", "d2", "d1"), candidates("q2"), candidates("q3", "d1", "d3")]


def test_pairs_are_packed_by_document_whatever_the_order_of_the_queries() -> None:
    # A pair has 10 + 8 characters, which is 18 // 4 + 1 = 5 tokens. A request holds 4 × 3 = 12 tokens: two pairs.
    names = [request.names for request in packed(WORK, token_budget=3)]

    assert names == [["q1 d1", "q3 d1"], ["q1 d2", "q3 d3"]]
    assert [request.names for request in packed(WORK[::-1], token_budget=3)] == names


def test_a_pair_that_is_longer_than_a_request_is_alone() -> None:
    assert [len(request.pairs) for request in packed(WORK, token_budget=1)] == [1, 1, 1, 1]


def test_every_score_comes_back_to_the_place_of_its_candidate() -> None:
    requests = packed(WORK, token_budget=3)
    scored = [Scored([1.0, 2.0], {"query": Cuts(texts=2)}), Scored([3.0, 4.0], {"query": Cuts(texts=2)})]
    reranking = gathered(WORK, zip(requests, scored, strict=True))

    # q1 asked for d2, d1; q3 for d1, d3.
    assert reranking.scores == {"q1": [3.0, 1.0], "q2": [], "q3": [2.0, 4.0]}
    assert reranking.cuts == {"query": Cuts(texts=4)}


def test_the_sentences_of_a_score_come_back_with_it_and_are_unknown_if_no_scorer_tells_them() -> None:
    requests = packed(WORK, token_budget=3)
    scored = [Scored([1.0, 2.0], None, None, [(0.1,), (0.2,)]), Scored([3.0, 4.0], None, None, [(0.3,), (0.4,)])]

    told = gathered(WORK, zip(requests, scored, strict=True))
    untold = gathered(WORK, zip(requests, (each._replace(sentences=None) for each in scored), strict=True))

    assert told.sentences == {"q1": [(0.3,), (0.1,)], "q2": [], "q3": [(0.2,), (0.4,)]}
    assert untold.sentences is None


@pytest.mark.parametrize("in_order", [list, lambda answers: answers[::-1]], ids=["first to last", "last to first"])
def test_equal_texts_have_the_score_of_the_first_of_their_ids_in_whatever_order_answers_arrive(in_order) -> None:
    query, documents, scores = candidates("q1", "d3", "d1", "d2")
    texts = ["same", "other", "same"]
    documents = [replace(document, text=text) for document, text in zip(documents, texts, strict=True)]
    work = [Candidates(query, documents, scores)]
    requests = packed(work, token_budget=1)
    answers = [(request, Scored([float(number)], None)) for number, request in enumerate(requests)]

    # d1 has 0.0, d2 has 1.0 and d3 2.0; d2 is the first id of the text that d2 and d3 have.
    assert gathered(work, in_order(answers)).scores == {"q1": [1.0, 0.0, 1.0]}


def test_the_scores_of_a_request_have_another_key_for_every_text_and_every_scorer() -> None:
    requests = [*packed(WORK, token_budget=1), *packed([candidates("q1", "d9")], token_budget=1)]
    keys = [request.key(inputs).name for request in requests for inputs in ({"model": "a"}, {"model": "b"})]

    assert len(set(keys)) == len(keys)
    assert all(one.startswith("pair_scores/") for one in keys)


def test_a_request_of_the_same_texts_has_one_key_whatever_the_ids_are() -> None:
    query, documents, scores = candidates("q1", "d1")
    renamed = Candidates(Query(query_id="z", text=query.text), documents, scores)

    one, other = (packed([work], 1)[0].key({}) for work in (candidates("q1", "d1"), renamed))
    assert one == other


def test_kept_scores_are_read_as_they_were_made(store: ArtifactStore) -> None:
    made = [
        Scored([0.1, -2.0], {"document": Cuts(texts=2, cut=1, tokens=9, lost=3, lengths=(4,))}),
        Scored([1.0], None),
        Scored([1.0, 2.0], None, None, [(0.25, 0.5), ()]),
    ]
    [request, *_] = packed(WORK, token_budget=3)
    for number, scored in enumerate(made):
        with store.create(request.key({"number": number})) as writer:
            for name, content in scored_files(scored).items():
                writer.write(name, content)

    assert [read_scored(store.get(request.key({"number": number}))) for number in range(3)] == made


def test_no_request_but_the_last_has_room_for_the_next_pair() -> None:
    requests = packed([candidates(f"q{n}", *(f"d{place}" for place in range(n))) for n in range(9)], token_budget=5)
    tokens = [sum(candidate.tokens for candidate in request.candidates) for request in requests]

    assert max(tokens) <= 20
    assert all(
        one + other.candidates[0].tokens > 20 for one, (_, other) in zip(tokens, pairwise(requests), strict=False)
    )
