"""One system on one task: its lines are the arrows of the flow. It starts nothing and knows no Ray.

    rewrite → search → fuse → rerank        rank(task, system): steps that yield demands and end in a run
                             → evaluate     measure(run, task, measures)

Loading, encoding and indexing are what somebody does to answer the demands; see `workbench.driver`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any

from r2med_ray.approximations import Approximation
from r2med_ray.chat import Completion
from r2med_ray.corpus.catalog import TASKS, fetcher
from r2med_ray.cuts import PartCuts
from r2med_ray.demands import Expect, QueryRewriter, Read, Reranker, Steps
from r2med_ray.evaluation.evaluate import Evaluation, evaluate
from r2med_ray.evaluation.invariants import require_possible, require_same_head
from r2med_ray.evaluation.measures import Measure
from r2med_ray.evaluation.trec_eval_check import check_with_trec_eval
from r2med_ray.first_runs import first_run, found_nothing, search
from r2med_ray.models.catalog.listwise_encoders import ListwiseEncoderRow
from r2med_ray.models.catalog.rerankers import RerankerRow
from r2med_ray.models.catalog.resolved_rerankers import ResolvedReranker
from r2med_ray.models.services.tokenizers import open_tokenizer
from r2med_ray.reranking.blending import Blend
from r2med_ray.reranking.heads import head_ids, repairs_together, rerank
from r2med_ray.reranking.llm_prompts import LlmReranking, load_llm_prompt
from r2med_ray.reranking.llm_reranking import build_llm_reranker
from r2med_ray.reranking.pair_reranking import PairReranker
from r2med_ray.reranking.passages import PassageLimit
from r2med_ray.reranking.readability import require_readable
from r2med_ray.reranking.second_query import SHIPPED, SecondQuery
from r2med_ray.rewriting.answers import FORMATS, read_completion
from r2med_ray.rewriting.build import build_rewriter
from r2med_ray.rewriting.prompts import PromptTask
from r2med_ray.sentences import Shares, Told
from r2med_ray.settings.hard_negatives import without_condition
from r2med_ray.systems import ResolvedSystem
from r2med_ray.types import DocId, Query, QueryId, Repairs, Reranking, Rewriting, Run, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranked:
    """What a system did with a task."""

    run: Run
    rewriting: Rewriting
    repairs: Repairs
    """What was repaired in the answers of a language model that reranked."""

    found_nothing: Mapping[str, tuple[QueryId, ...]] = field(default_factory=dict)
    """Label of a first stage → the queries that it ranks nothing for, though another one may."""

    cuts: tuple[PartCuts, ...] = ()
    """What was cut off the passages that a language model was shown by a rewriter, and off the pairs that a reranker
    read; empty for a system with neither."""

    pairs: tuple[Sequence[Any], ...] = ()
    """What each reranker read of one pair, see `readings.Listener.example`; empty if that isn't known."""

    approximations: tuple[Approximation, ...] = ()
    """What each approximate search of the system missed."""

    sentences: Told | None = None
    """The sentences that the last reranker of late interaction found; None if there is none, and for scores from
    before they were told."""


class Watcher:
    """Is told what a system has come to while it works. This one does nothing with it."""

    def rewritten(self, rewriting: Rewriting) -> None:
        """Hear the queries that are searched for."""

    def found(self, runs: Sequence[Run]) -> None:
        """Hear what the first stages found: one run for each."""

    def fused(self, run: Run) -> None:
        """Hear the run that fusion made of theirs."""


def rank(
    task: Task,
    system: ResolvedSystem,
    *,
    device: str = "cpu",
    watcher: Watcher | None = None,
    checks: bool = True,
) -> Steps[Ranked]:
    """Rewrite, search, fuse and rerank.

    Args:
        task: its queries are answered out of its corpus.
        system: what does it.
        device: what encoders compute on, `cpu` or `cuda`; part of what names the finds of a search agent.
        watcher: is told each step's result as soon as it is there.
        checks: whether approximate searches are checked by exact ones.

    Raises:
        ConfigError: a reranker's prompt file is wrong.
        DataError: too many generated texts are unusable, or too many of the reranker's answers can't be read.
        NotAtHand: generated texts are to be replayed, and are not here.
        StageError: reranking changed which documents are in the head.
    """
    rerankers = [_reranker(task, reranker) for reranker in system.rerankers]  # at once: a prompt file may be wrong
    watcher = watcher or Watcher()
    yield _everything_ahead(task, system)
    rewriting = Rewriting(queries=task.queries)
    if rewriter := rewriter_of(task, system, device=device):
        rewriting = yield from rewriter.rewrite(task.queries)
    watcher.rewritten(rewriting)
    yield _reranking_ahead(system)
    found, approximations = yield from search(task, system, rewriting, checks)
    watcher.found(found)
    run = first_run(system, rewriting, found)
    if system.config.fusion or rewriting.ranked:
        watcher.fused(run)
    run, made, sentences = yield from _reranked(task, system, rerankers, rewriting.queries, run)
    return Ranked(
        run=Run(tag=system.name, rankings=run.rankings),
        rewriting=rewriting,
        repairs=reduce(repairs_together, (each.repairs for each in made), Repairs()),
        found_nothing=found_nothing(system, found),
        cuts=_cuts(system, rewriting, made),
        pairs=tuple(each.example or () for each in made),
        approximations=approximations,
        sentences=sentences,
    )


def measure(run: Run, task: Task, measures: Sequence[Measure]) -> Evaluation:
    """Measure a run twice, by `evaluation.measures` and by trec_eval, and check that its values are possible.

    Raises:
        StageError: the two differ, or a query's values are impossible.
    """
    evaluation = evaluate(run, task.qrels, measures)
    check_with_trec_eval(run, task.qrels, measures, evaluation)
    require_possible(evaluation.per_query, measures, task.qrels, unit=f"{run.tag} on {task.name}")
    return evaluation


