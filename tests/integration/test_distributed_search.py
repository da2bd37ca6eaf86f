"""Shards in actors give the same bits as one index over the whole corpus, even if an actor or a worker dies."""

import threading
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
import ray

from r2med_ray.corpora import CorpusShard
from r2med_ray.corpus import pieces
from r2med_ray.corpus.catalog import resolve_tasks
from r2med_ray.corpus.loading import load_task, read_shard
from r2med_ray.distributed.preparing import prepare
from r2med_ray.distributed.progress import StageReport
from r2med_ray.distributed.searching import ShardedRetriever, open_index
from r2med_ray.distributed.shard_stream import stream_work
from r2med_ray.errors import StageError, StoppedError
from r2med_ray.first_stage import Computing, ShardedFirstStage
from r2med_ray.first_stages.lexical import LexicalFirstStage
from r2med_ray.first_stages.preparation import QuerySet, ShardWork, shards_left
from r2med_ray.first_stages.vectors import DenseFirstStage
from r2med_ray.indexing.bm25 import BM25_ROWS
from r2med_ray.indexing.bm25_index import BM25Index
from r2med_ray.indexing.compression import Compression
from r2med_ray.indexing.dense import DenseIndex
from r2med_ray.indexing.embedding import embed_documents, read_vectors
from r2med_ray.indexing.keys import VECTORS_FILE
from r2med_ray.indexing.statistics import CorpusStatistics, ShardTerms
from r2med_ray.models.catalog.devices import set_threads
from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.models.networks.encoders import build_encoder
from r2med_ray.protocols import Index
from r2med_ray.retrieval.query_construction import lexical_query, prepare_dense
from r2med_ray.retrieval.search import PlainRetriever
from r2med_ray.settings.compat import Rules
from r2med_ray.settings.config import TaskConfig
from r2med_ray.settings.pools import ClusterCapacity, Pool
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import ArtifactKey
from r2med_ray.types import Document, Query, Ranking, Run, Task
from r2med_ray.workbench.in_process import InProcess
from tests.fakes import wait_until
from tests.integration.tiny_corpus import index_of, shards
from tests.integration.tiny_corpus import prepare as prepare_tiny
from tests.integration.workers import CountsRows, DiesOnce, EncoderKilledOnce, WaitsAtTheGate, has_ended

pytestmark = pytest.mark.ray

SMALL = Pool(actors=2, cpus=0.25)
ONE = Pool(actors=1, cpus=1)
COMPUTING = Computing(device="cpu", threads=1, token_budget=2048)
BM25 = LexicalFirstStage(row=BM25_ROWS["bm25"], rules=Rules())
PUBLISHED_BM25 = LexicalFirstStage(row=BM25_ROWS["bm25-r2med"], rules=Rules.of("r2med"))
MINILM = DenseFirstStage(
    row=load_catalog().encoders["all-MiniLM-L6-v2"].model_copy(update={"dtype": "float32"}), rules=Rules()
)


def demo_task(store: ArtifactStore, documents_per_shard: int) -> Task:
    [source] = resolve_tasks(["Demo-Cases"])
    return load_task(source, store, documents_per_shard=documents_per_shard)


def whole(store: ArtifactStore, task: Task) -> list[Document]:
    return [document for shard in task.corpus.shards for document in read_shard(store, shard).documents]


def encode(store: ArtifactStore, first_stage: ShardedFirstStage, *tasks: Task) -> StageReport:
    corpora = [(task, first_stage) for task in tasks]
    report = prepare(store, corpora, [], COMPUTING, ONE, no_progress_timeout_s=60).corpora
    assert report is not None
    return report


def encode_queries(store: ArtifactStore, first_stage: ShardedFirstStage, *tasks: Task) -> None:
    asked = [QuerySet(task, first_stage, task.queries) for task in tasks]
    prepare(store, [], asked, COMPUTING, ONE, no_progress_timeout_s=60)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> ArtifactStore:
    return ArtifactStore(str(tmp_path_factory.mktemp("store")))


@pytest.fixture(scope="module")
def plain_bm25(store: ArtifactStore) -> Run:
    """The run of one BM25 index over the whole corpus, in this process."""
    task = demo_task(store, 80)
    documents = whole(store, task)
    terms = ShardTerms.from_texts(document.content for document in documents)
    index = BM25Index.build(
        terms, [document.doc_id for document in documents], CorpusStatistics.of_shard(terms), BM25_ROWS["bm25"]
    )
    texts = partial(map, partial(lexical_query, rules=Rules()))
    return PlainRetriever("plain", lambda queries: list(texts(queries)), [index]).retrieve(task.queries, k=50)


