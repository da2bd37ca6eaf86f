"""The conditions of a task with hard negatives: what is searched, what is made for them, and that it is exact."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from r2med_ray.corpus.conditions import with_hard_negatives
from r2med_ray.corpus.packs import Named, Pack
from r2med_ray.errors import DataError
from r2med_ray.settings.hard_negatives import Condition
from r2med_ray.settings.resources import ResourcesConfig
from r2med_ray.types import Document, HardNegative, Query, Run, Task
from r2med_ray.workbench.bench import Workbench, open_workbench

DOCUMENTS = {
    "d0": "abc fever",
    "d1": "bcd cough",
    "d2": "aab rash fever",
    "d3": "hhh",
    "d4": "cafe cough",
    "d5": "acc",
}
QUERIES = {"q": "fever abca", "r": "cough zebra"}
QRELS = {"q": {"d0": 1, "d3": 0}, "r": {"d4": 1}}
PASSAGES = {"h1": "abca fever fever", "h2": "aaab fever", "h3": "zebra cough", "h4": "cough cough fever"}
LABELS = {"q": ("h1", "h2"), "r": ("h3", "h4")}
RETRIEVERS = ("bm25", "letters")
"""`letters` counts the letters a, b and c of a text, and compares the counts by their dot product."""


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Workbench]:
    """A workbench that cuts corpora into shards of two documents."""
    models = tmp_path / "models.yaml"
    models.write_text(
        "encoders: [{name: letters, class: tests.unit.toy_models.LetterCounts, similarity: dot, max_length: 8}]\n"
    )
    resources = ResourcesConfig(documents_per_shard=2)
    with open_workbench(tmp_path / "store", models=models, resources=resources) as bench:
        yield bench


@pytest.fixture
def base(bench: Workbench) -> Task:
    return bench.task("Base", documents=DOCUMENTS, queries=QUERIES, qrels=QRELS)


def pack_of(labels: Mapping[str, tuple[str, ...]]) -> Pack:
    doc_ids = sorted({doc_id for of_query in labels.values() for doc_id in of_query})
    return Pack(
        documents=tuple(Document(doc_id=doc_id, text=PASSAGES[doc_id]) for doc_id in doc_ids),
        negatives={query_id: dict.fromkeys(of_query, HardNegative()) for query_id, of_query in labels.items()},
        writers={"a person": len(doc_ids)},
    )


def conditions(
    bench: Workbench, base: Task, *wanted: Condition, labels: Mapping[str, tuple[str, ...]] = LABELS
) -> list[Task]:
    """Return the conditions without the task itself."""
    return with_hard_negatives(base, pack_of(labels), bench.store, wanted, documents_per_shard=2)[1:]


def ids(run: Run, query_id: str) -> list[str]:
    return [hit.doc_id for hit in run.rankings[query_id]]


@pytest.mark.parametrize("retriever", RETRIEVERS)
@pytest.mark.parametrize("k", [1, 3, 20])
def test_own_is_a_search_over_the_corpus_and_the_querys_own_hard_negatives(
    bench: Workbench, base: Task, retriever: str, k: int
) -> None:
    [own] = conditions(bench, base, "own")
    found = bench.find(own, retriever, k=k)

    for query_id, of_query in LABELS.items():
        [alone] = conditions(bench, base, "all", labels={query_id: of_query})
        assert found.rankings[query_id] == bench.find(alone, retriever, k=k).rankings[query_id]


@pytest.mark.parametrize("retriever", RETRIEVERS)
def test_the_documents_of_the_corpus_keep_their_scores_and_order_among_hard_negatives(
    bench: Workbench, base: Task, retriever: str
) -> None:
    [everything] = conditions(bench, base, "all")
    plain, augmented = (bench.find(task, retriever, k=20).rankings for task in (base, everything))

    for query_id in QUERIES:
        assert [hit for hit in augmented[query_id] if hit.doc_id in DOCUMENTS] == list(plain[query_id])
        assert {hit.doc_id for hit in augmented[query_id]} & PASSAGES.keys()


def test_only_additions_are_encoded_and_counted(bench: Workbench, base: Task) -> None:
    for retriever in RETRIEVERS:
        bench.find(base, retriever)
    before = set(bench.store.written)

    for task in conditions(bench, base, "own", "all", "all-reindexed", "pairs"):
        for retriever in RETRIEVERS:
            bench.find(task, retriever)

    made = Counter(name.partition("/")[0] for name in bench.store.written - before)
    # Four passages and two positives are 2 + 1 shards of two documents. The six documents of the corpus have 3 more,
    # of which nothing is made, and the queries are those of the corpus. Each of 2 retrievers searches 4 conditions.
    # BM25 weighs the terms of 2 + 1 shards with the statistics of the corpus, and those of 3 + 2 for all-reindexed.
    assert made == {"corpus": 2, "terms": 3, "bm25": 8, "vectors": 3, "run": 8}


def test_bm25_keeps_the_statistics_of_the_corpus_unless_they_are_asked_for_anew(bench: Workbench, base: Task) -> None:
    everything, reindexed = conditions(bench, base, "all", "all-reindexed")
    plain, frozen, anew = (
        {hit.doc_id: hit.score for hit in bench.find(task, "bm25").rankings["q"]}
        for task in (base, everything, reindexed)
    )

    assert frozen["d0"] == plain["d0"]
    # Three of the four passages have `fever`, so it tells less than before.
    assert anew["d0"] < plain["d0"]


def test_a_term_that_only_hard_negatives_have_counts_as_a_term_in_no_document(bench: Workbench, base: Task) -> None:
    [everything] = conditions(bench, base, "all")

    # `zebra` is in h3 alone. Its idf is ln(1 + (6 + 1/2) / (1/2)), and more than that of any term of the corpus.
    assert ids(bench.find(everything, "bm25"), "r")[0] == "h3"


def test_pairs_holds_a_querys_positives_and_own_hard_negatives_with_their_scores(
    bench: Workbench, base: Task
) -> None:
    everything, pairs = conditions(bench, base, "all", "pairs")

    for retriever in RETRIEVERS:
        found, of_all = (bench.find(task, retriever, k=20) for task in (pairs, everything))
        for query_id, positive in (("q", "d0"), ("r", "d4")):
            wanted = {positive, *LABELS[query_id]}
            assert set(ids(found, query_id)) == wanted & set(ids(of_all, query_id))
            assert [hit for hit in of_all.rankings[query_id] if hit.doc_id in wanted] == list(
                found.rankings[query_id]
            )


def test_a_query_never_does_better_among_its_own_hard_negatives(bench: Workbench, base: Task) -> None:
    [own] = conditions(bench, base, "own")

    for retriever in RETRIEVERS:
        plain, fooled = (bench.measure(bench.find(task, retriever), task, "nDCG@10") for task in (base, own))
        assert all(fooled.per_query[name]["nDCG@10"] <= plain.per_query[name]["nDCG@10"] for name in QUERIES)


def test_the_conditions_keep_what_a_query_excluded_before(bench: Workbench, base: Task) -> None:
    asked = replace(base, queries=(Query(query_id="q", text="fever", excluded=frozenset({"d0"})),))

    for task in conditions(bench, asked, "own", "all", "pairs"):
        assert "d0" not in ids(bench.find(task, "bm25"), "q")


def test_a_condition_is_asked_with_the_instructions_of_its_task(tmp_path: Path) -> None:
    models = tmp_path / "models.yaml"
    models.write_text(
        "encoders: [{name: told, class: tests.unit.toy_models.LetterCounts, similarity: dot, max_length: 8,\n"
        "  query_prompt: '{instruction} ', instructions: {Base: aaa, default: b}}]\n"
    )
    with open_workbench(tmp_path / "store", models=models) as bench:
        base = bench.task("Base", documents=DOCUMENTS, queries=QUERIES, qrels=QRELS)
        [own] = conditions(bench, base, "own")
        plain, augmented = (bench.find(task, "told", k=20).rankings["q"] for task in (base, own))

    assert [hit for hit in augmented if hit.doc_id in DOCUMENTS] == list(plain)


def in_corpus(doc_id: str, text: str) -> Pack:
    """A pack whose only hard negative is a document of the corpus, for q, and which brings no passage."""
    named = {doc_id: Named("p.jsonl:1", text)}
    return Pack(documents=(), negatives={"q": {doc_id: HardNegative()}}, writers={}, in_corpus=named)


@pytest.mark.parametrize("retriever", RETRIEVERS)
def test_a_hard_negative_of_the_corpus_is_searched_once_and_scores_in_pairs_as_in_the_corpus(
    bench: Workbench, base: Task, retriever: str
) -> None:
    pack = in_corpus("d2", DOCUMENTS["d2"])

    labelled, own, pairs = with_hard_negatives(base, pack, bench.store, ["own", "pairs"], documents_per_shard=2)

    plain = bench.find(base, retriever, k=20).rankings["q"]
    assert bench.find(own, retriever, k=20).rankings["q"] == plain
    wanted = [hit for hit in plain if hit.doc_id in {"d0", "d2"}]
    assert list(bench.find(pairs, retriever, k=20).rankings["q"]) == wanted
    assert len(wanted) == 2
    assert labelled.hard_negatives == pack.negatives


@pytest.mark.parametrize(
    ("doc_id", "text", "message"),
    [
        ("x", "", r"^p.jsonl:1: document 'x' is not in the corpus of Base$"),
        ("d2", "aab rash", r"^p.jsonl:1: document 'd2' has another text in the corpus of Base, .* 'aab rash fever'"),
        ("d0", "", r"query 'q': passage 'd0' has the text of 'd0', which is a positive of the query"),
    ],
)
def test_a_hard_negative_that_the_corpus_has_not_or_otherwise_is_refused(
    bench: Workbench, base: Task, doc_id: str, text: str, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        with_hard_negatives(base, in_corpus(doc_id, text), bench.store, ["pairs"], documents_per_shard=2)


@pytest.mark.parametrize(
    ("doc_id", "text", "message"),
    [
        ("d2", "x", r"passage 'd2' has the id of a document of the corpus"),
        ("h1", "abc fever", r"query 'q': passage 'h1' has the text of 'd0', which is a positive of the query"),
    ],
)
def test_a_passage_that_is_in_the_corpus_is_refused(
    bench: Workbench, base: Task, doc_id: str, text: str, message: str
) -> None:
    pack = Pack(
        documents=(Document(doc_id=doc_id, text=text),), negatives={"q": {doc_id: HardNegative()}}, writers={"x": 1}
    )

    with pytest.raises(DataError, match=message):
        with_hard_negatives(base, pack, bench.store, ["all"], documents_per_shard=2)
