from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from r2med_ray.cuts import CutCounter, Cuts, Side, SideCuts
from r2med_ray.models.networks import maxsim as module
from r2med_ray.models.networks.maxsim import MaxSimScorer, maxsim
from r2med_ray.types import FloatMatrix

VECTORS = {"east": [1.0, 0.0], "north": [0.0, 1.0], "northeast": [0.6, 0.8]}


class WordVectors:
    """An encoder with one unit vector per word. It remembers every text that it encodes, and counts its words."""

    def __init__(self):
        self.seen: list[str] = []
        self._cuts = CutCounter()

    def token_vectors(
        self, texts: Sequence[str], prompt: str = "", *, side: Side = "query", times: Sequence[int] | None = None
    ) -> list[FloatMatrix]:
        self.seen += [prompt + text for text in texts]
        self._cuts.note(side, [len(text.split()) for text in texts], [0] * len(texts), 9, times)
        return [np.array([VECTORS[word] for word in text.split()], dtype=np.float32) for text in texts]

    def token_sentences(self, text: str, prompt: str = "") -> npt.NDArray[np.int32]:
        return np.arange(len(text.split()), dtype=np.int32)  # each word is a sentence

    def take_cuts(self) -> SideCuts:
        return self._cuts.take()


def test_maxsim_is_the_sum_of_each_query_tokens_best_match():
    query = np.array([VECTORS["east"], VECTORS["north"]], dtype=np.float32)
    document = np.array([VECTORS["northeast"], VECTORS["north"]], dtype=np.float32)

    # east: max(0.6, 0) = 0.6; north: max(0.8, 1) = 1
    assert maxsim(query @ document.T) == pytest.approx(1.6)
    # in the other direction, northeast: max(0.6, 0.8) = 0.8; north: max(0, 1) = 1
    assert maxsim(document @ query.T) == pytest.approx(1.8)


def test_scores_stand_in_the_order_of_the_pairs_and_each_text_is_encoded_once():
    encoder = WordVectors()
    pairs = [("east", "north"), ("east north", "northeast north"), ("east", "northeast north"), ("east", "east")]

    scores = MaxSimScorer(encoder).score_pairs(pairs)

    assert scores == pytest.approx([0.0, 1.6, 0.6, 1.0])
    assert sorted(encoder.seen) == ["east", "east", "east north", "north", "northeast north"]


def test_the_sentences_that_make_each_score_are_told_once_in_the_order_of_the_pairs():
    scorer = MaxSimScorer(WordVectors())
    scorer.score_pairs([("east north", "northeast north"), ("east", "north")])

    # east matches northeast by 0.6 and north matches north by 1, so the shares of 1.6 are 0.375 and 0.625. East and
    # north have nothing in common.
    assert scorer.take_sentences() == [(0.375, 0.625), ()]
    assert scorer.take_sentences() == []


def test_prompts_stand_before_queries_and_documents():
    encoder = WordVectors()

    MaxSimScorer(encoder, query_prompt="q: ", document_prompt="d: ").score_pairs([("east", "north")])

    assert encoder.seen == ["q: east", "d: north"]


def test_documents_are_encoded_in_blocks_and_no_score_depends_on_that(monkeypatch: pytest.MonkeyPatch):
    pairs = [("east", "north"), ("north", "northeast"), ("north", "north"), ("east", "northeast")]
    whole = MaxSimScorer(WordVectors()).score_pairs(pairs)
    monkeypatch.setattr(module, "DOCUMENTS_PER_BLOCK", 1)

    assert MaxSimScorer(WordVectors()).score_pairs(pairs) == whole


@pytest.mark.parametrize("block", [1, 256])
def test_texts_count_once_per_pair_though_each_is_encoded_once(block: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "DOCUMENTS_PER_BLOCK", block)
    scorer = MaxSimScorer(WordVectors())
    scorer.score_pairs([("east", "north"), ("east", "north north"), ("north east", "north")])

    # The queries of the three pairs have 1 + 1 + 2 words, the documents 1 + 2 + 1.
    counts = Cuts(texts=3, tokens=4, lengths=(9,))
    assert scorer.take_cuts() == {"query": counts, "document": counts}
    assert scorer.take_cuts() == {}


def test_rk03_no_pairs_give_an_empty_list():
    assert MaxSimScorer(WordVectors()).score_pairs([]) == []
