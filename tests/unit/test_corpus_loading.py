import dataclasses
import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from r2med_ray.corpus.catalog import resolve_tasks
from r2med_ray.corpus.loading import fetch_documents, load_task, read_shard, rows_of_table
from r2med_ray.corpus.shards import read_table, to_table
from r2med_ray.corpus.sources import TaskSource
from r2med_ray.errors import ArtifactError, DataError
from r2med_ray.types import Document, Query
from tests.unit.corpus_files import DOCUMENTS, QRELS, QUERIES, write_jsonl, write_r2med


def load(source, store, documents_per_shard=4, **options):
    return load_task(source, store, documents_per_shard=documents_per_shard, **options)


def fetch_all(task, store):
    """Return doc id → text, in corpus order, of all documents that are not skipped."""
    shards = [read_shard(store, shard, skip_rows=task.corpus.duplicate_rows) for shard in task.corpus.shards]
    return {document.doc_id: document.text for shard in shards for document in shard.documents}


def test_a_task_is_its_three_files(tmp_path, store):
    source = write_r2med(tmp_path / "a", expected={"queries": 3, "rows": 6, "documents": 6, "qrels": 3})
    task = load(source, store)

    assert (task.name, task.suite, task.folder, task.warnings) == ("Tiny", "Tiny", str(tmp_path / "a"), ())
    assert task.queries == tuple(Query(query_id=query_id, text=text) for query_id, text in QUERIES.items())
    assert task.qrels == {"q1": {"d1": 1}, "q2": {"d2": 1}, "q3": {"d6": 1}}
    assert fetch_all(task, store) == DOCUMENTS
    assert {name: count for name, count in task.counts.items() if count} == {
        "rows": 6,
        "documents": 6,
        "queries": 3,
        "qrels": 3,
    }


def test_a_task_of_the_hub_keeps_its_revision_and_a_folder_is_named_by_its_content(tmp_path, store):
    source = write_r2med(tmp_path / "a")
    ours = load(source, store).revision

    assert load(dataclasses.replace(source, revision="8b9fec2"), store).revision == "8b9fec2"
    assert load(write_r2med(tmp_path / "b"), store).revision == ours
    assert load(write_r2med(tmp_path / "c", qrels=QRELS[:2]), store).revision != ours
    assert load(write_r2med(tmp_path / "d", queries=[("q1", "cats")]), store).revision != ours
    assert load(write_r2med(tmp_path / "e", corpus=[("d1", "cats")]), store).revision != ours


def test_mt09_integer_ids_match_their_digits_with_one_warning_per_file(tmp_path, store):
    source = write_r2med(tmp_path / "a", corpus=[(1, "x"), (2, "y")], queries=[(7, "x")], qrels=[("7", 1, 1)])
    task = load(source, store)

    assert [query.query_id for query in task.queries] == ["7"]
    assert task.qrels == {"7": {"1": 1}}
    assert task.warnings == (
        "1 ids of query.jsonl are JSON integers and were read as text, e.g. '7'",
        "1 ids of qrels.jsonl are JSON integers and were read as text, e.g. '1'",
        "2 ids of corpus.jsonl are JSON integers and were read as text, e.g. '1', '2'",
    )


def test_mt09_seven_with_and_without_zeros_are_two_ids(tmp_path, store):
    source = write_r2med(tmp_path / "a", queries=[("007", "x")], qrels=[("7", "d1", 1)])

    with pytest.raises(DataError, match="no query in common"):
        load(source, store)


def test_what_the_converter_had_to_say_is_said_again_when_the_artefact_is_reused(tmp_path, store):
    source = write_r2med(tmp_path / "a", corpus=[*DOCUMENTS.items(), ("d1", DOCUMENTS["d1"])])

    first, second = load(source, store), load(source, store)

    assert first == second
    assert first.warnings == ("1 rows of the corpus repeat another row and are skipped, e.g. 'd1'",)
    assert (first.counts["rows"], first.counts["documents"], first.counts["duplicates"]) == (7, 6, 1)


def test_mt13_conflicting_qrels_stop_before_the_corpus_is_converted(tmp_path, store):
    source = write_r2med(tmp_path / "a", qrels=[("q1", "d1", 1), ("q1", "d1", 0)])

    with pytest.raises(DataError, match=r"qrels\.jsonl:2: .* has grade 0, but 1 in line 1"):
        load(source, store)

    assert store.names() == []


