"""Writes any collection as a set in NanoR2MED's layout, ranked lists and what they were made with included."""

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from r2med_ray.corpus.layouts import LAYOUTS
from r2med_ray.corpus.sources import TaskSource
from r2med_ray.errors import DataError
from r2med_ray.evaluation.trec import read_run
from r2med_ray.indexing.bm25 import BM25_ROWS, BM25Row
from r2med_ray.indexing.bm25_index import BM25Index
from r2med_ray.indexing.statistics import CorpusStatistics, ShardTerms
from r2med_ray.interop.nano.files import write_split
from r2med_ray.interop.nano.pool import NanoPool, select_pool
from r2med_ray.retrieval.nano_hybrid import LIST_DEPTH, RRF_K, SEED, hybrid_lists
from r2med_ray.retrieval.ranked_lists import NUM_CANDIDATES, Lists
from r2med_ray.storage.keys import Json
from r2med_ray.storage.new_folders import new_folder
from r2med_ray.types import DocId

logger = logging.getLogger(__name__)

BM25 = BM25_ROWS["bm25-nano"]
METADATA_FILE = "reranking_hybrid_metadata.json"


def build_nano(
    sources: Sequence[TaskSource],
    output: Path,
    *,
    num_queries: int,
    num_documents: int,
    dense: str | None = None,
) -> dict[str, NanoPool]:
    """Write collections as the splits of one Nano set, whole or not at all.

    Args:
        sources: the collections.
        output: a folder that doesn't exist.
        num_queries: the most queries of a split.
        num_documents: the most documents of a split.
        dense: a TREC run of a dense retriever over the whole collection. `{task}` stands for the task's name.
            Documents outside the pool are left out, which makes the run one over the pool. A warning is logged
            if a query keeps fewer than 500 documents, unless the query keeps the whole pool.

    Returns:
        The name of each split → its pool.

    Raises:
        ConfigError: the folder exists.
        DataError: a record of a collection is wrong, or the dense run lacks a query.
    """
    pools: dict[str, NanoPool] = {}
    splits: dict[str, Json] = {}
    with new_folder(output) as folder:
        for source in sources:
            split = split_name(source)
            pool = select_pool(source, num_queries=num_queries, num_documents=num_documents)
            lists = {"bm25": bm25_lists(pool)}
            if dense is not None:
                lists["dense"] = dense_lists(pool, Path(dense.replace("{task}", source.name)))
            hybrid = hybrid_lists(list(lists.values()), pool.qrels, split=split)
            write_split(folder, split, pool, {**lists, "reranking_hybrid": hybrid})
            pools[split] = pool
            splits[split] = _describe_split(source, pool, {**lists, "reranking_hybrid": hybrid})
        metadata = {"configs": _describe_configs(dense), "splits": splits}
        text = json.dumps(metadata, ensure_ascii=False, indent=2)
        (folder / METADATA_FILE).write_text(f"{text}\n", encoding="utf-8")
    return pools


def split_name(source: TaskSource) -> str:
    """Return what a Nano set calls a task: NanoR2MEDMedicalSciences for Medical-Sciences of R2MED."""
    suite = "" if source.name.startswith(source.suite) else source.suite
    return f"Nano{suite}{source.name}".replace("-", "")


def bm25_lists(pool: NanoPool, row: BM25Row = BM25) -> dict[str, list[DocId]]:
    """Rank the pool for each query by a variant of BM25. Documents without a term of the query come last."""
    terms = ShardTerms.from_texts((document.text for document in pool.documents), row.analyzer)
    doc_ids = [document.doc_id for document in pool.documents]
    index = BM25Index.build(terms, doc_ids, CorpusStatistics.of_shard(terms), row, keep_zero_scores=True)
    rankings = index.search([query.text for query in pool.queries], LIST_DEPTH)
    return {
        query.query_id: [hit.doc_id for hit in ranking] for query, ranking in zip(pool.queries, rankings, strict=True)
    }


def dense_lists(pool: NanoPool, run_file: Path) -> dict[str, list[DocId]]:
    """Return the ranked documents of the pool for each of its queries, in the order of a run.

    Raises:
        DataError: the run is malformed, or has no document of the pool for a query.
    """
    run = read_run(run_file)
    doc_ids = {document.doc_id for document in pool.documents}
    lists: dict[str, list[DocId]] = {}
    for query in pool.queries:
        ranked = [hit.doc_id for hit in run.rankings.get(query.query_id, ()) if hit.doc_id in doc_ids]
        if not ranked:
            raise DataError(f"{run_file}: ranks no document of the pool for query {query.query_id!r}")
        lists[query.query_id] = ranked[:LIST_DEPTH]
    _warn_of_short_lists(lists, min(LIST_DEPTH, len(pool.documents)), run_file)
    return lists


def _warn_of_short_lists(lists: Lists, depth: int, run_file: Path) -> None:
    short = [len(ranked) for ranked in lists.values() if len(ranked) < depth]
    if short:
        logger.warning(
            "%s: %d of %d queries have fewer than %d documents of the pool, one has %d. Give a run that ranks all "
            "documents of the corpus, or a run over the pool with depth %d",
            run_file,
            len(short),
            len(lists),
            depth,
            min(short),
            depth,
        )


def _describe_configs(dense: str | None) -> Json:
    return {
        "bm25": {"top_k": LIST_DEPTH, "algorithm": BM25.describe()},
        **({_config("dense"): {"top_k": LIST_DEPTH, "run": dense}} if dense else {}),
        "reranking_hybrid": {
            "method": "reciprocal_rank_fusion",
            "rrf_k": RRF_K,
            "rrf_top_k": NUM_CANDIDATES,
            "max_candidates_per_query": NUM_CANDIDATES + 1,
            "random_seed": SEED,
        },
    }


def _describe_split(source: TaskSource, pool: NanoPool, lists: Mapping[str, Lists]) -> Json:
    hybrid = lists["reranking_hybrid"]
    return {
        "source": source.name,
        "source_revision": source.revision,
        "corpus_count": len(pool.documents),
        "query_count": len(pool.queries),
        "qrel_count": sum(map(len, pool.qrels.values())),
        "lost_positives": pool.lost_positives,
        "lost_queries": pool.lost_queries,
        "lost_exclusions": pool.lost_exclusions,
        **{
            _config(name): {
                "candidate_count_min": min(map(len, of_queries.values())),
                "candidate_count_max": max(map(len, of_queries.values())),
            }
            for name, of_queries in lists.items()
        },
        "safeguard_positives": {
            query_id: ranked[NUM_CANDIDATES] for query_id, ranked in hybrid.items() if len(ranked) > NUM_CANDIDATES
        },
    }


def _config(name: str) -> str:
    """Return the folder of a list. A dense list gets the folder of the published one, whichever retriever made it."""
    return LAYOUTS["nano"].ranked_lists[name][0].partition("/")[0]
