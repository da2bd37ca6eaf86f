from pathlib import Path

import pytest
from pydantic import ValidationError

from r2med_ray.errors import ConfigError, NotAtHand
from r2med_ray.models.catalog.language_models import LanguageModelRow
from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.rewriting.answers import FORMATS, format_of

REVISION = "0123456789abcdef0123456789abcdef01234567"


def row(**values):
    return LanguageModelRow(**{"name": "m", "model": "org/m", "revision": REVISION} | values)


def test_the_shipped_rows_have_r2meds_keys():
    rows = load_catalog().language_models

    assert {row.published for row in rows.values()} - {None} == {
        *("qwen-7b", "qwen-32b", "qwen-72b", "llama-70b", "r1-qwen-32b", "r1-llama-70b", "huatuo-o1-70b"),
        *("qwq-32b", "qwen3-32b", "gpt4", "o3-mini"),
    }
    assert all(row.published in (None, row.name) for row in rows.values())


def test_a_shipped_row_has_the_answer_format_that_its_name_gets_when_its_texts_are_replayed():
    for row in load_catalog().language_models.values():
        assert FORMATS[row.answer_format] is format_of(row.name), row.name


def test_the_published_services_are_sampled_as_published():
    rows = load_catalog().language_models

    # generate_hypothetical_doc.py has 0.7 and 10,240 tokens for local models, and 0.8 and 0.8 for gpt4. o3-mini takes
    # no temperature.
    local = rows["qwen-72b"].sampling
    assert (local.temperature, local.top_p, local.max_tokens) == (0.7, None, 10240)
    assert (rows["gpt4"].sampling.temperature, rows["gpt4"].sampling.top_p) == (0.8, 0.8)
    assert (rows["o3-mini"].sampling.temperature, rows["o3-mini"].token_limit) == (None, "max_completion_tokens")


def test_the_shipped_rows_are_pinned_but_those_whose_commit_no_public_file_names():
    catalog = load_catalog()
    rows = catalog.language_models

    unpinned = [row.name for row in rows.values() if row.kind == "vllm" and not row.revision]
    rerank = {row.language_model for row in catalog.llm_rerankers.values()}
    assert [name for name in unpinned if name not in rerank] == [
        "huatuo-o1-70b",
        *("inf-query-aligner", "tongsearch-qr-1.5b", "tongsearch-qr-3b", "tongsearch-qr-7b"),
        *("bge-reasoner-rewriter-7b", "mqr-a1", "r1-qwen-14b"),
    ]
    with pytest.raises(NotAtHand, match="HuatuoGPT-o1-70B' has no revision"):
        rows["huatuo-o1-70b"].generation_inputs()


def test_what_changes_a_text_changes_the_inputs_and_what_changes_the_speed_does_not():
    base = row(engine={"max_model_len": 4096}).generation_inputs()
    same = [
        row(engine={"max_model_len": 4096, "tensor_parallel_size": 4}, max_replicas=8),
        row(engine={"max_model_len": 4096}, base_url="http://here/v1", calls={"max_in_flight": 1}),
    ]
    other = [
        row(engine={"max_model_len": 8192}),
        row(engine={"max_model_len": 4096, "quantization": "fp8"}),
        row(engine={"max_model_len": 4096}, revision="f" * 40),
        row(engine={"max_model_len": 4096}, system_prompt=None),
        row(engine={"max_model_len": 4096}, body={"top_k": 20}),
        row(engine={"max_model_len": 4096}, dtype="float16"),
        row(engine={"max_model_len": 4096}).with_sampling(temperature=0.0),
        row(engine={"max_model_len": 4096}).with_sampling(max_tokens=5),
    ]

    assert [changed.generation_inputs() for changed in same] == [base, base]
    inputs = [base, *(changed.generation_inputs() for changed in other)]
    assert all(inputs[i] != inputs[j] for i in range(len(inputs)) for j in range(i))


