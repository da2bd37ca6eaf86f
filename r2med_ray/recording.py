"""What a report is told of the tasks, the systems and the results of a job."""

import logging
import time
from collections.abc import Iterable, Mapping, Sequence

from r2med_ray.corpus.catalog import TaskRow
from r2med_ray.cuts import together
from r2med_ray.evaluation.evaluate import Evaluation
from r2med_ray.evaluation.leakage import Leakage
from r2med_ray.evaluation.measures import Measure
from r2med_ray.evaluation.recall_by_depth import recall_by_depth
from r2med_ray.evaluation.text_ties import TieRange, tie_ranges
from r2med_ray.pipeline import Ranked, measure
from r2med_ray.reporting.part_records import ModelRecord, PartRecord
from r2med_ray.reporting.record import ResultRecord, StageRecord, SystemRecord, TaskRecord
from r2med_ray.reporting.texts import TaskTexts
from r2med_ray.retrieval.search import most_found
from r2med_ray.retrieval.searches import searches_made
from r2med_ray.settings.config import TaskConfig
from r2med_ray.storage.keys import Json
from r2med_ray.systems import ResolvedBenchmark, ResolvedSystem
from r2med_ray.types import DocId, Run, Task
from r2med_ray.workbench.parts import Ended
from r2med_ray.workbench.worklog import Entry

logger = logging.getLogger(__name__)


def result_record(
    benchmark: ResolvedBenchmark,
    task: Task,
    system: ResolvedSystem,
    ended: Ended[Ranked],
    left_out: Mapping[str, Mapping[DocId, str]],
    leakage: Leakage | None = None,
) -> ResultRecord:
    """Measure what a system ranked on a task.

    Args:
        benchmark: has the measures.
        task: was searched.
        system: searched.
        ended: what it ranked, and what that was made from.
        left_out: retriever → document that its index lacks → the reason.
        leakage: which of its generated texts hold words of judged passages.
    """
    ranked, began = ended.result, time.monotonic()
    evaluation = measure(ranked.run, task, benchmark.measures)
    drops = any(first_stage.drop_identical_ids for first_stage in system.first_stages)
    identical = sorted(task.identical_ids) if drops else []
    main = benchmark.config.main_measure
    logger.info("%s on %s: %s %.4f", ranked.run.tag, task.name, main, evaluation.means[main])
    return ResultRecord(
        system=ranked.run.tag,
        task=task.name,
        evaluation=evaluation,
        run=ranked.run,
        artifact_names={"corpus": task.corpus.key, **_numbered(ended.artifacts)},
        flagged=ranked.rewriting.flagged,
        unchanged=ranked.rewriting.unchanged,
        left_out=left_out,
        repairs=ranked.repairs,
        found_nothing=ranked.found_nothing,
        identical_ids=tuple(identical),
        identical_positives=tuple(name for name in identical if task.qrels.get(name, {}).get(name, 0) > 0),
        text_ties=_text_ties(benchmark.measures, task, system, ranked, evaluation, identical),
        approximations=ranked.approximations,
        recall_by_depth=recall_by_depth(ranked.run, task.qrels, benchmark.config.depth),
        num_short=_short(ranked.run, task, system, left_out),
        seconds={**ended.seconds, "evaluate": time.monotonic() - began},
        cuts=(*together(ended.cuts), *ranked.cuts),
        leakage=leakage,
    )


def _text_ties(
    measures: Sequence[Measure],
    task: Task,
    system: ResolvedSystem,
    ranked: Ranked,
    evaluation: Evaluation,
    identical: Sequence[DocId],
) -> Mapping[str, TieRange]:
    """Return what the order of equal texts changes; `identical` are the ids of queries that are left out for them."""
    return tie_ranges(
        ranked.run,
        task.qrels,
        task.same_texts,
        measures,
        evaluation,
        depth=system.depth if keeps_scores(system, ranked) else None,
        excluded={
            query.query_id: query.excluded | {query.query_id}.intersection(identical) for query in task.queries
        },
    )


