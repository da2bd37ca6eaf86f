"""Serves one batch: searches an index, has pairs scored or texts written, and stores what comes of it."""

import time
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TypeVar

from r2med_ray.chat import LanguageModel
from r2med_ray.distributed.progress import StageReport
from r2med_ray.reranking.stored_scores import reranking_files
from r2med_ray.retrieval.stored_runs import RUN_FILE, run_from_table, run_table
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import fingerprint
from r2med_ray.types import Run
from r2med_ray.workbench.batches import Batch
from r2med_ray.workbench.holders import Holders
from r2med_ray.workbench.lacks import Lack, LackingRun, LackingScores, LackingTexts
from r2med_ray.workbench.runner import Runner
from r2med_ray.workbench.texts import Texts
from r2med_ray.workbench.worklog import Worklog

L = TypeVar("L", bound=Lack)


def find_runs(store: ArtifactStore, runner: Runner, holders: Holders, batch: Batch) -> None:
    """SEARCH: answer each distinct search once, and store its run where it is to be kept."""
    found: dict[str, Run] = {}
    for lack in _of(LackingRun, batch.lacks):
        find, digest = lack.find, lack.key.digest
        if digest not in found:
            began = time.monotonic()
            if find.stage.work == "nothing":
                run = find.stage.find(find.task, find.queries, find.k)
            else:
                start = partial(runner.open_index, find.task, find.stage)
                index = holders.hold(batch.place, start)
                run = index.retrieve(find.queries, k=find.k)
            table = run_table(run)
            if find.keep:
                with store.create(lack.key) as writer:
                    writer.write_table(RUN_FILE, table)
            found[digest] = run_from_table(find.stage.label, find.queries, table)
            lack.seconds["search"] = time.monotonic() - began
        lack.run = Run(tag=find.stage.label, rankings=found[digest].rankings)


def score_pairs(store: ArtifactStore, runner: Runner, holders: Holders, worklog: Worklog, batch: Batch) -> None:
    """RERANK: have each distinct set of candidates scored once, and store the scores."""
    scored = {}
    for lack in _of(LackingScores, batch.lacks):
        scorer, candidates = lack.score.scorer, lack.score.candidates
        if lack.key.digest not in scored:
            start = partial(runner.start_scorer, scorer)
            running = holders.hold(batch.place, start)
            began = time.monotonic()
            reranking = running.score_all(candidates)
            with store.create(lack.key) as writer:
                for name, content in reranking_files(reranking).items():
                    writer.write(name, content)
            scored[lack.key.digest] = reranking
            seconds = lack.seconds["rerank"] = time.monotonic() - began
            pairs = sum(len(item.documents) for item in candidates)
            worklog.note("rerank", scorer.name, StageReport(documents=pairs, seconds=seconds, stored_before=0))
        lack.reranking = scored[lack.key.digest]


def write_texts(store: ArtifactStore, runner: Runner, holders: Holders, worklog: Worklog, batch: Batch) -> None:
    """REWRITE and RERANK by a language model: have the texts written that no part has asked for before.

    The prompts of all parts are one stream per model and sampling.
    """
    lacks = list(_of(LackingTexts, batch.lacks))
    by_model: dict[str, tuple[LanguageModel, list[LackingTexts]]] = {}
    for lack in lacks:
        model = lack.ask.model
        by_model.setdefault(fingerprint(dict(model.generation_inputs())), (model, []))[1].append(lack)
    for model, asking in by_model.values():
        start = partial(runner.start_model, model)
        running = holders.hold(batch.place, start)
        began = time.monotonic()
        missing = {digest: item for lack in asking for digest, item in lack.missing.items()}
        written = Texts(store).write(model, running.generator(model), missing)
        seconds = time.monotonic() - began
        report = StageReport(documents=len(written), seconds=seconds, stored_before=0)
        worklog.note("write", model.name, report)
        for lack in asking:
            lack.seconds["write"] = seconds
            lack.receive(written)


def _of(kind: type[L], lacks: Iterable[Lack]) -> Iterator[L]:
    return (lack for lack in lacks if isinstance(lack, kind))
