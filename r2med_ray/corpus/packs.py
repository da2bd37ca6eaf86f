"""A pack of hard negatives for one task: passages that look right for a query and aren't, labelled with the query.

The folders of a pack are put together in any order. A label is never a judgement, and no hard negative is a positive.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from r2med_ray.corpus.pack_files import Label, PackFiles, Passage, read_files
from r2med_ray.errors import DataError
from r2med_ray.storage.ids import Tally
from r2med_ray.types import (
    Contrast,
    DocId,
    Document,
    HardNegative,
    HardNegatives,
    Qrels,
    QueryId,
    Task,
    positives_of,
    without_controls,
)


class Named(NamedTuple):
    """A document of the corpus that a pack names."""

    where: str
    """File and line."""

    text: str
    """Its content as the pack knows it; empty if the pack has only its id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pack:
    """The hard negatives of one task."""

    documents: tuple[Document, ...]
    """The passages that the pack brings, by id."""

    negatives: HardNegatives
    """The labels, by query and passage."""

    writers: Mapping[str, int]
    """Who or what wrote passages → how many."""

    in_corpus: Mapping[DocId, Named] = field(default_factory=dict)
    """The documents of the corpus that are hard negatives, by id."""

    contrasts: tuple[Contrast, ...] = ()
    """Those of all folders, sorted; each is two of the labels, too."""

    warnings: tuple[str, ...] = ()

    @property
    def counts(self) -> dict[str, int]:
        hard = without_controls(self.negatives)
        controls = sum(map(len, self.negatives.values())) - sum(map(len, hard.values()))
        return {
            "hard_negatives": sum(map(len, hard.values())),
            "hard_negative_passages": len(self.documents),
            "queries_with_hard_negatives": len(hard),
            **({"hard_negatives_in_corpus": len(self.in_corpus)} if self.in_corpus else {}),
            **({"contrasts": len(self.contrasts)} if self.contrasts else {}),
            **({"controls": controls} if controls else {}),
        }

    def without_controls(self) -> "Pack":
        """Return the pack without its controls, and without the passages that are controls alone."""
        hard = without_controls(self.negatives)
        controls = {doc_id for own in self.negatives.values() for doc_id, known in own.items() if known.is_control}
        left_out = controls - {doc_id for own in hard.values() for doc_id in own}
        kept = tuple(document for document in self.documents if document.doc_id not in left_out)
        return replace(self, documents=kept, negatives=hard)


def read_pack(folders: Sequence[Path], task: Task) -> Pack:
    """Read the pack of a task.

    Args:
        folders: each holds a part of the pack, in a layout of `pack_files`.
        task: its queries and judgements are what the labels are checked against.

    Raises:
        DataError: a record is wrong (file and line), or: an id has two texts, a label is for a query that the task
            lacks or a passage that the pack lacks, a hard negative is a positive of its query, a positive that it was
            made from is none, a label has two kinds (names both lines), or there is no passage or no label.
    """
    files = [read_files(folder, task.name, task.qrels) for folder in folders]
    where = ", ".join(map(str, folders))
    passages = _passages(files)
    in_corpus = _in_corpus(files, passages)
    negatives = _negatives(files, passages.keys() | in_corpus.keys(), task)
    for found, what in (({**passages, **in_corpus}, "passage"), (negatives, "label")):
        if not found:
            raise DataError(f"{where}: the pack of {task.name} holds no {what}")
    labelled = {doc_id for of_query in negatives.values() for doc_id in of_query}
    lacking = [
        query_id for query_id, grades in task.qrels.items() if positives_of(grades) and query_id not in negatives
    ]
    return Pack(
        documents=tuple(passage.document for _, passage in sorted(passages.items()) if not passage.in_corpus),
        negatives=negatives,
        writers=Counter(passage.writer for passage in passages.values()),
        in_corpus=in_corpus,
        contrasts=tuple(sorted({contrast for part in files for contrast in part.contrasts})),
        warnings=(
            *Tally(sorted(passages.keys() - labelled)).sentences("passages of the pack are no query's hard negative"),
            *Tally(lacking).sentences("queries with a positive have no hard negative"),
        ),
    )


def _passages(files: Iterable[PackFiles]) -> dict[DocId, Passage]:
    found: dict[DocId, Passage] = {}
    for passage in (passage for part in files for passage in part.passages):
        first = found.setdefault(passage.document.doc_id, passage)
        if (first.document, first.in_corpus) != (passage.document, passage.in_corpus):
            what = "in_corpus" if first.document == passage.document else "text"
            raise DataError(
                f"{passage.where}: passage {passage.document.doc_id!r} has another {what} than at {first.where}"
            )
    return found


def _in_corpus(files: Iterable[PackFiles], passages: Mapping[DocId, Passage]) -> dict[DocId, Named]:
    """Return the documents of the corpus that passages or contrasts name."""
    found = {
        doc_id: Named(passage.where, passage.document.text)
        for doc_id, passage in passages.items()
        if passage.in_corpus
    }
    in_contrasts = {doc_id for part in files for contrast in part.contrasts for doc_id in contrast.doc_ids}
    for label in (label for part in files for label in part.labels):
        if label.doc_id in in_contrasts and label.doc_id not in passages:
            found.setdefault(label.doc_id, Named(label.where, ""))
    return dict(sorted(found.items()))


def _negatives(files: Iterable[PackFiles], passages: Set[DocId], task: Task) -> HardNegatives:
    """Return the labels by query and passage, both in the order of their ids, after checks."""
    known = {query.query_id for query in task.queries}
    found: dict[QueryId, dict[DocId, Label]] = {}
    for label in (label for part in files for label in part.labels):
        _check(label, known, passages, task.qrels)
        of_query = found.setdefault(label.query_id, {})
        of_query[label.doc_id] = _both(of_query.get(label.doc_id, label), label)
    return {
        query_id: {doc_id: label.negative for doc_id, label in sorted(labels.items())}
        for query_id, labels in sorted(found.items())
    }


def _check(label: Label, known: set[QueryId], passages: Set[DocId], qrels: Qrels) -> None:
    said = f"{label.where}: query {label.query_id!r}, passage {label.doc_id!r}"
    if label.query_id not in known:
        raise DataError(f"{said}: the task has no such query, e.g. it has {min(known)!r}")
    if label.doc_id not in passages:
        raise DataError(f"{said}: the pack has no such passage")
    positives = positives_of(qrels.get(label.query_id, {}))
    if label.doc_id in positives:
        raise DataError(f"{said}: a hard negative can't be a positive of its query")
    for positive in label.negative.positives:
        if positive not in positives:
            raise DataError(f"{said}: it was made from {positive!r}, which is no positive of the query")


def _both(first: Label, second: Label) -> Label:
    """Return one label for two that say the same of a query and a passage."""
    kinds = {label.negative.kind for label in (first, second)} - {""}
    if len(kinds) > 1:
        raise DataError(
            f"{second.where}: query {second.query_id!r}, passage {second.doc_id!r} is of the kind "
            f"{second.negative.kind!r}, but {first.negative.kind!r} at {first.where}"
        )
    positives = sorted({*first.negative.positives, *second.negative.positives})
    return first._replace(negative=HardNegative(kind=max(kinds, default=""), positives=tuple(positives)))
