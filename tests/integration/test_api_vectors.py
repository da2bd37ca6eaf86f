"""An embedding service used through Ray: one actor asks it, every answer is stored, and costs are added up."""

from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit

from r2med_ray.corpus.catalog import resolve_tasks
from r2med_ray.corpus.loading import load_task, read_shard
from r2med_ray.distributed.preparing import prepare
from r2med_ray.distributed.progress import StageReport
from r2med_ray.distributed.searching import open_index
from r2med_ray.errors import StageError
from r2med_ray.first_stage import Computing
from r2med_ray.first_stages.preparation import QuerySet
from r2med_ray.first_stages.vectors import ApiFirstStage
from r2med_ray.models.catalog.call_policy import CallPolicy
from r2med_ray.models.catalog.services import ApiEncoderRow
from r2med_ray.models.services.embeddings import ApiEncoder
from r2med_ray.settings.compat import Rules
from r2med_ray.settings.pools import ClusterCapacity, Pool
from r2med_ray.storage.artifacts import ArtifactStore
from tests.http_services import Reply, Request, Service, embeddings, refuse

pytestmark = pytest.mark.ray

SMALL = Pool(actors=2, cpus=0.25)
SERVING = embeddings(lambda text: [1.0, len(text), text.count("e")])


def row(service: Service, folder: Path) -> ApiEncoderRow:
    words = Tokenizer(WordLevel({"?": 0}, unk_token="?"))
    words.pre_tokenizer = WhitespaceSplit()
    words.save(str(folder / "tokenizer.json"))
    return ApiEncoderRow(
        name="served",
        model="m",
        base_url=service.url,
        dimension=3,
        tokenizer=str(folder),
        max_length=1000,
        max_input_tokens=1000,
        batch_tokens=100_000,
        batch_texts=10,
        calls=CallPolicy(max_in_flight=2, attempts=2, base_wait_s=0.01),
        usd_per_million_tokens=1000,
    )


def test_a_failed_stage_keeps_its_answers_and_the_next_run_pays_for_the_rest_alone(
    cluster: ClusterCapacity, tmp_path: Path
) -> None:
    store = ArtifactStore(str(tmp_path / "store"))
    [source] = resolve_tasks(["Demo-Cases"])
    task = load_task(source, store, documents_per_shard=40)
    last = [document for shard in task.corpus.shards for document in read_shard(store, shard).documents][-1].content

    def not_the_last(request: Request) -> Reply:
        return refuse(500, "broken")(request) if last in request.body["input"] else SERVING(request)

    with Service(not_the_last) as service:
        first_stage = ApiFirstStage(row=row(service, tmp_path), rules=Rules())

        def prepared() -> tuple[StageReport, StageReport]:
            work = ([(task, first_stage)], []), ([], [QuerySet(task, first_stage, task.queries)])
            corpora, queries = (prepare(store, *each, Computing(), SMALL, no_progress_timeout_s=120) for each in work)
            assert corpora.corpora is not None
            assert queries.queries is not None
            return corpora.corpora, queries.queries

        with pytest.raises(StageError, match="HTTP 500: broken"):
            prepared()
        # 80 documents are 8 requests of 10. The last request fails twice.
        assert len(service.requests) == 9

        service.forget()
        service.answer = SERVING
        corpora, queries = prepared()
        tokens = sum(map(len, service.requests[0].body["input"]))
        assert corpora.usage == {"sent": 10, "stored": 30, "tokens": tokens, "requests": 1, "repeated": 0}
        # a million tokens cost 1000 dollars
        assert f"${tokens / 1000:.4f}" in corpora.cost
        assert queries.usage["sent"] == len({query.text for query in task.queries})
        assert service.most_at_once <= 2

        service.forget()
        assert [report.cost for report in prepared()] == ["", ""]
        retriever = open_index(store, task, first_stage, "cpu", SMALL)
        run = retriever.retrieve(task.queries, k=80)
        retriever.close()
        assert service.requests == []

    with Service(SERVING) as service:
        encoder = ApiEncoder(row(service, tmp_path), ArtifactStore(str(tmp_path / "plain")))
        queries_QD = encoder.encode_queries([query.text for query in task.queries])
        documents = [document for shard in task.corpus.shards for document in read_shard(store, shard).documents]
        scores_QN = queries_QD @ encoder.encode_documents(documents).T
    best = [run.rankings[query.query_id][0].score for query in task.queries]
    np.testing.assert_allclose(best, scores_QN.max(axis=1), rtol=1e-6)
