"""Serves one batch: searches an index, has pairs scored or texts written, and stores what comes of it."""

import time
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TypeVar

from r2med_ray.chat import Completion, LanguageModel
from r2med_ray.cuts import Cuts, PartCuts
from r2med_ray.distributed.progress import StageReport
from r2med_ray.first_stages.query_blocks import blocks
from r2med_ray.first_stages.stored_cuts import document_cuts, run_attributes, search_cuts
from r2med_ray.first_stages.stored_speed import SPEED
from r2med_ray.ranking_arrays import RankedQueries
from r2med_ray.reranking.stored_scores import reranking_files
from r2med_ray.retrieval.stored_runs import RUN_FILE, run_table
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import fingerprint
from r2med_ray.storage.listing import SECONDS, made_for
from r2med_ray.types import Run
from r2med_ray.workbench.answers import Answer, RunAnswer, ScoresAnswer, TextsAnswer
from r2med_ray.workbench.batches import Batch
from r2med_ray.workbench.holders import Holders
from r2med_ray.workbench.pair_scores import score_demands
from r2med_ray.workbench.runner import Runner, RunningScorer
from r2med_ray.workbench.texts import Texts
from r2med_ray.workbench.worklog import Worklog

A = TypeVar("A", bound=Answer)


def find_runs(store: ArtifactStore, runner: Runner, holders: Holders, worklog: Worklog, batch: Batch) -> None:
    """SEARCH: make each distinct search once. Its run is stored if any of its demands is to be kept."""
    found: dict[str, Run] = {}
    seconds: dict[str, float] = {}
    cuts: dict[str, PartCuts | None] = {}
    documents: dict[str, Cuts | None] = {}
    answers = list(_of(RunAnswer, batch.answers))
    kept = {answer.key.digest for answer in answers if answer.find.keep}
    for answer in answers:
        find, digest = answer.find, answer.key.digest
        if digest not in found:
            found[digest], seconds[digest] = _search(runner, holders, worklog, batch, answer)
            if digest in kept:
                if find.task.name not in documents:  # a batch searches one index
                    documents[find.task.name] = document_cuts(store, find.task, find.first_stage, runner.device)
                of_corpus = documents[find.task.name]
                cuts[digest] = search_cuts(store, find.task, find.first_stage, find.queries, of_corpus, runner.device)
                with store.create(answer.key) as writer:
                    writer.attributes[SECONDS] = seconds[digest]
                    writer.attributes.update(run_attributes(cuts[digest]))
                    writer.attributes.update(made_for(find.task.name, find.first_stage.label))
                    writer.write_table(RUN_FILE, run_table(found[digest]))
        answer.seconds["search"] = seconds[digest]
        answer.run = Run(tag=find.first_stage.label, rankings=found[digest].rankings)
        answer.cuts = cuts.get(digest) if find.keep else None


def score_pairs(store: ArtifactStore, runner: Runner, holders: Holders, worklog: Worklog, batch: Batch) -> None:
    """RERANK: have each distinct set of candidates scored once, and store the scores."""
    answers = list(_of(ScoresAnswer, batch.answers))
    first: dict[str, ScoresAnswer] = {}
    for answer in answers:
        first.setdefault(answer.key.digest, answer)
    scorer = answers[0].score.scorer  # all scorers of one place give the same scores

    began = time.monotonic()

    def start(requests: int) -> RunningScorer:
        nonlocal began
        running = holders.hold(batch.place, partial(runner.start_scorer, scorer, requests))
        began = time.monotonic()
        return running

    inputs = runner.scoring_inputs(scorer)
    for demand in score_demands(store, list(first.values()), inputs, runner.pair_budget, start):
        seconds = demand.answer.seconds["rerank"] = time.monotonic() - began
        began += seconds
        speed = [each.to_json() for each in demand.speeds]
        with store.create(demand.answer.key) as writer:
            writer.attributes.update({SECONDS: seconds, SPEED: speed, **made_for("", scorer.name)})
            for name, content in reranking_files(demand.reranking).items():
                writer.write(name, content)
        demand.answer.reranking, demand.answer.speeds = demand.reranking, demand.speeds
        report = StageReport(documents=demand.scored, seconds=seconds, stored_before=demand.stored_before)
        worklog.note("rerank", scorer.name, report)
    for answer in answers:
        of_all = first[answer.key.digest]
        answer.reranking, answer.speeds, answer.seconds = of_all.reranking, of_all.speeds, of_all.seconds


def write_texts(store: ArtifactStore, runner: Runner, holders: Holders, worklog: Worklog, batch: Batch) -> None:
    """REWRITE and RERANK by a language model: have the texts written that nobody has asked for before.

    The prompts of all parts are one stream per model and sampling.
    """
    by_model: dict[str, tuple[LanguageModel, list[TextsAnswer]]] = {}
    for answer in _of(TextsAnswer, batch.answers):
        model = answer.ask.model
        by_model.setdefault(fingerprint(dict(model.generation_inputs())), (model, []))[1].append(answer)
    texts = Texts(store)
    for name, (model, asking) in by_model.items():
        missing = {digest: item for answer in asking for digest, item in answer.missing.items()}
        # A model at another address may have written some of them since the parts asked.
        found = texts.find([key for key, _ in missing.values()])
        missing = {digest: item for digest, item in missing.items() if digest not in found}
        began = time.monotonic()
        written: dict[str, Completion | None] = dict(found)
        if missing:
            running = holders.hold(batch.place, partial(runner.start_model, model))
            for prompt, text in (pair for answer in asking for pair in answer.there):
                worklog.lengths[name].note(prompt, text)
            written |= texts.write(model, running.generator(model), missing, worklog.lengths[name])
            seconds = time.monotonic() - began
            worklog.note("write", model.name, StageReport(documents=len(missing), seconds=seconds, stored_before=0))
        for answer in asking:
            answer.receive(written)


def _search(runner: Runner, holders: Holders, worklog: Worklog, batch: Batch, answer: RunAnswer) -> tuple[Run, float]:
    """Return what a search found, and its seconds. The start of what holds the index is in no search's seconds."""
    find, began = answer.find, time.monotonic()
    if find.first_stage.work == "nothing":
        return find.first_stage.find(find.task, find.queries, find.k), time.monotonic() - began
    index = holders.hold(batch.place, partial(runner.open_index, find.task, find.first_stage))
    began = time.monotonic()
    found = [index.retrieve(block, k=find.k, among=find.among) for block in blocks(find.queries)]
    seconds = time.monotonic() - began
    if index.one_at_a_time:
        report = StageReport(documents=find.task.corpus.num_documents * len(found), seconds=seconds, stored_before=0)
        worklog.note("search shards read one by one", f"{find.first_stage.label} on {find.task.name}", report)
    return Run(tag=found[0].tag, rankings=RankedQueries.joined([run.rankings for run in found])), seconds


def _of(kind: type[A], answers: Iterable[Answer]) -> Iterator[A]:
    return (answer for answer in answers if isinstance(answer, kind))