def rewriter_of(task: Task, system: ResolvedSystem, *, device: str = "cpu") -> QueryRewriter | None:
    """Return what changes a system's queries; None for a system that asks them as they are. See `rank`."""
    if system.method is None or system.config.rewriter is None:
        return None
    return build_rewriter(
        system.config.rewriter,
        task=task,
        method=system.method,
        model=system.language_model,
        in_place=system.language_model is not None and system.language_model.kind == "vllm",
        tool=system.tool,
        tool_inputs=system.tool.inputs(task, device) if system.tool else {},
        rules=system.rules,
        prompt=_prompt_task(task.name),
        can_fetch=fetcher(task) is not None,
        system=system.name,
    )


def _cuts(system: ResolvedSystem, rewriting: Rewriting, made: Sequence[Reranking]) -> tuple[PartCuts, ...]:
    """Return what was cut for the rewriter, if it is shown passages, and for each reranker."""
    writer = system.language_model if system.tool else None
    of_writer = [PartCuts.of_sides(writer.name, "prompts", rewriting.cuts)] if writer else []
    names = [each.config.model for each in system.rerankers]
    of_rerankers = [PartCuts.of_sides(name, "pairs", of.cuts) for name, of in zip(names, made, strict=True)]
    return (*of_writer, *of_rerankers)


def _prompt_task(name: str) -> PromptTask:
    """Return what the choice of a prompt needs to know of a task; one outside the catalogue has but its name."""
    name = without_condition(name)
    if name not in TASKS:
        return PromptTask(names=(name,))
    row = TASKS[name]
    return PromptTask(names=(row.name, *row.aliases), family=row.family)


def _reranked(
    task: Task, system: ResolvedSystem, rerankers: Sequence[Reranker], queries: Sequence[Query], run: Run
) -> Steps[tuple[Run, list[Reranking], Told | None]]:
    """Have the rerankers of a system reorder the head, one after the other."""
    made: list[Reranking] = []
    told: Told | None = None
    for number, (reranker, resolved) in enumerate(zip(rerankers, system.rerankers, strict=True)):
        if number:  # what came before is no longer expected
            yield _reranking_ahead(system, number)
        config, before = resolved.config, run
        documents = yield Read(task=task, doc_ids=head_ids(before, config.depth))
        run, reranking = yield from rerank(
            before,
            reranker,
            queries,
            documents,
            depth=config.depth,
            tag=system.name,
            keep_rest=not system.rules.rerank_rest or number > 0,
            blend=Blend(**config.blend.model_dump()) if config.blend else None,
        )
        require_same_head(before, run, config.depth)
        require_readable(
            reranking,
            max_unusable=config.max_unusable,
            unit=f"{system.name} on {task.name}",
            answers_per_candidate=resolved.answers_per_candidate,
        )
        made.append(reranking)
        if reranking.sentences is not None:
            told = Told(config.model, _by_document(before, reranking.sentences))
    return run, made, told


def _by_document(
    before: Run, sentences: Mapping[QueryId, Sequence[Shares]]
) -> Mapping[QueryId, Mapping[DocId, Shares]]:
    """Return the shares of the candidates, which are the first documents of a run, by their ids."""
    return {
        query_id: {hit.doc_id: shares for hit, shares in zip(before.rankings[query_id], found, strict=False)}
        for query_id, found in sentences.items()
    }


def _reranker(task: Task, reranker: ResolvedReranker) -> Reranker:
    row, model = reranker.row, reranker.model
    if isinstance(row, RerankerRow):
        return PairReranker(row)
    if isinstance(row, ListwiseEncoderRow):
        assert reranker.second_search is not None
        return SecondQuery(
            task,
            reranker.second_search,
            load_llm_prompt("listwise", prompt=row.prompt or SHIPPED),
            PassageLimit(most=row.passage_words),
            shown=row.shown,
            around=(row.prefix, row.suffix),
        )
    assert model is not None
    return build_llm_reranker(
        model,
        partial(_read, model.answer_format),
        LlmReranking(**row.settings(model)),
        think=row.think,
        prompt=row.prompt,
        places=row.places,
        name=row.name,
        open_tokenizer=partial(open_tokenizer, *row.counts_with(model)),
    )


def _read(answer_format: str, completion: Completion) -> tuple[str, str]:
    """Return an answer of a reranking model, and what is wrong with it or nothing."""
    answer = read_completion(completion, FORMATS[answer_format])
    return answer.text, "" if answer.flag == "none" else answer.flag


def _everything_ahead(task: Task, system: ResolvedSystem) -> Expect:
    # What LameR shows its model is searched for at once; an agent and rounds of feedback come back to their tool.
    rewriter, method = system.config.rewriter, system.method
    searches_again = rewriter is not None and method is not None and (rewriter.agent or method.turns(rewriter) > 1)
    first_stages = system.searched_with if searches_again else system.first_stages
    later = _reranking_ahead(system)
    # A method that shows its model nothing has all texts written at once, which is its first demand.
    is_one_demand = method is not None and method.build is None and not searches_again and system.tool is None
    writer = (system.language_model,) if system.language_model and not is_one_demand else ()
    return Expect(
        searches=tuple((task, first_stage) for first_stage in first_stages),
        models=(*writer, *later.models),
        scorers=later.scorers,
    )


def _reranking_ahead(system: ResolvedSystem, number: int = 0) -> Expect:
    """Return what the rerankers from a number on will need."""
    later = system.rerankers[number:]
    return Expect(
        models=tuple(each.model for each in later if each.model),
        scorers=tuple(each.scorer for each in later if each.scorer),
    )
