"""Replays texts that were generated before, from the files that R2MED and its followers publish.

    <task folder>/<method>/<writer>/query_with_hydoc.jsonl      one object per query: id, text, hy_doc

What isn't beside the task and was published for it is fetched from there; see `published_generations`.
`finish_reason` is read where a file has it. `doc_id`, the gold documents, is never read.
"""

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from r2med_ray.errors import ConfigError, DataError, NotAtHand
from r2med_ray.rewriting.answers import Answer, format_of, read_answer
from r2med_ray.rewriting.expanding import expand
from r2med_ray.rewriting.methods import METHODS, spelled
from r2med_ray.rewriting.published_generations import FILE_NAME, GENERATIONS, local_generations
from r2med_ray.settings.config import RewriterConfig
from r2med_ray.settings.registry import Registry, nearest
from r2med_ray.storage.jsonl import Record, read_jsonl
from r2med_ray.types import Compat, Query, QueryId, Rewriting

logger = logging.getLogger(__name__)

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
        fetch: gets a file of the task's repository; None for a task that nobody published texts for.
        task: its name, for errors.

    Raises:
        ConfigError: the method or the file doesn't exist.
        NotAtHand: the generation set is not in the task's folder, and can't be fetched.
    """

    def __init__(
        self,
        config: RewriterConfig,
        *,
        folder: str | Path,
        compat: Compat = "none",
        fetch: Callable[[str], Path] | None = None,
        task: str = "",
    ) -> None:
        method = spelled(config.method)
        METHODS[method]
        if config.generations is None:
            raise ConfigError(
                f"rewriter {method}/{config.llm}: its texts are yet to be written; there is nothing to replay"
            )
        self.config = config
        self.method = method
        self.path = _find(Path(folder), method, config.generations, fetch)
        self.writer = spelled(self.path.parent.name if self.path.name == FILE_NAME else self.path.stem)
        self.compat: Compat = compat
        self._task = task

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
        rewriting = expand(
            queries,
            {query.query_id: [self._answer(rows[query.query_id])] for query in queries},
            self.config,
            method=self.method,
            reasoning=format_of(self.writer).reasoning,
            compat=self.compat,
            task=self._task,
        )
        texts = {query_id: row.values.get("text") for query_id, row in rows.items()}
        other = tuple(query.query_id for query in queries if texts[query.query_id] not in (None, query.text))
        if not other:
            return rewriting
        logger.warning("%s: %d texts were generated for another wording", self.path, len(other))
        return replace(rewriting, flagged={**rewriting.flagged, OTHER_TEXT: other})

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
        text = row.values["hy_doc"]
        try:
            (text or "").encode()
        except UnicodeEncodeError as error:
            raise DataError(
                f"{row.where}: character {error.start} of `hy_doc` is half of a surrogate pair, no tokenizer reads it"
            ) from error
        return read_answer(
            text,
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


def _find(folder: Path, method: str, generations: str, fetch: Callable[[str], Path] | None) -> Path:
    """Return the file of a generation set's name, or the file that a path names."""
    if "/" in generations or generations.endswith(".jsonl"):
        path = Path(generations).expanduser()
        if not path.is_file():
            raise ConfigError(f"generations {generations!r}: there is no such file")
        return path
    name = f"{method}/{spelled(generations)}"
    local = Registry(f"generation set of {folder}", local_generations(folder))
    if name in local:
        return local[name]
    if fetch is not None and name in GENERATIONS:
        return fetch(GENERATIONS[name].file)
    what = f"{method}/{generations}/{FILE_NAME}"
    sets = {*local, *(GENERATIONS if fetch is not None else ())}
    known = sorted(writer for of_method, _, writer in (known.partition("/") for known in sets) if of_method == method)
    close = nearest(generations, known)
    hint = f"{close} Known: {', '.join(known)}" if known else ""
    needed = f"{what} ({close.strip()})" if close else what
    raise NotAtHand(needed, f"no generations in {folder}: expected {what}.{hint}")


def _id(row: Record) -> QueryId:
    """Return the id as text; a JSON integer becomes its decimal text."""
    value = row.values.get("id")
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str) or not value:
        raise DataError(f"{row.where}: expected text under `id`, got {value!r}")
    return value