def keeps_scores(system: ResolvedSystem, ranked: Ranked) -> bool:
    """Return whether a ranking is that of one search of one retriever, which scores equal texts equally."""
    searches = searches_made(ranked.rewriting, system.combine)
    is_given = system.first_stages[0].work == "nothing"  # a list that others made
    is_searched = len(searches) == 1 and not ranked.rewriting.ranked
    return not system.config.fusion and not system.rerankers and is_searched and not is_given


def _short(run: Run, task: Task, system: ResolvedSystem, left_out: Mapping[str, Mapping[DocId, str]]) -> int:
    """Return how many answered queries have fewer documents than were asked for, and than an index has for them."""
    drops = all(first_stage.drop_identical_ids for first_stage in system.first_stages)
    lacking = frozenset.intersection(*(frozenset(left_out.get(each.label, ())) for each in system.first_stages))
    return sum(
        0
        < len(run.rankings.get(query.query_id, ()))
        < min(system.depth, most_found(task, query, drop_identical_ids=drops, left_out=lacking))
        for query in task.queries
    )


def _numbered(names: Sequence[str]) -> Mapping[str, str]:
    """Return `run 1` → name and so on: what a result was made from, in the order of its demands."""
    by_kind: dict[str, list[str]] = {}
    for name in names:
        by_kind.setdefault(name.partition("/")[0], []).append(name)
    return {
        f"{kind} {number}": name for kind, of_kind in by_kind.items() for number, name in enumerate(of_kind, start=1)
    }


def stage_records(entries: Iterable[Entry], made: Iterable[PartRecord]) -> list[StageRecord]:
    """Return what a report is told of work: what this job did, and how all that it used was made.

    Args:
        entries: what this job did.
        made: what it used, whichever job made it. What this job had nothing to do for has a record too.
    """
    of_all = {(part.arrow, part.part): part for part in made}
    records = [
        StageRecord(
            stage=entry.stage,
            unit=entry.unit,
            documents=entry.report.documents,
            seconds=entry.report.seconds,
            reused=entry.report.documents == 0,
            tokens=entry.report.usage.get("tokens", 0),
            cost=entry.report.cost,
            slow=entry.report.slow,
            made=of_all.pop((entry.stage, entry.unit), None),
        )
        for entry in entries
    ]
    kept = [
        StageRecord(stage=part.arrow, unit=part.part, documents=0, seconds=0.0, reused=True, made=part)
        for part in of_all.values()
    ]
    return [*records, *kept]


def loading_record(task: Task) -> PartRecord | None:
    """Return how a corpus was converted; None if that was not noted."""
    corpus = task.corpus
    if corpus.seconds is None:
        return None
    return PartRecord(arrow="load", part=task.name, items=corpus.num_rows, seconds=corpus.seconds)


def task_record(entry: TaskRow | TaskConfig, task: Task | None, texts: TaskTexts | None) -> TaskRecord:
    """Return what a report is told of a task; `task` is None if it could not be loaded."""
    if task is None:
        return TaskRecord(
            name=entry.name,
            suite=entry.suite if isinstance(entry, TaskRow) else entry.name,
            revision=entry.revision if isinstance(entry, TaskRow) else "",
            qrels={},
        )
    return TaskRecord(
        name=task.name,
        suite=task.suite,
        revision=task.revision,
        qrels=task.qrels,
        counts=task.counts,
        warnings=task.warnings,
        is_part=bool(task.all_queries),
        hard_negatives=task.hard_negatives,
        contrasts=task.contrasts,
        texts=texts,
    )


def system_record(
    resolved: ResolvedSystem,
    example: Mapping[str, Json],
    models: tuple[ModelRecord, ...],
    computed: Sequence[PartRecord],
    *,
    is_whole: bool,
) -> SystemRecord:
    """Return what a report is told of a system.

    Args:
        resolved: the system.
        example: says what its models are given, and is empty if unknown.
        models: the facts of its models; empty if unknown.
        computed: says how its parts were computed.
        is_whole: False if only some queries of a task were asked, which compares with nothing that is published.
    """
    return SystemRecord(
        name=resolved.name,
        description=resolved.describe(),
        settings={first_stage.label: first_stage.settings() for first_stage in resolved.first_stages},
        compat=resolved.rules.compat,
        differences=tuple(row.id for row in resolved.differences),
        published_key=resolved.published_key if is_whole else None,
        example=example,
        computed=tuple(computed),
        models=models,
    )