def test_a_service_is_named_by_its_address_unless_a_revision_says_which_model_it_has():
    here = row(kind="openai", model="default", revision=None, base_url="http://here/v1").generation_inputs()
    there = row(kind="openai", model="default", revision=None, base_url="http://there/v1").generation_inputs()
    pinned = [
        row(kind="openai", model="default", base_url=url).generation_inputs()
        for url in ("http://here/v1", "http://there/v1")
    ]

    assert here != there
    assert pinned[0] == pinned[1]


@pytest.mark.parametrize("address", ["https://me:hunter2@host/v1", "https://host/v1?api-key=hunter2", "host/v1"])
def test_an_address_with_a_secret_in_it_is_refused_and_not_repeated(address, tmp_path):
    (tmp_path / "models.yaml").write_text(
        f"language_models: [{{name: m, kind: openai, model: m, base_url: '{address}'}}]"
    )

    with pytest.raises(ConfigError, match=r"key_variable|http") as refused:
        load_catalog(tmp_path / "models.yaml")

    assert "hunter2" not in str(refused.value)


def test_requests_call_a_folder_by_the_rows_name():
    assert row().served_as == "org/m"
    assert row(model="/models/m").served_as == "m"
    assert row(served_name="mine").served_as == "mine"


def test_none_keeps_the_rows_sampling():
    assert row().with_sampling().sampling == row().sampling
    assert row().with_sampling(temperature=0.0).sampling.temperature == 0.0


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kind": "openai", "engine": {"max_model_len": 1}}, "leave out `engine`: it is a setting of kind 'vllm'"),
        ({"min_replicas": 3, "max_replicas": 2}, "max_replicas 2 is below min_replicas 3"),
        ({"base_url": "localhost:8000"}, "base_url"),
        ({"key_variable": "sk-secret"}, "key_variable"),
    ],
)
def test_a_row_that_makes_no_sense_is_refused(values, message):
    with pytest.raises(ValidationError, match=message):
        row(**values)


def test_a_file_of_ones_own_adds_a_model(tmp_path: Path):
    path = tmp_path / "models.yaml"
    path.write_text("language_models:\n  - {name: mine, model: ./weights, calls: {max_in_flight: 4}}\n")

    mine = load_catalog(path).language_models["mine"]

    assert (mine.model, mine.calls.max_in_flight, mine.calls.timeout_s) == (str(tmp_path / "weights"), 4, 1800)


def test_calls_fill_all_replicas_and_wait_for_an_engine_unless_the_row_says_otherwise():
    shared = {"in_flight_per_replica": 8, "max_replicas": 3}
    calls = row(**shared).for_replicas().calls
    own = row(**shared, calls={"max_in_flight": 2, "attempts": 3, "idle_timeout_s": 5}).for_replicas().calls

    assert (calls.max_in_flight, calls.attempts, calls.idle_timeout_s) == (24, 20, 900)
    assert (own.max_in_flight, own.attempts, own.idle_timeout_s) == (2, 3, 5)


def test_no_proxy_stands_between_a_job_and_its_own_replicas_unless_the_row_says_so():
    assert row().calls.use_proxies
    assert not row().for_replicas().calls.use_proxies
    assert row(calls={"use_proxies": True}).for_replicas().calls.use_proxies


def test_a_text_that_replicas_take_apart_comes_whole():
    assert row().for_replicas().stream
    assert not row(engine={"reasoning_parser": "qwen3"}).for_replicas().stream
    assert not row(engine={"tool_call_parser": "hermes"}).for_replicas().stream
    assert row(engine={"reasoning_parser": "qwen3"}).stream  # the row of a service that runs elsewhere


def test_the_workers_of_a_replica_are_those_of_both_ways_to_share_weights():
    assert row().workers == 1
    assert row(engine={"tensor_parallel_size": 4, "pipeline_parallel_size": 2}).workers == 8


def test_a_prompt_and_its_answer_have_a_price_where_the_row_has_both_prices():
    priced = row(usd_per_million_input_tokens=2, usd_per_million_output_tokens=8)

    # 1,000 tokens at 2 dollars and 500 at 8 dollars a million
    assert priced.usd(1000, 500) == pytest.approx(0.006)
    assert row(usd_per_million_input_tokens=2).usd(1000, 500) is None
