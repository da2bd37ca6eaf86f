"""One system on one task, corpus to scores. Its lines are the arrows of the flow; it knows no Ray.

    rewrite → search → fuse → rerank → evaluate

Loading, encoding and indexing stand behind the retrievers, which are built over a corpus.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from r2med_ray.evaluation.evaluate import Evaluation, evaluate
from r2med_ray.evaluation.invariants import require_possible, require_same_head
from r2med_ray.evaluation.measures import Measure
from r2med_ray.evaluation.referee import check_with_trec_eval
from r2med_ray.protocols import QueryRewriter, Reranker, Retriever
from r2med_ray.reranking.heads import head_ids, rerank
from r2med_ray.reranking.llm_reranking import require_readable
from r2med_ray.retrieval.fusion import fuse
from r2med_ray.retrieval.query_construction import searches_of
from r2med_ray.settings.config import FusionConfig
from r2med_ray.types import Combine, DocId, Document, Query, Repairs, Rewriting, Run, Task


@dataclass(frozen=True, slots=True, kw_only=True)
class System:
    """The parts of a system, built for one task."""

    name: str
    depth: int
    retrievers: tuple[Retriever, ...]
    fusion: FusionConfig | None = None
    rewriter: QueryRewriter | None = None
    combine: Combine = "mean"
    reranker: Reranker | None = None
    rerank_depth: int = 0
    max_unusable: float = 1.0
    """Share of the reranked queries that may have an unreadable answer of a language model."""

    keep_below: bool = True
    """Whether what is below the reranked head stays in the run; the published runs end there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a system did with a task."""

    rewriting: Rewriting
    run: Run
    repairs: Repairs
    """Of what a language model said of the candidates."""

    evaluation: Evaluation


def run_system(
    task: Task,
    system: System,
    measures: Sequence[Measure],
    fetch_documents: Callable[[Iterable[DocId]], Mapping[DocId, Document]],
) -> Outcome:
    """Rewrite, search, fuse, rerank and evaluate.

    Args:
        task: queries and qrels; the corpus is behind the retrievers.
        system: its parts.
        measures: what is measured, twice: by `evaluation.measures` and by trec_eval.
        fetch_documents: reads the texts that the reranker is shown.

    Raises:
        DataError: too many of the reranker's answers can't be read.
        StageError: reranking changed which documents are in the head, or a query's values are impossible.
    """
    unit, repairs = f"{system.name} on {task.name}", Repairs()
    rewriting = system.rewriter.rewrite(task.queries) if system.rewriter else Rewriting(queries=task.queries)
    searches = searches_of(rewriting.queries, system.combine)
    runs = [_retrieve(retriever, searches, system.depth) for retriever in system.retrievers]
    run = fuse(runs, system.fusion, tag=system.name, k=system.depth) if system.fusion else runs[0]
    if system.reranker is not None:
        first, depth = run, system.rerank_depth
        run, reranking = rerank(
            first,
            system.reranker,
            rewriting.queries,
            fetch_documents(head_ids(first, depth)),
            depth=depth,
            tag=system.name,
            keep_rest=system.keep_below,
        )
        require_same_head(first, run, depth)
        require_readable(reranking, max_unusable=system.max_unusable, unit=unit)
        repairs = reranking.repairs
    evaluation = evaluate(run, task.qrels, measures)
    check_with_trec_eval(run, task.qrels, evaluation)
    require_possible(evaluation.per_query, task.qrels, unit=unit)
    run = Run(tag=system.name, rankings=run.rankings)
    return Outcome(rewriting=rewriting, run=run, repairs=repairs, evaluation=evaluation)


def _retrieve(retriever: Retriever, searches: Sequence[Sequence[Query]], k: int) -> Run:
    runs = [retriever.retrieve(queries, k=k) for queries in searches]
    return fuse(runs, FusionConfig(), tag=runs[0].tag, k=k) if len(runs) > 1 else runs[0]
