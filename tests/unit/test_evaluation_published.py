"""The table of published scores keeps its rules, and agrees with its sources if they are at hand."""

from collections import Counter
from pathlib import Path

import pytest

from r2med_ray.errors import ConfigError
from r2med_ray.evaluation.published import TABLE, published, published_score
from tests.golden.rewrite_published import rewrite

SOURCES = Path(__file__).parents[2].parent / "shared" / "reference" / "published"

# name: number of queries, number of their positives in NanoR2MED
TASKS = {
    "Biology": (103, 374), "Bioinformatics": (77, 226), "Medical-Sciences": (88, 244), "MedXpertQA-Exam": (97, 292),
    "MedQA-Diag": (118, 522), "PMC-Treatment": (150, 315), "PMC-Clinical": (114, 248), "IIYi-Clinical": (129, 457),
}  # fmt: skip
CURRENT = "GitHub R2MED/R2MED@62b7074"
FIRST_COMMIT = "GitHub R2MED/R2MED@45cbac5"
MTEB = "GitHub embeddings-benchmark/results@f4cc6c8"
NANO_SYSTEMS = ("nano-bm25", "microsoft/harrier-oss-v1-270m", "rrf/nano-bm25+microsoft/harrier-oss-v1-270m")


def mean(system, source=CURRENT):
    values = [row.value for row in published(system=system, measure="nDCG@10", source=source)]
    assert len(values) == 8
    return round(100 * sum(values) / 8, 2)


def test_every_record_of_r2med_is_there_once():
    records = {
        source: Counter(
            (row.family, row.method, row.llm, row.retriever, row.reranker, row.depth, row.task)
            for row in published(source=source, measure="nDCG@10")
        )
        for source in (CURRENT, FIRST_COMMIT)
    }

    assert [len(found) for found in records.values()] == [568, 63]
    assert all(set(found.values()) == {1} for found in records.values())


def test_the_other_sources_are_complete():
    assert len(published(source=MTEB, measure="nDCG@10")) == 26 * 8
    # 16 rows of the leaderboard without a result file, and one row of a third party
    assert len(published(source="r2med.github.io@c85a571")) == 17 * 8
    # each profile has 8 tasks x 3 measures, and 7 aggregates
    assert len(published(source="GitHub hakari-bench/hakari-bench@217c872")) == 3 * (8 * 3 + 7)
    # the column from before the lists were made anew has 8 tasks x 2 measures, and 2 aggregates
    assert len(published(source="GitHub hakari-bench/hakari-bench@ba296a2")) == 8 * 2 + 2


def test_a_figure_of_a_system_stands_there_once():
    keys = Counter(
        (row.method, row.llm, row.retriever, row.reranker, row.depth, row.task, row.measure) for row in published()
    )

    assert set(keys.values()) == {1}


def test_every_value_is_a_share():
    assert all(0 <= row.value <= 1 for row in published())


@pytest.mark.parametrize(
    ("system", "source", "average"),
    [
        ("bm25", CURRENT, 15.13), ("bge", CURRENT, 17.02), ("nv", CURRENT, 31.43), ("medcpt", CURRENT, 7.87),
        ("query2doc/gpt4/nv", CURRENT, 41.65), ("nv/rankllama@10", CURRENT, 29.93),
        ("hyde/o3-mini/nv", FIRST_COMMIT, 41.35), ("nv/bge-reranker@100", FIRST_COMMIT, 14.08),
        ("search-o1/qwq-32b/bm25", "r2med.github.io@c85a571", 35.57),
        ("e5/reasonrank-32b", "r2med.github.io@c85a571", 42.85),
        ("mteb/baseline-bm25s", MTEB, 13.46), ("Alibaba-NLP/gte-Qwen2-7B-instruct", MTEB, 32.34),
    ],
)  # fmt: skip
def test_averages_are_those_that_are_printed(system, source, average):
    assert mean(system, source) == pytest.approx(average, abs=0.0051)


def test_a_result_file_has_the_same_six_measures_for_each_of_its_tasks():
    measures = Counter(row.measure for row in published(source=CURRENT))

    # 71 systems x 8 tasks
    assert measures == dict.fromkeys(("nDCG@10", "R@10", "R@100", "AP@10", "AP@100", "P@10"), 568)