def test_da03_a_missing_query_or_document_of_the_qrels_is_a_warning(tmp_path, store):
    task = load(write_r2med(tmp_path / "a", qrels=[("qX", "d1", 1), ("q1", "dX", 1)]), store)

    assert task.qrels == {"qX": {"d1": 1}, "q1": {"dX": 1}}
    assert (task.counts["unknown_queries"], task.counts["unknown_documents"]) == (1, 1)
    assert (
        "1 documents of the qrels are not in the corpus; they can't be found, but count, e.g. 'dX'" in task.warnings
    )


def test_si01_a_query_that_is_also_a_document_is_both(tmp_path, store):
    task = load(write_r2med(tmp_path / "a", corpus=[*DOCUMENTS.items(), ("q1", "cat")]), store)

    assert task.queries[0] == Query(query_id="q1", text="cat")
    assert fetch_documents(store, task.corpus, ["q1"]) == {"q1": Document(doc_id="q1", text="cat")}
    assert task.counts["query_ids_in_corpus"] == 1


def test_counts_other_than_the_expected_ones_are_refused(tmp_path, store):
    source = write_r2med(tmp_path / "a", expected={"documents": 57359})

    with pytest.raises(DataError, match="57359 documents expected, 6 found"):
        load(source, store)


def test_the_last_text_of_an_id_is_fetched_where_the_protocol_wants_it(tmp_path, store):
    source = write_r2med(tmp_path / "a", corpus=[("d1", "first"), ("d2", "x"), ("d1", "last")])
    task = load(source, store, on_conflict="last")

    assert task.corpus.duplicate_rows == (0,)
    assert fetch_documents(store, task.corpus, ["d1", "d2"]) == {
        "d1": Document(doc_id="d1", text="last"),
        "d2": Document(doc_id="d2", text="x"),
    }


def test_skipped_rows_leave_rows_and_documents_together(tmp_path, store):
    shard = load(write_r2med(tmp_path / "a"), store).corpus.shards[1]

    read = read_shard(store, shard, skip_rows=(0, 4))

    assert read.rows.dtype == np.int64
    assert read.rows.tolist() == [5]
    assert read.documents == [Document(doc_id="d6", text=DOCUMENTS["d6"])]


def test_documents_come_from_every_shard(tmp_path, store):
    corpus = load(write_r2med(tmp_path / "a"), store).corpus

    fetched = fetch_documents(store, corpus, ["d6", "d1", "d6"])

    assert {doc_id: document.text for doc_id, document in fetched.items()} == {
        "d1": DOCUMENTS["d1"],
        "d6": DOCUMENTS["d6"],
    }


def test_documents_that_are_not_there_are_named(tmp_path, store):
    corpus = load(write_r2med(tmp_path / "a"), store).corpus

    with pytest.raises(DataError, match=r"2 of 3 documents are not in the corpus, e\.g\. 'd7', 'd8'"):
        fetch_documents(store, corpus, ["d8", "d1", "d7"])


@pytest.mark.parametrize(
    "read",
    [lambda store, task: fetch_all(task, store), lambda store, task: fetch_documents(store, task.corpus, ["d5"])],
)
def test_a_shard_whose_text_was_exchanged_is_not_read(tmp_path, store, read):
    task = load(write_r2med(tmp_path / "a"), store)
    table = to_table([Document(doc_id="d5", text="cow eats grass"), Document(doc_id="d6", text="HORSE")], start_row=4)
    pq.write_table(table, task.corpus.shards[1].path)

    with pytest.raises(ArtifactError, match=r"corpus shard 1, .* its content is not what its digest says"):
        read(store, task)


def test_a_shard_that_came_in_pieces_is_the_shard(tmp_path, store):
    shard = load(write_r2med(tmp_path / "a"), store).corpus.shards[0]
    table = read_table(store, shard)
    in_pieces = pa.concat_tables([table.slice(0, 1), table.slice(1)]).select(["text", "title", "doc_id", "row"])

    assert rows_of_table(in_pieces, shard, skip_rows=(1,)).documents == [
        Document(doc_id=doc_id, text=DOCUMENTS[doc_id]) for doc_id in ("d1", "d3", "d4")
    ]


