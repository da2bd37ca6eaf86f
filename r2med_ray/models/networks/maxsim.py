"""Late interaction for reranking: a pair is scored by the vectors of its tokens.

Shape letters: S tokens of the query, T tokens of the document, D hidden size.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from r2med_ray.cuts import Side, SideCuts
from r2med_ray.protocols import taken_cuts
from r2med_ray.sentences import Shares, shares
from r2med_ray.types import FloatMatrix

DOCUMENTS_PER_BLOCK = 256
"""Documents whose token vectors are held at once: 256 of 256 tokens of 384 float32 are 100 MB."""


class TokenEncoder(Protocol):
    def token_vectors(
        self, texts: Sequence[str], prompt: str = "", *, side: Side = "query", times: Sequence[int] | None = None
    ) -> list[FloatMatrix]:
        """Return float32 of shape (T, D) per text. The rows have unit length.

        In counts of what is cut, text i counts `times[i]` times.
        """
        ...

    def token_sentences(self, text: str, prompt: str = "") -> npt.NDArray[np.int32]:
        """Return the number of the sentence of each token of a text, int32 of shape (T,)."""
        ...


def maxsim(cosines_ST: FloatMatrix) -> float:
    """Return the sum, over query tokens, of the greatest cosine with a document token (ColBERT, arXiv 2004.12832)."""
    return float(cosines_ST.max(axis=1).sum())


class MaxSimScorer:
    """Scores pairs by `maxsim`, exactly, over an encoder's token vectors.

    Special tokens take part, as [CLS] does in ColBERT, so even an empty text has a score.

    Args:
        encoder: makes the token vectors.
        query_prompt: a text that is put before each query.
        document_prompt: a text that is put before each document.
    """

    def __init__(self, encoder: TokenEncoder, *, query_prompt: str = "", document_prompt: str = "") -> None:
        self._encoder = encoder
        self._query_prompt = query_prompt
        self._document_prompt = document_prompt
        self._sentences: list[Shares] = []

    def score_pairs(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        """Return one score per (query, document), in their order. A text that comes several times is encoded once."""
        pairs_of = Counter(query for query, _ in pairs)
        queries, times = list(pairs_of), list(pairs_of.values())
        encoded = self._encoder.token_vectors(queries, self._query_prompt, side="query", times=times)
        vectors_of = dict(zip(queries, encoded, strict=True))
        positions_of: defaultdict[str, list[int]] = defaultdict(list)
        for position, (_, document) in enumerate(pairs):
            positions_of[document].append(position)
        scores = [0.0] * len(pairs)
        self._sentences = [()] * len(pairs)
        documents = list(positions_of)
        for start in range(0, len(documents), DOCUMENTS_PER_BLOCK):
            block = documents[start : start + DOCUMENTS_PER_BLOCK]
            times = [len(positions_of[document]) for document in block]
            vectors = self._encoder.token_vectors(block, self._document_prompt, side="document", times=times)
            for document, document_TD in zip(block, vectors, strict=True):
                sentences_T = self._encoder.token_sentences(document, self._document_prompt)
                for position in positions_of[document]:
                    cosines_ST = vectors_of[pairs[position][0]] @ document_TD.T
                    scores[position] = maxsim(cosines_ST)
                    self._sentences[position] = shares(cosines_ST, sentences_T)
        return scores

    def take_sentences(self) -> list[Shares]:
        """Return the share of each sentence of the document in the score of each pair of the last call."""
        sentences, self._sentences = self._sentences, []
        return sentences

    def take_cuts(self) -> SideCuts | None:
        """Return what was cut off the queries and documents of all pairs since the last call."""
        return taken_cuts(self._encoder)