def test_precision_counts_whole_documents():
    for row in published(system="bm25", measure="P@10"):
        found = row.value * 10 * TASKS[row.task][0]
        # the value has five decimals and is a share of up to 1,500 places
        assert found == pytest.approx(round(found), abs=0.0075)


def test_reordering_the_first_hundred_documents_keeps_their_recall():
    rows = [row for row in published(measure="R@100", source=FIRST_COMMIT) if row.depth == 100]

    assert len(rows) == 24
    for row in rows:
        assert row.value == published_score(retriever="nv", task=row.task, measure="R@100").value


def test_bge_is_the_same_in_both_harnesses():
    theirs = published(system="BAAI/bge-large-en-v1.5", source=MTEB)

    # 8 tasks x 6 measures
    assert len(theirs) == 48
    for row in theirs:
        assert row.value == published_score(retriever="bge", task=row.task, measure=row.measure).value


@pytest.mark.parametrize("system", NANO_SYSTEMS)
def test_nano_values_are_counts_and_its_aggregates_follow_from_the_tasks(system):
    found = {(row.task, row.measure): row.value for row in published(system=system)}
    hits = {task: found[f"NanoR2MED{task.replace('-', '')}", "Success@10"] for task in TASKS}
    recall = {task: found[f"NanoR2MED{task.replace('-', '')}", "pooled_micro_recall@100"] for task in TASKS}
    ndcg = {task: found[f"NanoR2MED{task.replace('-', '')}", "nDCG@10"] for task in TASKS}

    for task, (queries, positives) in TASKS.items():
        assert hits[task] * queries == pytest.approx(round(hits[task] * queries), abs=1e-6)
        assert recall[task] * positives == pytest.approx(round(recall[task] * positives), abs=1e-6)
    weighted = sum(ndcg[task] * queries for task, (queries, _) in TASKS.items()) / 876
    pooled = sum(round(recall[task] * positives) for task, (_, positives) in TASKS.items()) / 2678
    assert found["NanoR2MED", "query_weighted nDCG@10"] == pytest.approx(weighted, abs=1e-9)
    assert found["NanoR2MED", "task_macro nDCG@10"] == pytest.approx(sum(ndcg.values()) / 8, abs=1e-9)
    assert found["NanoR2MED", "pooled_micro_recall@100"] == pytest.approx(pooled, abs=1e-9)


def test_the_score_of_a_system_is_found_by_its_parts():
    score = published_score(retriever="nv", reranker="monobert", depth=100, task="Biology", measure="nDCG@10")

    assert (score.value, score.source, score.system) == (
        pytest.approx(0.0743, abs=5e-5),
        FIRST_COMMIT,
        "nv/monobert@100",
    )
    assert published_score(retriever="bm25", task="PMC-Treatment", measure="AP@100").value == 0.19953
    assert published_score(retriever="nv", method="hyde", task="Biology", measure="nDCG@10") is None


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"system": "hyde/gtp4/nv"}, r"system 'hyde/gtp4/nv'. Did you mean 'hyde/gpt4/nv'"),
        ({"task": "PMC-Treat"}, r"task 'PMC-Treat'. Did you mean 'PMC-Treatment'"),
        ({"measure": "ndcg@10"}, r"measure 'ndcg@10'. Did you mean 'nDCG@10'"),
        ({"source": "mteb"}, r"nothing is published for the source 'mteb'"),
    ],
)
def test_a_filter_that_fits_nothing_is_an_error(wanted, message):
    with pytest.raises(ConfigError, match=message):
        published(**wanted)


def test_the_table_is_small():
    assert TABLE.stat().st_size < 500_000


def test_the_table_equals_its_sources():
    if not SOURCES.is_dir():
        pytest.skip(f"the sources are not here: {SOURCES}")

    rows = rewrite(SOURCES)

    assert [(row.system, row.task, row.measure, float(row.value), row.source) for row in rows] == [
        (row.system, row.task, row.measure, row.value, row.source) for row in published()
    ]
