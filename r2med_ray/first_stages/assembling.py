"""Puts the artefact of a shard together from the artefacts of its pieces, once all of them are made."""

from collections import Counter
from collections.abc import Mapping

from r2med_ray.cuts import from_json, sum_of, to_json
from r2med_ray.errors import ArtifactError
from r2med_ray.first_stages.making import joined
from r2med_ray.first_stages.piece_files import read_piece, remove_pieces
from r2med_ray.first_stages.preparation import Piece, QueryWork, ShardWork
from r2med_ray.first_stages.stored_cuts import CUTS
from r2med_ray.first_stages.stored_examples import EXAMPLE
from r2med_ray.first_stages.stored_speed import SPEED, per_computer, speeds_of
from r2med_ray.storage.artifact import Artifact
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import Json
from r2med_ray.storage.listing import made_for


class Gathered:
    """Knows of each shard how many of its pieces are made, and what was counted of them."""

    def __init__(self) -> None:
        self._pieces: Counter[str] = Counter()
        self._counted: dict[str, Counter[str]] = {}

    def finished(self, work: Piece, numbers: Mapping[str, float]) -> tuple[ShardWork | None, Mapping[str, float]]:
        """Note work that is done, and its numbers.

        Returns:
            The work on a whole shard if its last piece is made. The numbers, without those of pieces that were
            counted before a worker made the whole shard.
        """
        if isinstance(work, QueryWork):
            return None, numbers
        name = (work.whole or work).key.name
        counted = self._counted.setdefault(name, Counter())
        if work.whole is None:
            return None, {key: max(0, number - counted[key]) for key, number in numbers.items()}
        counted.update({key: int(number) for key, number in numbers.items()})
        self._pieces[name] += 1
        return work.whole if self._pieces[name] == work.pieces else None, numbers


def put_together(store: ArtifactStore, work: ShardWork) -> None:
    """Store the artefact of a shard whose pieces are stored, and remove these.

    Its files are those that making the whole shard would have written.

    Raises:
        ArtifactError: a piece is missing or damaged, and no other job has put the shard together.
    """
    if store.find(work.key) is not None:
        return
    try:
        pieces = [store.get(piece.key) for piece in work.in_pieces()]
        tables = joined([read_piece(piece) for piece in pieces])
    except ArtifactError:
        if store.find(work.key) is not None:  # another job was faster, and has removed the pieces
            return
        raise
    with store.create(work.key) as writer:
        writer.attributes |= _attributes(pieces) | made_for(work.task, work.label)
        for name, table in tables.items():
            writer.write_table(name, table)
    remove_pieces(store, work)


def _attributes(pieces: list[Artifact]) -> dict[str, Json]:
    """Return what is told of a whole shard: sums, and an example of its beginning."""
    noted: Mapping[str, Json] = {
        CUTS: to_json(sum_of(from_json(piece.attributes.get(CUTS)) for piece in pieces)),
        SPEED: [speed.to_json() for speed in per_computer(speed for piece in pieces for speed in speeds_of(piece))],
        EXAMPLE: next((piece.attributes[EXAMPLE] for piece in pieces if EXAMPLE in piece.attributes), None),
    }
    return {name: value for name, value in noted.items() if value is not None}
