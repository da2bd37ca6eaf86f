"""Replays texts that were generated before, from files in R2MED's layout.

    <task folder>/<method>/<writer>/query_with_hydoc.jsonl      one object per query: id, text, hy_doc

If a file is not in the task's folder but was published for the task, it is fetched; see `published_generations`.
`finish_reason` is read if a file has it. `doc_id`, the gold documents, is never read.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from r2med_ray.demands import Fetch, Steps
from r2med_ray.errors import ConfigError, NotAtHand
from r2med_ray.rewriting.answers import Answer, format_of, read_answer
from r2med_ray.rewriting.expanding import expand
from r2med_ray.rewriting.generation_files import end_of, read_generations, text_of
from r2med_ray.rewriting.methods import Method, spelled
from r2med_ray.rewriting.published_generations import FILE_NAME, GENERATIONS, local_generations
from r2med_ray.settings.compat import Rules
from r2med_ray.settings.file_paths import is_path_of_texts
from r2med_ray.settings.registry import Registry, nearest
from r2med_ray.settings.rewriter import RewriterConfig
from r2med_ray.storage.jsonl import Record
from r2med_ray.types import Query, Rewriting, Task

logger = logging.getLogger(__name__)

OTHER_TEXT = "generated for another text"


class ReplayRewriter:
    """Gives every query the text that was generated for its id.

    If a text is unusable (see `answers`), the query stays as it was. Such a text is flagged, and allowed within the
    limits of `config`. The published protocol uses every text, however the text ended; flags are counted there too.

    Args:
        config: the method, and the name of a generation set of the task or the path of a file. If a path is given,
            the writer's name is the name of the file's folder, or of the file if it isn't `query_with_hydoc.jsonl`.
        task: the task whose queries are rewritten, and whose folder may hold generation sets.
        method: how the texts are used.
        rules: which side of each difference is used.
        can_fetch: whether texts that were published for the task can be fetched. `rewrite` fetches them.

    Raises:
        ConfigError: there are no generations to replay, or the file doesn't exist.
        NotAtHand: the generation set is not in the task's folder, and can't be fetched.
    """

    def __init__(
        self, config: RewriterConfig, *, task: Task, method: Method, rules: Rules, can_fetch: bool = False
    ) -> None:
        self.method = spelled(config.method)
        if config.generations is None:
            raise ConfigError(
                f"rewriter {self.method}/{config.llm}: its texts are not written yet, so there is nothing to replay"
            )
        self.config = config
        self.source = _find(Path(task.folder), self.method, config.generations, can_fetch)
        self._task = task
        self._row = method
        self._rules = rules

    def rewrite(self, queries: Sequence[Query]) -> Steps[Rewriting]:
        """Return the queries, each with one expansion if its text is usable.

        Raises:
            DataError: an id is missing, comes twice or is unknown, a row is malformed, or too many texts are
                unusable.
            NotAtHand: the file can't be fetched.
        """
        path = self.source.path
        if path is None:
            path = yield Fetch(task=self._task, file=self.source.file)
        rows = read_generations(path, self._task.all_queries or queries)
        rewriting = expand(
            queries,
            {query.query_id: [self._answer(rows[query.query_id])] for query in queries},
            self.config,
            method=self.method,
            use=self._row.use,
            reasoning=format_of(self.source.writer).reasoning,
            rules=self._rules,
            task=self._task.name,
            per_repeat=self._row.per_repeat,
        )
        texts = {query_id: row.values.get("text") for query_id, row in rows.items()}
        other = tuple(query.query_id for query in queries if texts[query.query_id] not in (None, query.text))
        if not other:
            return rewriting
        logger.warning("%s: %d texts were generated for another wording", path, len(other))
        return replace(rewriting, flagged={**rewriting.flagged, OTHER_TEXT: other})

    def _answer(self, row: Record) -> Answer:
        return read_answer(text_of(row), self.source.writer, finish_reason=end_of(row), rules=self._rules)


class Source(NamedTuple):
    """The place of generated texts, and the model that wrote them."""

    path: Path | None
    """Path of the file on this machine; None if the file has to be fetched."""

    file: str
    """Path of the file in the task's repository, if it has to be fetched; else empty."""

    writer: str

    @classmethod
    def of(cls, path: Path) -> "Source":
        return cls(path, "", spelled(path.parent.name if path.name == FILE_NAME else path.stem))


def _find(folder: Path, method: str, generations: str, can_fetch: bool) -> Source:
    """Return the source of a generation set's texts. `generations` is the set's name, or the path of a file."""
    if is_path_of_texts(generations):
        path = Path(generations).expanduser()
        if not path.is_file():
            raise ConfigError(f"generations {generations!r}: there is no such file")
        return Source.of(path)
    name = f"{method}/{spelled(generations)}"
    local = Registry(f"generation set of {folder}", local_generations(folder))
    if name in local:
        return Source.of(local[name])
    if can_fetch and name in GENERATIONS:
        return Source(None, GENERATIONS[name].file, GENERATIONS[name].writer)
    what = f"{method}/{generations}/{FILE_NAME}"
    sets = {*local, *(GENERATIONS if can_fetch else ())}
    known = sorted(writer for of_method, _, writer in (known.partition("/") for known in sets) if of_method == method)
    close = nearest(generations, known)
    hint = f"{close} Known: {', '.join(known)}" if known else ""
    needed = f"{what} ({close.strip()})" if close else what
    raise NotAtHand(needed, f"no generations in {folder}: expected {what}.{hint}")
