"""BRIGHT's layout, from its files to a ranking without the documents that a question excludes."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from r2med_ray.corpus.loading import load_task, read_shard
from r2med_ray.corpus.sources import TaskSource
from r2med_ray.errors import DataError
from r2med_ray.retrieval.search import PlainRetriever
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Document, Query
from tests.fakes import WordCountEncoder, WordCountIndex
from tests.unit.corpus_files import write_jsonl

DOCUMENTS = [
    {"id": "moths/Light_0.txt", "content": "light light moth"},
    {"id": "moths/Light_1.txt", "content": "light"},
    {"id": "hair/Hair_0.txt", "content": "hair"},
]
EXAMPLES = [
    {
        "query": "light?",
        "reasoning": "because",
        "id": "0",
        "excluded_ids": ["moths/Light_0.txt"],
        "gold_ids_long": ["moths/Light.txt"],
        "gold_ids": ["moths/Light_1.txt"],
        "gold_answer": "so",
    },
    {
        "query": "hair?",
        "reasoning": "",
        "id": "1",
        "excluded_ids": ["N/A"],
        "gold_ids_long": ["N/A"],
        "gold_ids": ["hair/Hair_0.txt", "moths/Light_1.txt"],
        "gold_answer": "",
    },
]
LONG = [{"id": "moths/Light.txt", "content": "light light light moth"}]


def write_bright(folder, *, documents=DOCUMENTS, examples=EXAMPLES, long_documents=LONG, parts=1):
    for config, rows in (("documents", documents), ("examples", examples), ("long_documents", long_documents)):
        (folder / config).mkdir(parents=True)
        for part in range(parts):
            table = pa.Table.from_pylist(rows[part::parts])
            pq.write_table(table, folder / config / f"biology-{part:05d}-of-{parts:05d}.parquet")
    return TaskSource(name="Moths", suite="Moths", folder=folder, layout="bright", split="biology")


def load(source, tmp_path):
    return load_task(source, ArtifactStore(str(tmp_path / "store")), documents_per_shard=2)


def documents_of(task, tmp_path):
    store = ArtifactStore(str(tmp_path / "store"))
    return [read_shard(store, shard).documents for shard in task.corpus.shards]


def test_a_domain_of_bright_is_documents_and_examples(tmp_path):
    task = load(write_bright(tmp_path / "a"), tmp_path)

    assert task.queries == (
        Query(query_id="0", text="light?", excluded=frozenset({"moths/Light_0.txt"})),
        Query(query_id="1", text="hair?"),
    )
    assert task.qrels == {"0": {"moths/Light_1.txt": 1}, "1": {"hair/Hair_0.txt": 1, "moths/Light_1.txt": 1}}
    assert [document.text for shard in documents_of(task, tmp_path) for document in shard] == [
        "light light moth",
        "light",
        "hair",
    ]
    assert (task.counts["excluded"], task.counts["unknown_excluded"], task.warnings) == (1, 0, ())
    assert task.unknown_excluded == frozenset()


def test_json_lines_and_parts_of_parquet_give_the_same_task(tmp_path):
    whole = load(write_bright(tmp_path / "a"), tmp_path)
    source = TaskSource(name="Moths", suite="Moths", folder=tmp_path / "b", layout="bright", split="biology")
    for config, rows in (("documents", DOCUMENTS), ("examples", EXAMPLES)):
        (tmp_path / "b" / config).mkdir(parents=True)
        write_jsonl(tmp_path / "b" / config / "biology.jsonl", rows)
    lines, parts = load(source, tmp_path), load(write_bright(tmp_path / "c", parts=2), tmp_path)

    assert (lines.queries, lines.qrels, lines.corpus.digest) == (whole.queries, whole.qrels, whole.corpus.digest)
    # rows 0 and 2 are in the first part
    assert [document.doc_id for shard in documents_of(parts, tmp_path) for document in shard] == [
        "moths/Light_0.txt",
        "hair/Hair_0.txt",
        "moths/Light_1.txt",
    ]


def test_the_long_documents_have_gold_ids_of_their_own(tmp_path):
    write_bright(tmp_path / "a")
    source = TaskSource(name="L", suite="L", folder=tmp_path / "a", layout="bright-long", split="biology")
    task = load(source, tmp_path)

    assert task.qrels == {"0": {"moths/Light.txt": 1}}
    assert "1 queries have no qrels and are not evaluated, e.g. '1'" in task.warnings
    assert "1 excluded documents are not in the corpus, e.g. 'moths/Light_0.txt'" in task.warnings
    assert task.unknown_excluded == {"moths/Light_0.txt"}


def test_a_relevant_document_that_is_excluded_is_said(tmp_path):
    examples = [{**EXAMPLES[0], "excluded_ids": ["moths/Light_1.txt"]}, EXAMPLES[1]]
    task = load(write_bright(tmp_path / "a", examples=examples), tmp_path)

    assert task.warnings == (
        "1 relevant documents are excluded for their query; they can't be found, but count, "
        "e.g. '0 moths/Light_1.txt'",
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"excluded_ids": "N/A"}, r"excluded_ids is 'N/A'; expected a list of document ids"),
        ({"excluded_ids": None}, r"excluded_ids is None; expected a list"),
        ({"excluded_ids": ["a b"]}, r"'a b' is no id"),
        ({"gold_ids": "hair/Hair_0.txt"}, r"gold_ids is 'hair/Hair_0\.txt'; expected a list"),
        ({"query": " "}, r"query '1' has no text"),
        ({"id": "0"}, r"query id '0' is in line 1 too"),
    ],
)
def test_a_bad_example_is_named_with_its_file_and_row(tmp_path, change, message):
    (tmp_path / "documents").mkdir()
    (tmp_path / "examples").mkdir()
    write_jsonl(tmp_path / "documents" / "biology.jsonl", DOCUMENTS)
    write_jsonl(tmp_path / "examples" / "biology.jsonl", [EXAMPLES[0], EXAMPLES[1] | change])
    source = TaskSource(name="M", suite="M", folder=tmp_path, layout="bright", split="biology")

    with pytest.raises(DataError, match=rf"examples/biology\.jsonl:2: {message}"):
        load(source, tmp_path)


def test_a_parquet_row_without_content_is_named_with_its_part(tmp_path):
    source = write_bright(tmp_path / "a", documents=[*DOCUMENTS, {"id": "x", "content": None}])

    with pytest.raises(DataError, match=r"biology-00000-of-00001\.parquet:4: text is None; expected a text"):
        load(source, tmp_path)


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_excluded_documents_leave_the_ranking_and_it_stays_full(tmp_path, shards):
    task = load(write_bright(tmp_path / "a"), tmp_path)
    encoder = WordCountEncoder("light?", "hair?", "light", "hair")
    documents = [Document(doc_id=row["id"], text=row["content"].replace("light", "light?")) for row in DOCUMENTS]
    retriever = PlainRetriever(
        "words",
        lambda queries: encoder.encode_queries([query.text for query in queries]),
        [WordCountIndex(encoder, documents[index::shards]) for index in range(shards)],
    )

    run = retriever.retrieve(task.queries, k=1)

    # "light?" is twice in Light_0, which is excluded, and once in Light_1. Without the exclusion Light_0 is first.
    assert run.rankings["0"] == (("moths/Light_1.txt", 1.0),)
