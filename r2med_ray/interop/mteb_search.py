"""A first stage of ours as mteb's `SearchProtocol`: `mteb.evaluate(MtebSearch(bench, "bm25"), task)`.

mteb loads the task and measures the rankings. Analysis, vectors, index, search and the order of documents are ours.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from r2med_ray.approximations import Approximation
from r2med_ray.demands import Expect, Find, Steps
from r2med_ray.errors import ConfigError, DataError
from r2med_ray.first_stage import FirstStage
from r2med_ray.interop.mteb_tasks import import_mteb, our_name, read_corpus, read_queries
from r2med_ray.ranking import best
from r2med_ray.reporting.mteb_results import ORGANISATION
from r2med_ray.retrieval.approximate_search import checked
from r2med_ray.storage.keys import fingerprint
from r2med_ray.types import DocId, Query, QueryId, Ranking, Run, Task
from r2med_ray.workbench.bench import Workbench

if TYPE_CHECKING:
    from mteb.models import ModelMeta

HITS_AT_ONCE = 2_000_000
"""Number of hits that a search for given candidates holds at once; 2 million hits take about 0.3 GB.

Such a search asks for rankings of the whole corpus.
"""


class MtebSearch:
    """Searches the corpus that mteb gave to `index` last.

    mteb's results have no place for what an approximate search misses. `approximation` says it of the last search,
    None if that was exact; and the log of each search says it, with a warning unless it is next to nothing.

    Args:
        bench: keeps and searches the corpora, in this process or on a cluster.
        retriever: the entry of a benchmark file for a retriever, or a first stage.

    Raises:
        ConfigError: mteb is not installed, or there is no such retriever.
    """

    def __init__(self, bench: Workbench, retriever: str | Mapping[str, Any] | FirstStage) -> None:
        self._first_stage = bench.first_stage(retriever) if isinstance(retriever, str | Mapping) else retriever
        self.mteb_model_meta = first_stage_meta(self._first_stage)
        self._bench = bench
        self._task: Task | None = None
        self.approximation: Approximation | None = None

    def index(self, corpus: Iterable[Mapping[str, Any]], *, task_metadata: Any, **_: Any) -> None:
        """Store a corpus, which replaces an earlier one. The first search analyses or encodes it.

        Raises:
            DataError: a document has no text.
        """
        self._task = self._bench.task(our_name(task_metadata.name), documents=read_corpus(corpus))

    def search(
        self,
        queries: Iterable[Mapping[str, Any]],
        *,
        top_k: int,
        top_ranked: Mapping[QueryId, Sequence[DocId]] | None = None,
        **_: Any,
    ) -> dict[QueryId, dict[DocId, float]]:
        """Return query_id → doc_id → score, best first.

        Args:
            queries: rows of mteb's queries.
            top_k: number of documents per query.
            top_ranked: the only documents that may be found. BM25 leaves out documents without a term of the query.

        Raises:
            ConfigError: `index` was not called before.
            DataError: a query is no text, or has no candidates although other queries have some.
        """
        if self._task is None:
            raise ConfigError("mteb asked for a search before it gave a corpus to index")
        asked = read_queries(queries)
        if top_ranked is None:
            run = self._bench.find(self._task, self._first_stage, asked, k=top_k)
            rankings, self.approximation = run.rankings, run.approximation
        else:
            rankings = self._among(self._task, asked, top_ranked, top_k)
        return {query_id: {hit.doc_id: hit.score for hit in ranking} for query_id, ranking in rankings.items()}

    def _among(
        self, task: Task, queries: Sequence[Query], candidates: Mapping[QueryId, Sequence[DocId]], k: int
    ) -> dict[QueryId, Ranking]:
        """Rank the candidates of each query as the whole corpus would rank them."""
        for query in queries:
            if query.query_id not in candidates:
                raise DataError(f"query {query.query_id!r} has no candidates; {len(candidates)} other queries have")
        steps = self._whole_rankings(task, queries, candidates, k)
        return self._bench.lead(f"mteb's candidates of {task.name}", steps)

    def _whole_rankings(
        self, task: Task, queries: Sequence[Query], candidates: Mapping[QueryId, Sequence[DocId]], k: int
    ) -> Steps[dict[QueryId, Ranking]]:
        """Rank the whole corpus for some queries at a time, with one open index, and keep the candidates."""
        num_documents = task.corpus.num_documents
        at_once = max(1, HITS_AT_ONCE // num_documents)
        found: dict[QueryId, Ranking] = {}
        yield Expect(searches=((task, self._first_stage),))
        for start in range(0, len(queries), at_once):
            some = tuple(queries[start : start + at_once])
            find = Find(task=task, first_stage=self._first_stage, queries=some, k=num_documents, keep=False)
            run: Run
            if start:
                run = yield find
            else:  # one sample is enough: exact search ranks the whole corpus, too
                run = yield from checked(find)
                self.approximation = run.approximation
            for query_id, ranking in run.rankings.items():
                allowed = set(candidates[query_id])
                found[query_id] = best((hit for hit in ranking if hit.doc_id in allowed), k)
        return found


def first_stage_meta(first_stage: FirstStage) -> "ModelMeta":
    """Return mteb's description of a first stage.

    The name differs from the checkpoint's name, because mteb may run the checkpoint itself with other prompts and
    lengths. The revision is the row's revision and a digest of all settings, so that mteb's cache never confuses the
    results of two settings.
    """
    import_mteb()
    from mteb.models import ModelMeta

    facts = first_stage.model_facts()
    digest = fingerprint({"settings": dict(first_stage.settings()), "compat": first_stage.rules.compat})[:12]
    known = {
        "name": f"{ORGANISATION}/{first_stage.label.replace('/', '_')}",
        "revision": f"{facts.revision}-{digest}" if facts.revision else digest,
        "languages": ["eng-Latn"],
        "model_type": [] if facts.vectors == "none" else [facts.vectors],
        "framework": ["PyTorch"] if facts.checkpoint else [],
        "adapted_from": facts.checkpoint,
        "similarity_fn_name": facts.similarity,
        "max_tokens": facts.max_length,
        "use_instructions": facts.has_prompts if facts.max_length else None,
    }
    return ModelMeta.model_validate(ModelMeta.create_empty().model_dump() | known)
