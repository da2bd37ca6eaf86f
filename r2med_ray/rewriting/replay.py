"""Replays texts that were generated before, from the files that R2MED and its followers publish.

    <task folder>/<method>/<writer>/query_with_hydoc.jsonl      one object per query: id, text, hy_doc

`finish_reason` is read where a file has it. `doc_id`, the gold documents, is never read.
"""

import hashlib
import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from r2med_ray.config import RewriterConfig
from r2med_ray.errors import ConfigError, DataError
from r2med_ray.jsonl import Record, read_jsonl
from r2med_ray.registry import Registry
from r2med_ray.rewriting.answers import Answer, format_of, read_answer
from r2med_ray.rewriting.methods import METHODS, spelled
from r2med_ray.types import Compat, Expansion, Query, QueryId, Rewriting

logger = logging.getLogger(__name__)

FILE_NAME = "query_with_hydoc.jsonl"
FELL_BACK = "original query used"
OTHER_TEXT = "generated for another text"


class ReplayRewriter:
    """Gives every query the text that was generated for its id.

    An unusable text (see `answers`) leaves the query as it was, counted and within the limits of `config`. Under
    `r2med` every text is used, however it ended, as in the published figures; its flags are counted as well.

    Args:
        config: the method, and the name of a generation set of the task or the path of a file. The model that
            wrote a file given by path is the name of its folder, or of the file where that isn't the usual one.
        folder: the task's folder.
        compat: how answers are cut out of the raw text.

    Raises:
        ConfigError: the method, the generation set or the file doesn't exist.
    """

    def __init__(self, config: RewriterConfig, *, folder: str | Path, compat: Compat = "none") -> None:
        method = spelled(config.method)
        METHODS[method]
        self.config = config
        self.method = method
        self.path = _find(Path(folder), method, config.generations)
        self.writer = spelled(self.path.parent.name if self.path.name == FILE_NAME else self.path.stem)
        self.compat: Compat = compat

    def inputs(self) -> dict[str, str]:
        """Return everything that changes the expansions, for artefact keys."""
        return {
            "method": self.method,
            "writer": self.writer,
            "generations": hashlib.sha256(self.path.read_bytes()).hexdigest(),
            "compat": self.compat,
        }

    def rewrite(self, queries: Sequence[Query]) -> Rewriting:
        """Fill in one expansion per query that has a usable text.

        Raises:
            DataError: ids are missing, doubled or unknown, a row is malformed, or too many texts are unusable.
        """
        rows = self._rows()
        self._require_same_ids(queries, rows)
        flagged: defaultdict[str, list[QueryId]] = defaultdict(list)
        rewritten = []
        for query in queries:
            row = rows[query.query_id]
            answer = self._answer(row)
            if answer.flag != "none":
                flagged[answer.flag].append(query.query_id)
            if row.values.get("text", query.text) != query.text:
                flagged[OTHER_TEXT].append(query.query_id)
            if answer.text or self.compat == "r2med":
                expansion = Expansion(
                    text=answer.text, method=self.method, reasoning=format_of(self.writer).reasoning
                )
                rewritten.append(replace(query, expansions=(*query.expansions, expansion)))
            else:
                flagged[FELL_BACK].append(query.query_id)
                rewritten.append(query)
        self._require_few(flagged[FELL_BACK], len(queries))
        if flagged[OTHER_TEXT]:
            logger.warning("%s: %d texts were generated for another wording", self.path, len(flagged[OTHER_TEXT]))
        return Rewriting(
            queries=tuple(rewritten), flagged={reason: tuple(ids) for reason, ids in flagged.items() if ids}
        )

    def _rows(self) -> dict[QueryId, Record]:
        rows: dict[QueryId, Record] = {}
        for row in read_jsonl(self.path):
            query_id = _id(row)
            if query_id in rows:
                raise DataError(f"{row.where}: query {query_id!r} stands in line {rows[query_id].line} already")
            rows[query_id] = row
        if numbers := sum(isinstance(row.values["id"], int) for row in rows.values()):
            logger.warning("%s: %d ids are JSON numbers and were read as text", self.path, numbers)
        return rows

    def _answer(self, row: Record) -> Answer:
        if not isinstance(row.values.get("hy_doc", 0), str | None):
            raise DataError(
                f"{row.where}: expected the generated text under `hy_doc`, got {row.values.get('hy_doc')!r}"
            )
        return read_answer(
            row.values["hy_doc"],
            self.writer,
            finish_reason=row.values.get("finish_reason"),
            compat=self.compat,
        )

    def _require_same_ids(self, queries: Sequence[Query], rows: dict[QueryId, Record]) -> None:
        known = {query.query_id for query in queries}
        if missing := [query_id for query_id in known if query_id not in rows]:
            raise DataError(f"{self.path}: {len(missing)} queries have no text, e.g. {min(missing)!r}")
        for query_id, row in rows.items():
            if query_id not in known:
                raise DataError(
                    f"{row.where}: query {query_id!r} is not in the task; were these made for another one?"
                )

    def _require_few(self, unusable: Sequence[QueryId], total: int) -> None:
        allowed = 0.0 if self.config.on_unusable == "error" else self.config.max_unusable
        if unusable and len(unusable) / total > allowed:
            raise DataError(
                f"{self.path}: {len(unusable)} of {total} texts are unusable, {allowed:.0%} may be: "
                f"{', '.join(unusable)}. Generate them again, or raise `max_unusable` of the rewriter"
            )


def _find(folder: Path, method: str, generations: str) -> Path:
    """Return the file of a generation set's name, or the file that a path names."""
    if "/" in generations or generations.endswith(".jsonl"):
        path = Path(generations).expanduser()
        if not path.is_file():
            raise ConfigError(f"generations {generations!r}: there is no such file")
        return path
    found = [
        (spelled(path.parent.name), path)
        for path in sorted(folder.glob(f"*/*/{FILE_NAME}"))
        if spelled(path.parent.parent.name) == method
    ]
    if not found:
        raise ConfigError(f"no generations in {folder}: expected {method}/{generations}/{FILE_NAME}")
    return Registry(f"generation set of {method} in {folder}", found)[spelled(generations)]


def _id(row: Record) -> QueryId:
    """Return the id as text; a JSON integer becomes its decimal text."""
    value = row.values.get("id")
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value:
        raise DataError(f"{row.where}: expected text under `id`, got {value!r}")
    return value