@pytest.mark.parametrize("documents_per_shard", [80, 40, 27, 12], ids=["1 shard", "2 shards", "3 shards", "7 shards"])
def test_bm05_bm25_over_shard_actors_equals_one_index_bit_for_bit(
    cluster: ClusterCapacity, store: ArtifactStore, plain_bm25: Run, documents_per_shard: int
) -> None:
    task = demo_task(store, documents_per_shard)
    encode(store, BM25, task)
    retriever = open_index(store, task, BM25, "cpu", SMALL)

    assert retriever.retrieve(task.queries, k=50).rankings == plain_bm25.rankings
    retriever.close()


@pytest.mark.parametrize("documents_per_shard", [80, 12], ids=["1 shard", "7 shards"])
def test_the_published_bm25_is_cut_in_file_order_over_shard_actors(
    cluster: ClusterCapacity, store: ArtifactStore, documents_per_shard: int
) -> None:
    task = demo_task(store, documents_per_shard)
    file_order = [document.doc_id for document in whole(store, task)]
    encode(store, PUBLISHED_BM25, task)
    retriever = open_index(store, task, PUBLISHED_BM25, "cpu", SMALL)
    everything, cut = (retriever.retrieve(task.queries, k=k).rankings for k in (80, 70))
    retriever.close()

    # Every document is ranked. Documents without a shared term have score 0; the first of them in the file fill 70
    # places.
    for query_id, ranking in everything.items():
        scores = dict(ranking)
        kept = sorted(file_order, key=lambda doc_id: scores[doc_id], reverse=True)[:70]
        assert cut[query_id] == tuple(hit for hit in ranking if hit.doc_id in kept)


@pytest.fixture(scope="module")
def encoded(cluster: ClusterCapacity, store: ArtifactStore) -> Task:
    """A task of three shards, whose vectors were made by Ray Data."""
    task = demo_task(store, 27)
    assert encode(store, MINILM, task).documents == 80
    return task


def vectors_of(store: ArtifactStore, task: Task, shard: CorpusShard) -> pa.Table:
    return store.get(MINILM.shard_key(task.name, task.corpus, shard, "cpu")).table(VECTORS_FILE)


def test_vectors_made_by_ray_data_are_those_of_the_plain_encoder_bit_for_bit(
    store: ArtifactStore, encoded: Task
) -> None:
    set_threads(COMPUTING.threads)
    encoder = build_encoder(MINILM.row, task=encoded.name, device="cpu", token_budget=2048)
    for shard in encoded.corpus.shards:
        loaded = read_shard(store, shard)
        stored = vectors_of(store, encoded, shard)
        plain = embed_documents(encoder, loaded.documents, loaded.rows)

        assert stored["doc_id"].to_pylist() == [document.doc_id for document in loaded.documents]
        assert stored.equals(plain)


@pytest.mark.parametrize("one_at_a_time", [False, True])
def test_dense_search_over_shard_actors_equals_one_index(
    store: ArtifactStore, encoded: Task, one_at_a_time: bool
) -> None:
    encode_queries(store, MINILM, encoded)
    retriever = open_index(store, encoded, MINILM, "cpu", SMALL, one_at_a_time=one_at_a_time)
    stored = [read_vectors(vectors_of(store, encoded, shard)) for shard in encoded.corpus.shards]
    one = DenseIndex.build(
        [doc_id for part in stored for doc_id in part.doc_ids],
        pa.concat_arrays([pa.array(part.vectors.ravel()) for part in stored]).to_numpy().reshape(80, -1),
    )
    encoder = build_encoder(MINILM.row, task=encoded.name, device="cpu", token_budget=2048)
    vectors = partial(prepare_dense, encoder=encoder, rules=Rules(), expansion_prompt="none", cosine=True)
    plain = PlainRetriever("plain", vectors, [one]).retrieve(encoded.queries, k=50)

    ours = retriever.retrieve(encoded.queries, k=50)
    retriever.close()
    assert {q: [hit.doc_id for hit in ranking] for q, ranking in ours.rankings.items()} == {
        q: [hit.doc_id for hit in ranking] for q, ranking in plain.rankings.items()
    }


def test_compressed_vectors_in_shard_actors_find_what_one_process_finds(store: ArtifactStore, encoded: Task) -> None:
    compressed = replace(MINILM, compression=Compression(64, "int8", 2))
    encode_queries(store, compressed, encoded)
    retriever = open_index(store, encoded, compressed, "cpu", SMALL)
    plain = InProcess(store, COMPUTING).open_index(encoded, compressed)
    some = dict.fromkeys(
        (query.query_id for query in encoded.queries),
        tuple(vectors_of(store, encoded, encoded.corpus.shards[-1])["doc_id"].to_pylist()[::9]),
    )

    ours = [retriever.retrieve(encoded.queries, k=7, among=among).rankings for among in (None, some)]
    retriever.close()

    assert ours == [plain.retrieve(encoded.queries, k=7, among=among).rankings for among in (None, some)]


