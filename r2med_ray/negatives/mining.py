"""Mines hard negatives: the best documents of several rankings that are no positives, checked by a cross-encoder.

For each query with a positive, the first `range_max` documents of each ranking are candidates, unless they are
positives of the query, or have the text of a positive or of another candidate. A cross-encoder scores the candidates
and the positives. A candidate whose score is too near the lowest of the positives may be a positive that nobody
judged, so it is set aside. What passes is sorted by score, `range_min` are skipped, and `num_negatives` are chosen.

The rules are those of `mine_hard_negatives` of sentence-transformers with a cross-encoder, but for one: there, what a
query's `range_max` leaves out depends on how many positives other queries have.
"""

import logging
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from r2med_ray.corpus.catalog import resolve_tasks
from r2med_ray.corpus.loading import load_task
from r2med_ray.corpus.shards import held_ids
from r2med_ray.demands import Find, Read, Score, Steps
from r2med_ray.errors import ConfigError, DataError
from r2med_ray.first_stage import FirstStage
from r2med_ray.models.catalog.rerankers import RerankerRow
from r2med_ray.negatives.mined_settings import MiningConfig
from r2med_ray.protocols import Candidates
from r2med_ray.ranking import best, require_finite
from r2med_ray.retrieval.approximate_search import checked
from r2med_ray.types import DocId, Document, Query, Reranking, Run, ScoredDoc, Task, positives_of
from r2med_ray.workbench.bench import Workbench

logger = logging.getLogger(__name__)

CHOSEN = "chosen"


class Found(NamedTuple):
    """Where a retriever ranked a candidate."""

    retriever: str
    rank: int
    """From 1, positives counted."""

    score: float


