"""Scores of pairs as artefacts: the pairs of all demands are one stream, and the scores of each request are kept."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from r2med_ray.first_stages.stored_speed import SPEED, Speed, per_computer, speeds_of
from r2med_ray.reranking.pair_requests import PairRequest, gathered, packed, read_scored, scored_files
from r2med_ray.reranking.pair_reranking import Scored
from r2med_ray.storage.artifact import Artifact
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import ArtifactKey, Json
from r2med_ray.types import Reranking
from r2med_ray.workbench.answers import ScoresAnswer
from r2med_ray.workbench.runner import RunningScorer


class ScoredDemand(NamedTuple):
    """A demand and its scores."""

    answer: ScoresAnswer
    reranking: Reranking
    scored: int
    """Pairs that were scored for it."""

    stored_before: int
    """Requests whose scores the store had already."""

    speeds: Sequence[Speed]
    """How fast all of its pairs were scored, per computer, whenever that was."""


class _Piece(NamedTuple):
    """A request, and where its scores are kept; None for one that holds all pairs of its demand."""

    request: PairRequest
    key: ArtifactKey | None


def score_demands(
    store: ArtifactStore,
    answers: Sequence[ScoresAnswer],
    inputs: Mapping[str, Json],
    token_budget: int,
    start: Callable[[int], RunningScorer],
) -> Iterator[ScoredDemand]:
    """Have pairs scored that no stored request holds, and yield each demand as soon as all of its scores are there.

    Args:
        store: keeps the scores of each request as soon as they are there, so that a killed job goes on with the rest.
        answers: the demands, all for one scorer.
        inputs: everything about the scorer that changes a score.
        token_budget: decides how many pairs a request holds.
        start: starts the scorer for so many requests. It isn't called if the store holds all scores.

    Raises:
        StageError: pairs failed for good. What was scored until then is kept.
    """
    demands = [(answer, _pieces(answer, inputs, token_budget)) for answer in answers]
    found = _found(store, [piece for _, pieces in demands for piece in pieces])
    missing = [piece.request for _, pieces in demands for piece in pieces if _digest(piece) not in found]
    scored = start(len(missing)).score(missing) if missing else iter(())
    speeds: list[Speed] = []

    def scores_of(piece: _Piece) -> Scored:
        stored = found.get(_digest(piece))
        if stored is not None:
            speeds.extend(speeds_of(stored))
            return read_scored(stored)
        fresh = next(scored)
        speed = [fresh.speed] if fresh.speed else []
        speeds.extend(Speed(**each) for each in speed)
        if piece.key is not None:
            with store.create(piece.key) as writer:
                writer.attributes |= {"unit": piece.request.unit, SPEED: speed}
                for name, content in scored_files(fresh).items():
                    writer.write(name, content)
        return fresh

    for answer, pieces in demands:
        speeds.clear()
        reranking = gathered(answer.score.candidates, ((piece.request, scores_of(piece)) for piece in pieces))
        fresh = [piece for piece in pieces if _digest(piece) not in found]
        scored_now = sum(len(piece.request.candidates) for piece in fresh)
        yield ScoredDemand(answer, reranking, scored_now, len(pieces) - len(fresh), per_computer(speeds))


def _pieces(answer: ScoresAnswer, inputs: Mapping[str, Json], token_budget: int) -> list[_Piece]:
    requests = packed(answer.score.candidates, token_budget)
    if len(requests) == 1:  # the artefact of the demand is written as soon as its only request is answered
        return [_Piece(requests[0], None)]
    return [_Piece(request, request.key(inputs)) for request in requests]


def _found(store: ArtifactStore, pieces: Sequence[_Piece]) -> dict[str | None, Artifact]:
    keys = [piece.key for piece in pieces if piece.key is not None]
    return {
        key.digest: artifact for key, artifact in zip(keys, store.find_all(keys), strict=True) if artifact is not None
    }


def _digest(piece: _Piece) -> str | None:
    return piece.key.digest if piece.key else None
