"""How one piece of preparation is made and stored: the artefact of one shard, or of the queries of one task.

Workers of a cluster and a single process call the same functions, so they store the same bytes. A piece that fails is
tried again once, by another worker. If it fails again, what is to blame for it is looked for.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from r2med_ray.blame import (
    Failed,
    Fails,
    blame,
    cause_of,
    failing,
    in_words,
    said_of,
    tried,
    with_names,
)
from r2med_ray.corpus.loading import ShardRows, rows_of_piece, rows_of_table
from r2med_ray.cuts import to_json
from r2med_ray.errors import CapacityError, ConfigError, DataError, NotAtHand, StageError
from r2med_ray.first_stage import Computing, Maker
from r2med_ray.first_stages.bad_documents import attributes_of, key_of_stored, key_without_bad, most_left_out
from r2med_ray.first_stages.piece_files import remove_pieces, write_piece
from r2med_ray.first_stages.preparation import QueryWork, ShardWork
from r2med_ray.first_stages.stored_cuts import CUTS, SAME, cuts_made, same_vectors
from r2med_ray.first_stages.stored_examples import EXAMPLE
from r2med_ray.first_stages.stored_speed import SPEED, USAGE, Speed
from r2med_ray.readings import listening
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import ArtifactKey, Json
from r2med_ray.storage.listing import made_for
from r2med_ray.types import DocId

READ_TOKENS = "read_tokens"
"""Name of the number of tokens that a model has read of documents."""

WORKED_S = "worked_s"
"""Name of the seconds that a model worked, without its loading and without reading and writing."""

FOUND = "found"
"""Name of the number of documents or queries whose artefact another job has made meanwhile."""

Tables: TypeAlias = Mapping[str, pa.Table]


def make_shard(
    store: ArtifactStore, maker: Maker, work: ShardWork, shard: ShardRows, computing: Computing
) -> dict[str, float]:
    """Make and store the artefact of one shard, or of one piece of it.

    At the last attempt, documents that can't be encoded are left out if the work says so; the artefact then has the
    key of `bad_documents` and lists them.

    Args:
        store: gets the artefact.
        maker: makes it.
        work: names it.
        shard: the documents of the shard or the piece.
        computing: what the maker was loaded with.

    Returns:
        `documents`, `WORKED_S`, `READ_TOKENS` where they are known, and what a service counted; or `FOUND` alone, if
        another job has made it since the work was listed.

    Raises:
        DataError: at the last attempt; names the documents that it failed on.
        Exception: whatever the maker raises, at the attempts before.
    """
    documents = shard.documents
    if any(store.find(key_of_stored(store, work.on_bad_document, each.key)) for each in (work, work.whole) if each):
        return {FOUND: len(documents)}

    def make(positions: Sequence[int]) -> Tables:
        return _tables(maker, work, shard, positions)

    whole = _tried(maker, lambda: make(range(len(documents))), work.is_last_attempt)
    if isinstance(whole, _Heard):
        _store(store, work, work.key, whole, whole.speed(len(documents), computing))
        return {"documents": len(documents), WORKED_S: whole.seconds, **whole.tokens, **whole.usage}
    most = most_left_out(len(documents)) if work.on_bad_document == "skip" else 0
    left_out = _left_out([document.doc_id for document in documents], failing(make), whole.cause, most)
    kept = [position for position, document in enumerate(documents) if document.doc_id not in left_out]
    rest = _heard(maker, lambda: make(kept))
    noted = attributes_of(left_out) | rest.speed(len(kept), computing)
    _store(store, work, key_without_bad(work.key), rest, noted)
    return {"documents": len(kept), WORKED_S: rest.seconds, **rest.tokens, **rest.usage}


def rows_of_work(table: pa.Table, work: ShardWork) -> ShardRows:
    """Return the documents that work is about, out of the table of its shard or of its piece.

    Raises:
        ArtifactError: the work is about a whole shard, and the table is not what the shard's digest says.
    """
    if work.whole:
        return rows_of_piece(table, skip_rows=work.skip_rows)
    return rows_of_table(table, work.shard, skip_rows=work.skip_rows, pieces=work.pieces)


def make_queries(store: ArtifactStore, maker: Maker, work: QueryWork, computing: Computing) -> dict[str, int]:
    """Make and store the artefact of one set of queries. `computing` is what the maker was loaded with.

    Returns:
        `documents`, which is the number of queries, and what a service counted; or `FOUND`, see `make_shard`.

    Raises:
        DataError: at the last attempt; names the query that it failed on.
        Exception: whatever the maker raises, at the attempts before.
    """

    def make(positions: Sequence[int]) -> Tables:
        return maker.make_queries(work.task, [work.queries[position] for position in positions], work.rules)

    if store.find(work.key) is not None:
        return {FOUND: len(work.queries)}
    whole = _tried(maker, lambda: maker.make_queries(work.task, work.queries, work.rules), work.is_last_attempt)
    if isinstance(whole, _Heard):
        same = {SAME: same_vectors(work.queries, whole.tables)}
        _store(store, work, work.key, whole, same | whole.speed(len(work.queries), computing))
        return {"documents": len(work.queries), **whole.usage}
    found = blame(failing(make), len(work.queries), whole.cause, most=1)
    raise DataError(said_of("query", found, [query.query_id for query in work.queries], whole.cause))


def is_final(failure: StageError) -> bool:
    """Return whether another worker would fail too: a setting is wrong, or a service failed.

    The client of a service has asked as often as the service's row allows. Whoever asks again pays again.

    Args:
        failure: an error of `failing_as`.
    """
    return isinstance(failure.__cause__, (CapacityError, ConfigError, NotAtHand, StageError))


@contextmanager
def failing_as(arrow: str, unit: str) -> Iterator[None]:
    """Name the unit of work in any error that the block raises.

    Raises:
        StageError: the block raised an error.
    """
    try:
        yield
    except Exception as error:  # a model may raise anything
        raise StageError(arrow, unit, in_words(error)) from error


def _tables(maker: Maker, work: ShardWork, shard: ShardRows, positions: Sequence[int]) -> Tables:
    """Return the tables of some documents of a shard.

    Each piece of the shard is a call of its own, and so is each document of `work.alone`. Only what encoders make is
    ever made in several calls. Their tables have one row per document.
    """
    alone = work.alone
    pieces: dict[int, list[int]] = {}
    for position, piece in zip(positions, _pieces_of(shard, positions), strict=True):
        if shard.rows[position] not in alone:
            pieces.setdefault(piece, []).append(position)
    apart = [[position] for position in positions if shard.rows[position] in alone]
    calls = [*pieces.values(), *apart] or [[]]
    made = [
        maker.make_shard(work.task, [shard.documents[at] for at in call], shard.rows[np.asarray(call, np.int64)])
        for call in calls
    ]
    if len(made) == 1:
        return made[0]
    tables = joined(made)
    order = np.argsort(np.concatenate(calls))
    return {name: table.take(order) for name, table in tables.items()} if apart else tables


def _pieces_of(shard: ShardRows, positions: Sequence[int]) -> list[int]:
    """Return the piece of the shard that each document lies in."""
    rows = shard.rows[np.asarray(positions, np.int64)]
    pieces: list[int] = np.searchsorted(shard.piece_rows, rows, side="right").tolist()
    return pieces


def joined(made: Sequence[Tables]) -> Tables:
    """Return tables one behind the other, in memory as if they had been made at once."""
    return {name: pa.concat_tables([tables[name] for tables in made]).combine_chunks() for name in made[0]}


class _Heard(NamedTuple):
    """What a maker made, and what it told of its reading."""

    tables: Tables
    told: dict[str, Json]
    """What is stored beside the tables."""

    seconds: float
    """Seconds that making it took."""

    usage: Mapping[str, int]
    """What a service counted since it was asked last."""

    def speed(self, count: int, computing: Computing) -> dict[str, Json]:
        """Return the attributes that say how fast so many documents or queries were made, and what was paid for."""
        usage: dict[str, Json] = {USAGE: dict(self.usage)} if self.usage else {}
        return usage | {SPEED: Speed.measured(count, self.seconds, computing).to_json()}

    @property
    def tokens(self) -> dict[str, int]:
        """The tokens that were read, if they are known."""
        cuts = self.told[CUTS]
        return {READ_TOKENS: cuts["tokens"] - cuts["lost"]} if cuts else {}


def _heard(maker: Maker, make: Callable[[], Tables]) -> _Heard:
    """Have something made, of which everything is counted and nothing of what was made before."""
    maker.take_cuts()
    began = time.monotonic()
    with listening(most=1) as heard:
        tables = make()
    seconds = time.monotonic() - began
    told = {CUTS: to_json(cuts_made(maker)), EXAMPLE: heard.example()}
    return _Heard(tables, told, seconds, maker.take_usage())


def _tried(maker: Maker, make: Callable[[], Tables], is_last_attempt: bool) -> _Heard | Failed:
    """Return what was made; or, at the last attempt, why making it fails for some of its items."""
    return tried(lambda: _heard(maker, make), cause_of if is_last_attempt else lambda error: None)


def _left_out(ids: Sequence[DocId], fails: Fails, cause: str, most: int) -> dict[DocId, str]:
    """Return the documents that have to be left out of a shard that fails, with the reason.

    An error that begins with the name of a document is believed: a service's client refuses a document before
    anything is sent, so no other document is paid for twice.

    Raises:
        DataError: more than `most` documents are to blame, or not single documents are; names them.
    """
    left_out: dict[DocId, str] = {}
    kept, failure = list(range(len(ids))), cause
    while (named := [at for at in kept if failure.startswith(f"document {ids[at]!r}: ")]) and len(left_out) < most:
        left_out[ids[named[0]]] = failure
        kept.remove(named[0])
        again = fails(kept)
        if again is None:
            return left_out
        failure = again
    if named:
        raise DataError(failure if not most else _too_many(len(ids), most, failure))
    names = [ids[at] for at in kept]
    more = most - len(left_out)
    found = blame(lambda positions: fails([kept[at] for at in positions]), len(kept), failure, most=more + 1)
    if not most or not found.alone or found.together or not found.some_work:
        raise DataError(said_of("document", found, names, failure))
    if len(found.alone) > more:
        first = found.alone[0]
        raise DataError(_too_many(len(ids), most, with_names("document", [names[first.positions[0]]], first.cause)))
    return left_out | {names[one.positions[0]]: one.cause for one in found.alone}


def _too_many(num_documents: int, most: int, example: str) -> str:
    return (
        f"more than {most} of {num_documents} documents can't be encoded, which is too many to leave them out, e.g. "
        f"{example}"
    )


def _store(
    store: ArtifactStore, work: ShardWork | QueryWork, key: ArtifactKey, made: _Heard, noted: Mapping[str, Json]
) -> None:
    attributes = made.told | dict(noted) | made_for(work.task, work.label)
    with store.create(key) as writer:
        writer.attributes |= {name: value for name, value in attributes.items() if value is not None}
        for name, table in made.tables.items():
            if isinstance(work, ShardWork) and work.whole:
                write_piece(writer, name, table)
            else:
                writer.write_table(name, table)
    if isinstance(work, ShardWork) and not work.whole:
        remove_pieces(store, work)
