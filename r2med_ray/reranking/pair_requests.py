"""Requests for scores: pairs that are scored together. Which are, the pairs alone decide.

On a GPU the last bits of a score depend on the pairs beside it. So pairs are packed in one fixed order, whoever
scores them. The scores of each request are kept, and a job that goes on after it was killed makes the same requests.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from r2med_ray.cuts import sum_of_sides
from r2med_ray.protocols import Candidates
from r2med_ray.reranking.pair_reranking import Scored
from r2med_ray.reranking.stored_scores import read_reranking, reranking_files
from r2med_ray.sentences import Shares
from r2med_ray.storage.artifact import Artifact
from r2med_ray.storage.keys import ArtifactKey, Json, fingerprint
from r2med_ray.types import DocId, QueryId, Reranking

KIND = "pair_scores"

CHARACTERS_PER_TOKEN = 4
"""Rough length of an English token. It limits the size of a request before anything is tokenised."""

FORWARD_PASSES_PER_REQUEST = 4
"""Size of a request in token budgets. With more pairs a scorer can sort more pairs by length; with fewer pairs it
answers sooner, and a job that is killed loses less."""

_NO_QUERY = ""
"""Stands for the query in the artefact of a request, which holds pairs of several queries."""


class Candidate(NamedTuple):
    """A pair, and the ids of its texts."""

    doc_id: DocId
    query_id: QueryId
    pair: tuple[str, str]

    @property
    def tokens(self) -> int:
        return (len(self.pair[0]) + len(self.pair[1])) // CHARACTERS_PER_TOKEN + 1


@dataclass(frozen=True, slots=True)
class PairRequest:
    """Pairs that are scored together."""

    candidates: Sequence[Candidate]

    @property
    def pairs(self) -> list[tuple[str, str]]:
        return [candidate.pair for candidate in self.candidates]

    @property
    def names(self) -> list[str]:
        """The ids of each pair, for errors."""
        return [f"{candidate.query_id} {candidate.doc_id}" for candidate in self.candidates]

    @property
    def unit(self) -> str:
        """The queries of the request, in words, for errors."""
        others = len({candidate.query_id for candidate in self.candidates}) - 1
        return f"query {self.candidates[0].query_id!r}" + (f" and {others} others" if others else "")

    def of(self, positions: Sequence[int]) -> "PairRequest":
        """Return a request for some of the pairs."""
        return PairRequest([self.candidates[position] for position in positions])

    def key(self, inputs: Mapping[str, Json]) -> ArtifactKey:
        """Return the key of the request's scores.

        Args:
            inputs: everything about the scorer that changes a score.
        """
        return ArtifactKey(KIND, {**inputs, "pairs": fingerprint([list(pair) for pair in self.pairs])})


def packed(work: Sequence[Candidates], token_budget: int) -> list[PairRequest]:
    """Pack the pairs into requests, in the order of their documents.

    The pairs of one document are together, so a scorer that embeds texts embeds each document about once. A request
    is longer than the limit only if its single pair is longer.
    """
    candidates = [
        Candidate(document.doc_id, query.query_id, (query.text, document.content))
        for query, documents, _ in work
        for document in documents
    ]
    limit = FORWARD_PASSES_PER_REQUEST * token_budget
    requests: list[list[Candidate]] = []
    tokens = 0
    for candidate in sorted(candidates):
        tokens += candidate.tokens
        if not requests or tokens > limit:
            requests.append([])
            tokens = candidate.tokens
        requests[-1].append(candidate)
    return [PairRequest(request) for request in requests]


def gathered(work: Sequence[Candidates], answers: Iterable[tuple[PairRequest, Scored]]) -> Reranking:
    """Return the scores of all candidates, given those of all requests.

    Equal texts have one score for a query, that of the first of their ids, because on a GPU their own may differ.
    """
    by_pair: dict[tuple[QueryId, str], tuple[Candidate, float, Shares]] = {}
    cuts, examples, are_told = [], [], False
    for request, scored in answers:
        cuts.append(scored.cuts)
        examples.append(scored.example)
        are_told |= scored.sentences is not None
        shares = scored.sentences or [()] * len(scored.scores)
        for found in zip(request.candidates, scored.scores, shares, strict=True):
            pair = found[0].query_id, found[0].pair[1]
            by_pair[pair] = min(by_pair.get(pair, found), found)
    of_work = {
        query.query_id: [by_pair[query.query_id, document.content] for document in documents]
        for query, documents, _ in work
    }
    return Reranking(
        scores={query_id: [score for _, score, _ in found] for query_id, found in of_work.items()},
        cuts=sum_of_sides(cuts),
        example=next(filter(None, examples), None),
        sentences={query_id: [each for *_, each in found] for query_id, found in of_work.items()}
        if are_told
        else None,
    )


def scored_files(scored: Scored) -> dict[str, bytes]:
    """Return file name → content for the scores of one request, in the order of its pairs."""
    sentences = None if scored.sentences is None else {_NO_QUERY: scored.sentences}
    return reranking_files(
        Reranking(scores={_NO_QUERY: scored.scores}, cuts=scored.cuts, example=scored.example, sentences=sentences)
    )


def read_scored(artifact: Artifact) -> Scored:
    """Return the scores that an artefact with the files of `scored_files` holds.

    Raises:
        ArtifactError: a file is missing or damaged.
    """
    reranking = read_reranking(artifact)
    sentences = None if reranking.sentences is None else list(reranking.sentences[_NO_QUERY])
    return Scored(list(reranking.scores[_NO_QUERY]), reranking.cuts, reranking.example, sentences)
