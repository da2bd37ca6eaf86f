"""The tables that published figures are compared by."""

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


def test_every_published_figure_has_a_tolerance():
    assert all(known_deviations().tolerance(row).because for row in published())


def test_several_reasons_may_hold_for_one_figure():
    reasons = known_deviations().reasons(score("nv", reranker="rankllama", depth=100))

    assert [reason.name for reason in reasons] == ["rankllama-length", "reranked-list", "first-commit-only"]


def test_a_reason_for_one_measure_is_none_for_another():
    assert known_deviations().reasons(score("medcpt", "R@100")) == ()


def test_only_services_and_one_row_without_a_depth_are_out_of_reach():
    out = {row.system for row in published() if known_deviations().need(row)}

    # openai alone and with 13 generation sets, voyage, ReasonRank
    assert len(out) == 16
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