@pytest.fixture
def beir(tmp_path):
    """A BEIR collection with three queries in one file, two splits, titles and one packed file."""
    folder = tmp_path / "beir"
    (folder / "qrels").mkdir(parents=True)
    write_jsonl(
        folder / "corpus.jsonl", [{"_id": "d1", "title": "A title", "text": "cat"}, {"_id": "d2", "text": "dog"}]
    )
    write_jsonl(folder / "queries.jsonl", ({"_id": query_id, "text": text} for query_id, text in QUERIES.items()))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n", encoding="utf-8")
    (folder / "qrels" / "dev.tsv.gz").write_bytes(gzip.compress(b"q2\td2\t2\nq3\td2\t1\n"))
    return TaskSource(name="Beir", suite="Beir", folder=folder, layout="beir")


def test_r14_a_split_of_beir_has_the_queries_of_its_qrels(beir, store):
    test, dev = load(beir, store), load(dataclasses.replace(beir, split="dev"), store)

    assert [query.query_id for query in test.queries] == ["q1"]
    assert [query.query_id for query in dev.queries] == ["q2", "q3"]
    assert dev.qrels == {"q2": {"d2": 2}, "q3": {"d2": 1}}
    assert dev.corpus == test.corpus
    assert fetch_documents(store, dev.corpus, ["d1"])["d1"].content == "A title cat"


def test_r14_a_trec_collection_loads(tmp_path, store):
    (tmp_path / "topics.tsv").write_text("1\tcat\n2\tdog\n", encoding="utf-8")
    (tmp_path / "qrels.txt").write_text("1 0 d1 1\n", encoding="utf-8")
    write_jsonl(tmp_path / "corpus.jsonl", [{"id": "d1", "contents": "cat"}])
    task = load(TaskSource(name="T", suite="T", folder=tmp_path, layout="trec"), store)

    assert [query.query_id for query in task.queries] == ["1", "2"]
    assert task.warnings == ("1 queries have no qrels and are not evaluated, e.g. '2'",)


# The numbers of lines of the files, then the first, tenth and last ids of two of them:
# `sed -n '1p;10p;$p' corpus.jsonl query.jsonl`.
DEMO = {
    "Demo-Posts": (
        (80, 15, 38),
        (
            "thyroid/Postpartum_thyroiditis_2.txt",
            "acute_confusion/Delirium_in_older_adults_1.txt",
            "infection_immunity/Granuloma_in_tuberculosis_3.txt",
        ),
        ("1", "10", "15"),
    ),
    "Demo-Evidence": (
        (80, 15, 43),
        ("review_38_12", "Textbook_Toxicology_15", "Textbook_Otology_5"),
        ("exam-01", "exam-10", "exam-15"),
    ),
    "Demo-Cases": (
        (80, 15, 33),
        ("CASE26307_1", "CASE82834_1", "CASE29048_2"),
        ("q_CASE96350", "q_CASE87797", "q_CASE95979"),
    ),
}
REAL = {
    "pubmedqa": ((1000, 1000, 1000), ("21645374", "10966337", "17559449"), ("q21645374", "q10966337", "q17559449")),
    "med": ((1033, 30, 696), ("1", "10", "1033"), ("1", "10", "30")),
    "nfcorpus": ((3162, 323, 12334), ("MED-10", "MED-557", "MED-5363"), ("PLAIN-2", "PLAIN-102", "PLAIN-3472")),
}


def describe(task, store):
    doc_ids, query_ids = list(fetch_all(task, store)), [query.query_id for query in task.queries]
    counts = (len(doc_ids), len(query_ids), task.counts["qrels"])
    return counts, (doc_ids[0], doc_ids[9], doc_ids[-1]), (query_ids[0], query_ids[9], query_ids[-1])


@pytest.mark.parametrize("name", DEMO)
def test_the_demo_has_these_records(name, store):
    (source,) = resolve_tasks([name])
    task = load(source, store, documents_per_shard=25)

    assert describe(task, store) == DEMO[name]
    assert task.warnings == ()


@pytest.mark.real
@pytest.mark.parametrize("name", REAL)
def test_the_real_collections_have_these_records(name, store, real_collections: Path):
    source = TaskSource(name=name, suite=name, folder=real_collections / name, layout="r2med")
    task = load(source, store, documents_per_shard=1000)

    assert describe(task, store) == REAL[name]
    assert [task.counts[count] for count in ("duplicates", "unknown_queries", "unknown_documents")] == [0, 0, 0]
