"""Which sentences put passages where a page shows them, for systems that score by late interaction.

A reranker tells them with its scores. The vectors of a retriever don't tell them, so its model reads the passages of
the page again, once: what it tells is an artefact.
"""

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from r2med_ray.errors import R2MedError
from r2med_ray.first_stages.checkpoints import Asked, LateInteractionFirstStage
from r2med_ray.pipeline import Ranked
from r2med_ray.reporting.texts import SHOWN, TaskTexts
from r2med_ray.retrieval.searches import searches_of
from r2med_ray.sentences import SPLITTER, Shares, Told
from r2med_ray.storage.artifact import Artifact
from r2med_ray.storage.keys import ArtifactKey, canonical_json, fingerprint, fingerprint_queries
from r2med_ray.storage.listing import made_for
from r2med_ray.systems import ResolvedSystem
from r2med_ray.types import DocId, Document, QueryId, Task
from r2med_ray.workbench.bench import Workbench

logger = logging.getLogger(__name__)

KIND = "sentences"
FILE = "shares.json"
"""query_id → doc_id → shares."""


class _Wanted(NamedTuple):
    """What a retriever is to tell of one system on one task."""

    task: str
    system: str
    asked: Sequence[Asked]
    key: ArtifactKey


def with_sentences(
    bench: Workbench, texts: Mapping[str, TaskTexts], done: Iterable[tuple[Task, ResolvedSystem, Ranked]]
) -> dict[str, TaskTexts]:
    """Return the texts of tasks with the sentences that put their passages there.

    Args:
        bench: has the artefacts, and the models if something is not stored.
        texts: task → the texts that its page shows.
        done: what each system did with each task.
    """
    told: dict[str, dict[str, Told]] = {task: {} for task in texts}
    wanted: dict[LateInteractionFirstStage, list[_Wanted]] = {}
    for task, system, ranked in done:
        if task.name not in texts:
            continue
        if ranked.sentences is not None:
            told[task.name][system.name] = ranked.sentences
        elif first_stage := next(
            (each for each in system.first_stages if isinstance(each, LateInteractionFirstStage)), None
        ):
            asked = _asked(system, ranked, texts[task.name].passages)
            key = _key(first_stage, bench.runner.device, asked)
            wanted.setdefault(first_stage, []).append(_Wanted(task.name, system.name, asked, key))
    for first_stage, of_model in wanted.items():
        for each, found in zip(of_model, _told(bench, first_stage, of_model), strict=True):
            told[each.task][each.system] = found
    return {task: replace(of_task, sentences=told[task]) for task, of_task in texts.items()}


def _asked(system: ResolvedSystem, ranked: Ranked, passages: Mapping[DocId, str]) -> list[Asked]:
    """Return each query as it is searched for first, with its first documents."""
    [search, *_] = searches_of(ranked.rewriting.queries, system.combine)
    return [
        (
            query,
            [
                Document(doc_id=hit.doc_id, text=passages[hit.doc_id])
                for hit in ranked.run.rankings[query.query_id][:SHOWN]
            ],
        )
        for query in search.queries
        if query.query_id not in ranked.rewriting.ranked  # an agent made this list
    ]


def _key(first_stage: LateInteractionFirstStage, device: str, asked: Sequence[Asked]) -> ArtifactKey:
    pairs = [
        [fingerprint_queries([query]), [[document.doc_id, document.text] for document in documents]]
        for query, documents in asked
    ]
    encoding = first_stage.row.encoding_inputs(device=device)
    return ArtifactKey(KIND, {"encoding": encoding, "split": SPLITTER, "pairs": fingerprint(pairs)})


def _told(bench: Workbench, first_stage: LateInteractionFirstStage, wanted: Sequence[_Wanted]) -> list[Told]:
    """Return what a retriever tells. What isn't stored is told by its model, which is loaded once for all of it."""
    stored = bench.store.find_all(each.key for each in wanted)
    missing = [each for each, found in zip(wanted, stored, strict=True) if found is None]
    asked = [pair for each in missing for pair in each.asked]
    try:
        answers = iter(bench.runner.sentence_shares(first_stage, asked) if asked else [])
    except R2MedError as error:
        logger.warning("the sentences that %s finds are not shown: %s", first_stage.label, error)
        return [
            Told(first_stage.label, {}, str(error)) if found is None else _read(first_stage, found)
            for found in stored
        ]
    for each in missing:
        shares = {
            query.query_id: dict(zip((document.doc_id for document in documents), next(answers), strict=True))
            for query, documents in each.asked
        }
        with bench.store.create(each.key) as writer:
            writer.attributes |= made_for(each.task, first_stage.label)
            writer.write(FILE, canonical_json(shares).encode())
    return [_read(first_stage, bench.store.get(each.key)) for each in wanted]


def _read(first_stage: LateInteractionFirstStage, artifact: Artifact) -> Told:
    stored = json.loads(artifact.read(FILE).to_pybytes())
    shares: dict[QueryId, dict[DocId, Shares]] = {
        query_id: {doc_id: tuple(found) for doc_id, found in of_query.items()}
        for query_id, of_query in stored.items()
    }
    return Told(first_stage.label, shares)
