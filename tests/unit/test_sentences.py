"""Texts are cut into sentences, and a score of late interaction into the shares of sentences."""

import numpy as np
import pytest

from r2med_ray.sentences import NO_SENTENCE, best_sentences, sentences, sentences_of_tokens, shares


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("A rash. It itches!  Why?", ["A rash.", "It itches!", "Why?"], id="marks"),
        pytest.param(
            "Dr. Smith saw 0.5 mg (Fig. 3) vs. 2 mg.", ["Dr. Smith saw 0.5 mg (Fig. 3) vs. 2 mg."], id="short"
        ),
        pytest.param("E. coli grew. 3 of 4 died.", ["E. coli grew.", "3 of 4 died."], id="small letters and numbers"),
        pytest.param('He said "No." Then he left.', ['He said "No."', "Then he left."], id="quotes"),
        pytest.param("Background\n\n rubella harms \n", ["Background", "rubella harms"], id="lines"),
        pytest.param("發燒。皮疹！", ["發燒。", "皮疹！"], id="no spaces"),
        pytest.param(" \n ", [], id="nothing"),
    ],
)
def test_a_text_is_cut_between_its_sentences(text: str, expected: list[str]) -> None:
    assert [text[start:stop].lstrip() for start, stop in sentences(text)] == expected


def test_a_token_belongs_to_the_sentence_of_its_last_character() -> None:
    # "A rash." are the characters 0 to 7, "It itches." 8 to 18. Some tokenizers put the space before a word into it.
    tokens = [(0, 1), (1, 6), (6, 7), (7, 10), (10, 17), (0, 0)]

    numbers = sentences_of_tokens(sentences("A rash. It itches."), tokens)

    assert numbers.tolist() == [0, 0, 0, 1, 1, NO_SENTENCE]


COSINES = np.array([[0.5, 0.2, 0.1, 0.3], [0.1, 0.3, 0.6, 0.2], [0.0, 0.4, 0.1, 0.9]], np.float32)
"""Three tokens of a query with four of a document."""


def test_the_share_of_a_sentence_is_its_part_of_the_sum_of_best_matches() -> None:
    # The best matches are 0.5 in sentence 0, 0.6 in sentence 2 and 0.9 in no sentence: of 2.0 together,
    # 0.25, 0 and 0.3 are of sentences.
    assert shares(COSINES, np.array([0, 1, 2, NO_SENTENCE], np.int32)) == (0.25, 0.0, 0.3)


def test_weights_of_the_querys_tokens_count() -> None:
    # 2 × 0.5, 0.6 and 0.9 are 2.5 together.
    shared = shares(COSINES, np.array([0, 0, 0, 1], np.int32), np.array([2.0, 1.0, 1.0]))

    assert shared == (0.64, 0.36)


def test_of_equal_matches_the_first_token_of_the_document_counts() -> None:
    assert shares(np.array([[0.5, 0.5]]), np.array([1, 0], np.int32)) == (0.0, 1.0)


def test_a_score_that_is_not_positive_has_no_shares_and_neither_has_one_of_unknown_tokens() -> None:
    assert shares(-COSINES, np.array([0, 1, 2, 3], np.int32)) == ()
    assert shares(COSINES, np.full(4, NO_SENTENCE, np.int32)) == ()


def test_the_best_three_sentences_are_told_with_their_places_and_shares() -> None:
    text = "One. Two. Three. Four. Five."

    best = best_sentences(text, (0.1, 0.3, 0.004, 0.2, 0.25))

    assert [(each.number, text[each.start : each.stop], each.percent) for each in best] == [
        (2, "Two.", 30),
        (5, "Five.", 25),
        (4, "Four.", 20),
    ]
    assert best_sentences(text, (0.5, 0.004)) == [(1, 0, 4, 50)]  # 0.4 % is none