def test_an_encoder_killed_in_the_middle_leaves_the_same_vectors_byte_for_byte(
    encoded: Task, store: ArtifactStore, tmp_path: Path
) -> None:
    other = ArtifactStore(str(tmp_path / "store"))
    left = shards_left(other, [(encoded, MINILM)], "cpu")
    killed = partial(EncoderKilledOnce, other, MINILM, COMPUTING, tmp_path / "killed")
    finished = list(stream_work("encode", store, left.work, killed, pool=ONE, no_progress_timeout_s=120))

    assert (tmp_path / "killed").exists()
    assert len(finished) == 3
    for work in left.work:
        assert other.get(work.key).files[VECTORS_FILE].sha256 == store.get(work.key).files[VECTORS_FILE].sha256


def test_pieces_of_two_actors_are_put_together_to_the_same_vectors_byte_for_byte(
    encoded: Task, store: ArtifactStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "PIECE_ROWS", 5)  # 6 pieces of each of the three shards of 27, 27 and 26 documents
    other = ArtifactStore(str(tmp_path / "store"))
    task = demo_task(other, 27)
    asked = [QuerySet(task, MINILM, task.queries)]
    prepared = prepare(other, [(task, MINILM)], asked, COMPUTING, SMALL, no_progress_timeout_s=60)

    assert prepared.corpora is not None
    assert prepared.corpora.documents == 80
    assert prepared.queries is not None
    assert prepared.queries.documents == len(task.queries)
    assert other.names_of("vectors-piece") == []
    for shard in task.corpus.shards:
        key = MINILM.shard_key(task.name, task.corpus, shard, "cpu")
        assert other.get(key).files[VECTORS_FILE].sha256 == store.get(key).files[VECTORS_FILE].sha256


def test_a_second_encoding_encodes_nothing(store: ArtifactStore, encoded: Task) -> None:
    report = encode(store, MINILM, encoded)

    assert (report.documents, report.stored_before) == (0, 3)


def test_r08_only_the_shard_whose_text_changed_is_encoded_again(
    store: ArtifactStore, encoded: Task, tmp_path: Path
) -> None:
    [source] = resolve_tasks(["Demo-Cases"])
    lines = (Path(source.folder) / "corpus.jsonl").read_text().splitlines()
    for name in ("query.jsonl", "qrels.jsonl"):
        (tmp_path / name).write_bytes((Path(source.folder) / name).read_bytes())
    # Document 30 is in the second of three shards of 27 documents.
    lines[30] = lines[30].replace("a", "o", 3)
    (tmp_path / "corpus.jsonl").write_text("\n".join(lines) + "\n")
    [changed] = resolve_tasks([TaskConfig(path=str(tmp_path), name="Demo-Cases-2")])
    other = load_task(changed, store, documents_per_shard=27)
    report = encode(store, MINILM, other)

    assert (report.documents, report.stored_before) == (27, 2)


def instructed() -> DenseFirstStage:
    """Return MiniLM with an instruction for documents. One task has another instruction."""
    row = MINILM.row.model_copy(
        update={
            "document_prompt": "{instruction}: ",
            "document_instructions": {"default": "Remember", "Twin": "Find the illness"},
        }
    )
    return DenseFirstStage(row=row, rules=Rules())


@pytest.mark.parametrize(
    ("first_stage", "made"),
    [
        # The terms of a shard are the same for both tasks.
        pytest.param(BM25, 80, id="terms"),
        # Each task has vectors of its own, because its instruction is another: 2 × 80, out of the same files.
        pytest.param(instructed(), 160, id="vectors"),
    ],
)
def test_two_tasks_over_one_corpus_are_prepared_together(
    cluster: ClusterCapacity, tmp_path: Path, first_stage: ShardedFirstStage, made: int
) -> None:
    store = ArtifactStore(str(tmp_path))
    task = demo_task(store, 27)
    twin = replace(task, name="Twin")
    report = encode(store, first_stage, task, twin)

    assert (report.documents, report.stored_before) == (made, 0)
    assert encode(store, first_stage, task, twin).documents == 0
    encode_queries(store, first_stage, task, twin)
    runs = []
    for one in (task, twin):
        retriever = open_index(store, one, first_stage, "cpu", SMALL)
        runs.append(retriever.retrieve(one.queries, k=10).rankings)
        retriever.close()
    assert (runs[0] == runs[1]) is (made == 80)


TINY_SHARDS = shards(3)
QUERIES = [Query(query_id="q1", text="cat"), Query(query_id="d4", text="dog cat"), Query(query_id="q3", text="zzz")]


def rankings(drop_identical_ids: bool) -> Mapping[str, Ranking]:
    plain = PlainRetriever("plain", prepare_tiny, [index_of(*TINY_SHARDS)], drop_identical_ids=drop_identical_ids)
    return plain.retrieve(QUERIES, k=4).rankings


