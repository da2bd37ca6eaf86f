"""A first stage of ours as mteb's `SearchProtocol`: `mteb.evaluate(MtebSearch(stage, open_in_process), task)`.

mteb loads the task and measures; analysis, vectors, index, search and the order of documents are ours.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from r2med_ray.errors import ConfigError, DataError
from r2med_ray.interop.mteb_tasks import import_mteb, our_name, read_corpus, read_queries
from r2med_ray.protocols import Retriever
from r2med_ray.ranking import best
from r2med_ray.reporting.mteb_results import ORGANISATION
from r2med_ray.stages.first_stage import FirstStage
from r2med_ray.stages.lexical import LexicalStage
from r2med_ray.stages.vectors import DenseStage
from r2med_ray.storage.artifacts import fingerprint
from r2med_ray.types import DocId, Document, Query, QueryId, Ranking

if TYPE_CHECKING:
    from mteb.models import ModelMeta

Opener: TypeAlias = Callable[[FirstStage, Sequence[Document], str], Retriever]
"""First stage, corpus, our name of the task → what searches it: `in_process.open_in_process`, `OnCluster.open`."""

HITS_AT_ONCE = 2_000_000
"""Hits that a search for given candidates holds: it asks for whole rankings, and 2 million take about 0.3 GB."""


class MtebSearch:
    """Holds the index of one corpus at a time.

    Args:
        stage: BM25 or an encoder, e.g. `systems.resolve(...).systems[0].first_stages[0]`.
        open_retriever: indexes a corpus.

    Raises:
        ConfigError: mteb is not installed.
    """

    def __init__(self, stage: FirstStage, open_retriever: Opener) -> None:
        self.mteb_model_meta = stage_meta(stage)
        self._stage = stage
        self._open = open_retriever
        self._retriever: Retriever | None = None
        self._num_documents = 0

    def index(self, corpus: Iterable[Mapping[str, Any]], *, task_metadata: Any, **_: Any) -> None:
        """Index a corpus in place of an earlier one.

        Raises:
            DataError: a document has no text.
        """
        documents = read_corpus(corpus)
        self._num_documents = len(documents)
        self._retriever = self._open(self._stage, documents, our_name(task_metadata.name))

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
            top_k: documents per query.
            top_ranked: the only documents that may be found; BM25 leaves out those without a term of the query.

        Raises:
            ConfigError: nothing is indexed.
            DataError: a query is no text, or has no candidates although others have.
        """
        if self._retriever is None:
            raise ConfigError("mteb asked for a search before it gave a corpus to index")
        asked = read_queries(queries)
        if top_ranked is None:
            rankings = self._retriever.retrieve(asked, k=top_k).rankings
        else:
            rankings = self._among(self._retriever, asked, top_ranked, top_k)
        return {query_id: {hit.doc_id: hit.score for hit in ranking} for query_id, ranking in rankings.items()}

    def _among(
        self,
        retriever: Retriever,
        queries: Sequence[Query],
        candidates: Mapping[QueryId, Sequence[DocId]],
        k: int,
    ) -> dict[QueryId, Ranking]:
        """Rank the candidates of each query as the whole corpus would rank them."""
        found: dict[QueryId, Ranking] = {}
        at_once = max(1, HITS_AT_ONCE // max(1, self._num_documents))
        for start in range(0, len(queries), at_once):
            run = retriever.retrieve(queries[start : start + at_once], k=self._num_documents)
            for query_id, ranking in run.rankings.items():
                if query_id not in candidates:
                    raise DataError(f"query {query_id!r} has no candidates; {len(candidates)} other queries have")
                allowed = set(candidates[query_id])
                found[query_id] = best((hit for hit in ranking if hit.doc_id in allowed), k)
        return found


def stage_meta(stage: FirstStage) -> "ModelMeta":
    """Return mteb's description of a first stage.

    Its name is not that of the checkpoint, which mteb may run itself with other prompts and lengths. Its revision is
    the row's and a digest of all settings, so that mteb's cache never takes one setting's results for another's.
    """
    import_mteb()
    from mteb.models import ModelMeta

    row = stage.row if isinstance(stage, DenseStage) else None
    digest = fingerprint({"settings": dict(stage.settings()), "compat": stage.compat})[:12]
    known: dict[str, Any] = {
        "name": f"{ORGANISATION}/{stage.label.replace('/', '_')}",
        "revision": f"{row.revision}-{digest}" if row and row.revision else digest,
        "languages": ["eng-Latn"],
        "model_type": ["sparse"] if isinstance(stage, LexicalStage) else [],
    }
    if row:
        known |= {
            "adapted_from": row.model,
            "framework": ["PyTorch"],
            "model_type": ["dense"],
            "similarity_fn_name": row.similarity,
            "max_tokens": row.max_length,
            "use_instructions": bool(row.query_prompt or row.document_prompt),
        }
    return ModelMeta.model_validate(ModelMeta.create_empty().model_dump() | known)
