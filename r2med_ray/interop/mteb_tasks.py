"""Tasks of mteb: found by name, loaded, and read into documents and queries with mteb's own texts."""

import importlib
from collections.abc import Iterable, Mapping
from typing import Any

from r2med_ray.corpus.catalog import TASKS
from r2med_ray.errors import ConfigError, DataError, NotAtHand
from r2med_ray.reporting.mteb_results import mteb_task_name
from r2med_ray.settings.registry import nearest
from r2med_ray.types import Document, Query

R2MED_TASKS: Mapping[str, str] = {
    mteb_task_name(row.name, row.suite): row.name for row in TASKS.values() if row.suite == "R2MED"
}
"""MTEB's name → our name, for each task of R2MED."""


def import_mteb() -> Any:
    """Return the module `mteb`, which takes seconds to import.

    Raises:
        ConfigError: mteb is not installed. The message says how to install it.
    """
    try:
        return importlib.import_module("mteb")
    except ModuleNotFoundError as error:
        raise ConfigError(f"{error}; MTEB is an extra: pip install 'r2med-ray[mteb]'") from error


def mteb_task(name: str) -> Any:
    """Return the task of mteb with a name, which is MTEB's or ours, e.g. `R2MEDBiologyRetrieval` or `Biology`.

    Raises:
        ConfigError: mteb has no such task. The message gives the nearest name.
    """
    mteb = import_mteb()
    wanted = mteb_task_name(name, "R2MED") if name in R2MED_TASKS.values() else name
    try:
        return mteb.get_task(wanted)
    except KeyError as error:
        raise ConfigError(f"mteb {mteb.__version__} has no task {name!r}.{nearest(name, R2MED_TASKS)}") from error


def load_data(task: Any) -> None:
    """Have a task of mteb load its data, from the Hub's cache or from the Hub.

    Raises:
        NotAtHand: neither has the data. The message names the data set.
    """
    try:
        task.load_data()
    except OSError as error:  # raised for errors of the Hub, and by `datasets` for data that it can't find
        data = task.metadata.dataset
        what = f"{data['path']} at {data['revision'][:12]}"
        raise NotAtHand(
            what,
            f"task {task.metadata.name!r}: its data, the data set {what} of the Hub, is not on this machine, and the "
            f"Hub did not give it ({error}). Run the command once with a network and without HF_HUB_OFFLINE; mteb "
            "keeps the data in HF_HOME",
        ) from error


def our_name(mteb_name: str) -> str:
    """Return our name of a task of R2MED; rows choose instructions by it. Any other task keeps its name."""
    return R2MED_TASKS.get(mteb_name, mteb_name)


def read_corpus(corpus: Iterable[Mapping[str, Any]]) -> list[Document]:
    """Return the documents of a corpus of mteb. A row of the corpus has an id, a text and possibly a title.

    A document has the text that mteb gives its own models: title, space, text, without white space around them. If an
    id comes twice, its last text is used, at the place of its first row. The dict that mteb's loader of R2MED fills
    has the same effect.

    Raises:
        DataError: a document has no text. The message names its id.
    """
    documents: dict[str, Document] = {}
    for row in corpus:
        doc_id, text = row["id"], row.get("text")
        if not isinstance(text, str):
            raise DataError(f"document {doc_id!r}: expected a text, got {type(text).__name__}")
        title = row.get("title")
        documents[doc_id] = Document(doc_id=doc_id, text=f"{title} {text}".strip() if title else text.strip())
    return list(documents.values())


def read_queries(queries: Iterable[Mapping[str, Any]]) -> list[Query]:
    """Return queries of mteb. A row has an id, a text and possibly an instruction, which is added after the text.

    Raises:
        DataError: a query is a conversation, or no text at all. The message names its id.
    """
    found = []
    for row in queries:
        query_id, text, instruction = row["id"], row["text"], row.get("instruction")
        if not isinstance(text, str):
            raise DataError(f"query {query_id!r}: expected a text, got {type(text).__name__}")
        found.append(Query(query_id=query_id, text=text if instruction is None else f"{text} {instruction}"))
    return found