@pytest.mark.parametrize("drop_identical_ids", [False, True])
def test_si01_a_querys_own_document_is_dropped_before_the_cut_or_kept(
    cluster: ClusterCapacity, drop_identical_ids: bool
) -> None:
    retriever = ShardedRetriever(
        "tiny", prepare_tiny, index_of, TINY_SHARDS, SMALL, drop_identical_ids=drop_identical_ids
    )
    found = retriever.retrieve(QUERIES, k=4).rankings
    retriever.close()

    assert found == rankings(drop_identical_ids)
    assert len(found["d4"]) == 4
    assert any(hit.doc_id == "d4" for hit in found["d4"]) is not drop_identical_ids


@pytest.mark.parametrize("argument", [b"", b"x" * 2_000_000], ids=["small arguments", "2 MB in the arguments"])
def test_a_shard_actor_that_dies_loads_its_shards_again(cluster: ClusterCapacity, argument: bytes) -> None:
    load = partial(load_tiny_with, argument)
    retriever = ShardedRetriever("tiny", prepare_tiny, load, TINY_SHARDS, SMALL, drop_identical_ids=False)
    for _ in range(2):  # an actor is restarted this often
        for part in retriever._parts:
            ray.kill(part.actor, no_restart=False)

        assert retriever.retrieve(QUERIES, k=4).rankings == rankings(False)
    retriever.close()


def load_tiny_with(argument: bytes, shard: CorpusShard) -> Index[object]:
    return index_of(shard)


def test_a_shard_that_cannot_be_loaded_fails_the_stage_by_name(cluster: ClusterCapacity) -> None:
    with pytest.raises(StageError, match=r"^index failed on broken, shard [01]: ValueError: no such shard"):
        ShardedRetriever("broken", prepare_tiny, fail_to_load, TINY_SHARDS[:2], SMALL, drop_identical_ids=False)


def fail_to_load(shard: CorpusShard) -> Index[object]:
    raise ValueError("no such shard")


def works(store: ArtifactStore, documents_per_shard: int) -> list[ShardWork]:
    task = demo_task(store, documents_per_shard)
    return [
        ShardWork(task=task.name, shard=shard, key=ArtifactKey("rows", {"shard": shard.digest}))
        for shard in task.corpus.shards
    ]


def test_a_worker_killed_in_the_middle_loses_no_shard(
    cluster: ClusterCapacity, store: ArtifactStore, tmp_path: Path
) -> None:
    work = works(store, 20)
    rows = [
        (item.shard.index, numbers["rows"])
        for item, numbers in stream_work(
            "encode", store, work, partial(DiesOnce, tmp_path / "died"), pool=ONE, no_progress_timeout_s=120
        )
    ]

    assert (tmp_path / "died").exists()
    assert sorted(rows) == [(0, 20), (1, 20), (2, 20), (3, 20)]


def test_a_stream_that_is_told_to_stop_begins_no_further_shard(
    cluster: ClusterCapacity, store: ArtifactStore, tmp_path: Path
) -> None:
    stop, build = threading.Event(), partial(WaitsAtTheGate, tmp_path)
    stream = stream_work("encode", store, works(store, 4), build, pool=ONE, no_progress_timeout_s=60, stop=stop)
    next(stream)
    stop.set()
    with pytest.raises(StoppedError):
        next(stream)
    (tmp_path / "go").touch()
    wait_until(lambda: all(has_ended(int(file.suffix[1:])) for file in tmp_path.glob("*.*")))

    # 5 of 20 shards pass the gate freely. The stream ended before the gate was opened, with at most 2 more shards in
    # flight.
    assert 1 <= len(list(tmp_path.glob("*.*"))) <= 7


def test_each_shard_reaches_its_worker_whole(cluster: ClusterCapacity, store: ArtifactStore) -> None:
    work = works(store, 33)
    rows = {
        item.shard.index: numbers["rows"]
        for item, numbers in stream_work(
            "encode", store, work, CountsRows, pool=Pool(actors=2, cpus=0.5), no_progress_timeout_s=60
        )
    }

    assert rows == {0: 33, 1: 33, 2: 14}


def test_a_worker_that_raises_names_its_stage_and_shard(
    cluster: ClusterCapacity, store: ArtifactStore, tmp_path: Path
) -> None:
    work = works(store, 40)
    path = Path(work[1].shard.path)
    content = path.read_bytes()
    path.write_bytes(content[:200] + b"????" + content[204:])
    try:
        with pytest.raises(StageError, match=r"(?s)tokenize failed on .*"):
            encode(ArtifactStore(str(tmp_path)), BM25, demo_task(store, 40))
    finally:
        path.write_bytes(content)
