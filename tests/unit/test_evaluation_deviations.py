"""The tables by which our figures are compared with published ones."""

import pytest

from r2med_ray.errors import ConfigError
from r2med_ray.evaluation.deviations import TABLE, known_deviations, load_deviations
from r2med_ray.evaluation.published import published, published_score


def score(retriever, measure="nDCG@10", **fields):
    found = published_score(retriever=retriever, task="Biology", measure=measure, **fields)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("fields", "within"),
    [
        ({"retriever": "bm25"}, 0.00005),
        ({"retriever": "bm25", "method": "hyde", "llm": "gpt4"}, 0.00005),
        ({"retriever": "bge"}, 0.0005),
        ({"retriever": "bge", "method": "lamer", "llm": "gpt4"}, 0.0005),
        ({"retriever": "contriever"}, 0.003),
        ({"retriever": "bmr-410m"}, 0.003),
        ({"retriever": "bmr-7b"}, 0.01),
        ({"retriever": "nv", "reranker": "monobert", "depth": 10}, 0.01),
        ({"retriever": "BAAI/bge-large-en-v1.5"}, 0.0005),
        ({"retriever": "GritLM/GritLM-7B"}, 0.003),
    ],
)
def test_each_family_has_its_tolerance(fields, within):
    assert known_deviations().tolerance(score(**fields)).within == within


@pytest.mark.parametrize(
    ("retriever", "measure", "within"),
    [
        ("nano-bm25", "nDCG@10", 0.002),
        ("nano-bm25", "query_weighted nDCG@10", 0.002),
        ("microsoft/harrier-oss-v1-270m", "nDCG@10", 0.003),
        # these tolerances must not be less than one query of 77, and one positive of 226
        ("nano-bm25", "task_macro Success@10", 0.013),
        ("microsoft/harrier-oss-v1-270m", "pooled_micro_recall@100", 0.005),
        ("nano-bm25-before-2026-05-25", "query_weighted nDCG@10", 0.02),
    ],
)
def test_nanor2med_has_tolerances_by_profile_and_measure(retriever, measure, within):
    for figure in published(system=retriever, measure=measure):
        assert known_deviations().tolerance(figure).within == within


def test_every_published_figure_has_a_tolerance():
    assert all(known_deviations().tolerance(row).because for row in published())


def test_several_reasons_may_hold_for_one_figure():
    reasons = known_deviations().reasons(score("nv", reranker="rankllama", depth=100))

    assert [reason.name for reason in reasons] == ["rankllama-length", "reranked-list", "first-commit-only"]


def test_a_reason_for_one_measure_is_none_for_another():
    assert known_deviations().reasons(score("medcpt", "R@100")) == ()


def test_services_models_without_a_row_and_one_system_without_a_depth_are_out_of_reach():
    out = {row.system for row in published() if known_deviations().need(row)}

    # They are openai alone and with 13 generation sets, voyage, ReasonRank, LENS twice, and MTEB's BM25.
    assert len(out) == 19
    assert known_deviations().need(score("nv")) is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('["medcpt"]', '["medctp"]', r"for the system 'medctp'. Did you mean 'medcpt'"),
        ("tasks: [Biology, ", "tasks: [Biologie, ", r"for the task 'Biologie'. Did you mean 'Biology'"),
        ("[nDCG@10]", "[NDCG@10]", r"for the measure 'NDCG@10'. Did you mean 'nDCG@10'"),
        ("up_to: 0.0363", "upto: 0.0363", "upto"),
    ],
)
def test_a_table_that_names_what_nobody_published_is_refused(tmp_path, old, new, message):
    text = TABLE.read_text()
    assert old in text
    path = tmp_path / "deviations.yaml"
    path.write_text(text.replace(old, new, 1))

    with pytest.raises(ConfigError, match=message):
        load_deviations(path)