class Candidate(NamedTuple):
    """A document that the cross-encoder scored for a query."""

    doc_id: DocId
    found: tuple[Found, ...]
    score: float
    """The cross-encoder's."""

    margin: float
    """The lowest score of the query's positives minus the score."""

    verdict: str
    """`chosen`, or the setting that it failed; `num_negatives` if enough others were chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MinedQuery:
    """The candidates of one query."""

    query: Query
    positives: Mapping[DocId, float]
    """Positive → score of the cross-encoder."""

    candidates: tuple[Candidate, ...]
    """By score, best first."""

    refused: Mapping[str, int]
    """Why a ranked document was no candidate → how many."""

    @property
    def chosen(self) -> tuple[Candidate, ...]:
        return tuple(each for each in self.candidates if each.verdict == CHOSEN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mined:
    """What was mined for a task."""

    task: Task
    config: MiningConfig
    retrievers: tuple[FirstStage, ...]
    scorer: RerankerRow
    queries: tuple[MinedQuery, ...]
    documents: Mapping[DocId, Document]
    """All positives and candidates."""

    counts: Mapping[str, int]
    """What was used, and what could not be."""

    @property
    def verdicts(self) -> dict[str, int]:
        """Verdict or reason of refusal → how many documents of all queries."""
        given = Counter(each.verdict for query in self.queries for each in query.candidates)
        refused = sum((Counter(query.refused) for query in self.queries), Counter[str]())
        return dict(sorted((given + refused).items()))


def mine(bench: Workbench, config: MiningConfig) -> Mined:
    """Mine the hard negatives of a task.

    Raises:
        ConfigError: the task, a retriever or the cross-encoder is unknown, or a retriever is named twice.
        DataError: the task's files are wrong, or no query has a positive that the corpus has.
        NotAtHand: a file or a model is not here.
    """
    first_stages = tuple(bench.first_stage(each.model_dump(exclude_unset=True)) for each in config.retrievers)
    labels = [each.label for each in first_stages]
    if len({*labels}) < len(labels):
        raise ConfigError(
            f"retrievers: two of {', '.join(labels)} have one name, by which candidates say who found them"
        )
    scorer = bench.scorer(config.cross_encoder)
    [source] = resolve_tasks([config.task])
    resources = config.resources
    task = load_task(source, bench.store, documents_per_shard=resources.documents_per_shard, shards=resources.shards)
    for warning in task.warnings:
        logger.warning("%s: %s", task.name, warning)
    judged = {query: positives_of(task.qrels.get(query.query_id, {})) for query in task.queries}
    wanted = set[DocId]().union(*judged.values())
    there = held_ids(bench.store, task.corpus, wanted)
    positives = {query: sorted(found) for query, of_query in judged.items() if (found := of_query & there)}
    if not positives:
        raise DataError(f"{task.name}: none of {len(task.queries)} queries has a positive that the corpus has")
    part = _scored(task, positives, first_stages, scorer, config)
    queries, documents = bench.lead(f"hard negatives of {task.name}", part)
    counts = {
        "queries": len(queries),
        "queries_without_a_positive": len(task.queries) - len(queries),
        "queries_with_fewer_negatives": sum(len(each.chosen) < config.num_negatives for each in queries),
        "positives_not_in_the_corpus": sum(len(of_query - there) for of_query in judged.values()),
    }
    return Mined(
        task=task,
        config=config,
        retrievers=first_stages,
        scorer=scorer,
        queries=queries,
        documents=documents,
        counts=counts,
    )


class _Pool(NamedTuple):
    """What the rankings hold for one query, before anything is scored."""

    query: Query
    positives: tuple[DocId, ...]
    found: Mapping[DocId, tuple[Found, ...]]
    refused: Mapping[str, int]

    @property
    def doc_ids(self) -> tuple[DocId, ...]:
        """The documents that are scored, in an order that no ranking decides."""
        return (*self.positives, *sorted(self.found))


def _scored(
    task: Task,
    positives: Mapping[Query, Sequence[DocId]],
    first_stages: Sequence[FirstStage],
    scorer: RerankerRow,
    config: MiningConfig,
) -> Steps[tuple[tuple[MinedQuery, ...], Mapping[DocId, Document]]]:
    """Search, have candidates and positives scored, and judge the candidates of each query."""
    k = config.range_max + max(map(len, positives.values()))
    runs: dict[str, Run] = {}
    for first_stage in first_stages:
        find = Find(task=task, first_stage=first_stage, queries=tuple(positives), k=k)
        runs[first_stage.label] = yield from checked(find)
    pools = [_pool(runs, query, tuple(of_query), config.range_max) for query, of_query in positives.items()]
    wanted = frozenset(doc_id for pool in pools for doc_id in pool.doc_ids)
    documents: Mapping[DocId, Document] = yield Read(task=task, doc_ids=wanted)
    pools = [_without_copies(pool, documents) for pool in pools]
    work = [
        Candidates(replace(pool.query, expansions=()), [documents[doc_id] for doc_id in pool.doc_ids], ())
        for pool in pools
    ]
    reranking: Reranking = yield Score(scorer=scorer, candidates=tuple(work))
    return tuple(_judged(pool, reranking.scores[pool.query.query_id], config) for pool in pools), documents


def _pool(runs: Mapping[str, Run], query: Query, positives: tuple[DocId, ...], range_max: int) -> _Pool:
    found: dict[DocId, tuple[Found, ...]] = {}
    refused: set[DocId] = set()
    for retriever, run in runs.items():
        left = range_max
        for rank, hit in enumerate(run.rankings.get(query.query_id, ()), start=1):
            if not left:
                break
            if hit.doc_id in positives:
                refused.add(hit.doc_id)
            else:
                found[hit.doc_id] = (*found.get(hit.doc_id, ()), Found(retriever, rank, hit.score))
                left -= 1
    return _Pool(query, positives, found, {"positive": len(refused)} if refused else {})


def _without_copies(pool: _Pool, documents: Mapping[DocId, Document]) -> _Pool:
    """Leave out candidates with the text of a positive or of another candidate, of which the least id stays."""
    known = {documents[doc_id].content: "text of a positive" for doc_id in pool.positives}
    kept: dict[DocId, tuple[Found, ...]] = {}
    refused = Counter(pool.refused)
    for doc_id, found in sorted(pool.found.items()):
        text = documents[doc_id].content
        if text in known:
            refused[known[text]] += 1
        else:
            kept[doc_id] = found
            known[text] = "text of another candidate"
    return pool._replace(found=kept, refused=refused)


def _judged(pool: _Pool, scores: Sequence[float], config: MiningConfig) -> MinedQuery:
    query_id = pool.query.query_id
    by_id = {doc_id: ScoredDoc(doc_id, score) for doc_id, score in zip(pool.doc_ids, scores, strict=True)}
    require_finite(tuple(by_id.values()), stage="mine", query_id=query_id)
    positives = {doc_id: by_id[doc_id].score for doc_id in pool.positives}
    lowest = min(positives.values())
    ranked = best([by_id[doc_id] for doc_id in pool.found], len(pool.found))
    failed = {hit.doc_id: fault for hit in ranked if (fault := _fault(hit.score, lowest, config))}
    passing = [hit.doc_id for hit in ranked if hit.doc_id not in failed]
    skipped, rest = passing[: config.range_min], passing[config.range_min :]
    num = min(config.num_negatives, len(rest))
    chosen = rest[:num]
    if config.sampling_strategy == "random":
        chosen = random.Random(f"{config.seed} {query_id}").sample(rest, num)
    verdicts = dict.fromkeys(passing, "num_negatives") | dict.fromkeys(skipped, "range_min")
    verdicts |= dict.fromkeys(chosen, CHOSEN) | failed
    return MinedQuery(
        query=pool.query,
        positives=positives,
        candidates=tuple(
            Candidate(hit.doc_id, pool.found[hit.doc_id], hit.score, lowest - hit.score, verdicts[hit.doc_id])
            for hit in ranked
        ),
        refused=pool.refused,
    )


def _fault(score: float, lowest: float, config: MiningConfig) -> str | None:
    """Return the first setting that a candidate fails; None if it passes.

    Args:
        score: the candidate's.
        lowest: of the query's positives. A share of its size is taken away from it, as scores may be negative.
        config: the settings.
    """
    if config.absolute_margin is not None and score + config.absolute_margin > lowest:
        return "absolute_margin"
    if config.relative_margin is not None and score > lowest - abs(lowest) * config.relative_margin:
        return "relative_margin"
    if config.max_score is not None and score > config.max_score:
        return "max_score"
    if config.min_score is not None and score < config.min_score:
        return "min_score"
    return None
