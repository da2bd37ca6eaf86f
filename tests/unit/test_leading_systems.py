"""The file of the systems that lead: every name in it is known, and a plan says what each system needs."""

import pytest

from r2med_ray.models.catalog.encoders import EncoderRow
from r2med_ray.models.catalog.language_models import LanguageModelRow
from r2med_ray.settings.config_files import load_config
from r2med_ray.systems import ResolvedBenchmark, resolve
from tests.conftest import REPOSITORY


@pytest.fixture(scope="module")
def leading() -> ResolvedBenchmark:
    return resolve(load_config(REPOSITORY / "jobs" / "leading_systems.yaml"))


def test_the_rewriters_are_as_their_authors_combine_them(leading: ResolvedBenchmark) -> None:
    systems = {system.name: system for system in leading.systems}
    described = {name: system.describe() for name, system in systems.items()}

    assert described["inf-x"] == "intent/inf-query-aligner → inf-retriever-v1"
    assert described["bge-reasoner"] == (
        "reasoned-query/bge-reasoner-rewriter-7b → minmax(bm25, reason-embed-qwen3-8b)"
    )
    assert described["agent"] == "retrieval-agent/qwen3-32b-tools → reasonir-8b"
    turns = {
        name: system.method.turns(system.config.rewriter)
        for name, system in systems.items()
        if system.method and system.config.rewriter
    }
    assert {name: number for name, number in turns.items() if number > 1} == {
        "diver+qexpand": 2,
        "bm25+thinkqe": 3,
        "contrast": 2,
    }
    bge = systems["bge-reasoner"].config
    assert bge.rewriter is not None
    assert bge.fusion is not None
    assert (bge.rewriter.samples, bge.rewriter.combine, bge.fusion.weights) == (5, "sum", (0.25, 0.75))


def test_models_are_sampled_as_their_authors_sample_them(leading: ResolvedBenchmark) -> None:
    rows: dict[str, LanguageModelRow] = {
        system.language_model.name: system.language_model for system in leading.systems if system.language_model
    }
    aligner, tongsearch = rows["inf-query-aligner"], rows["tongsearch-qr-7b"]

    assert (aligner.sampling.temperature, aligner.sampling.max_tokens, aligner.system_prompt) == (0.0, 512, None)
    sampling = tongsearch.sampling
    assert (sampling.temperature, sampling.top_p, sampling.max_tokens) == (0.7, 0.8, 500)
    assert tongsearch.body == {"top_k": 20, "repetition_penalty": 1.05}
    assert rows["r1-qwen-14b"].sampling.temperature == 0.7


def test_reason_embed_reads_512_tokens_of_queries_and_passages(leading: ResolvedBenchmark) -> None:
    [row] = [system.first_stages[0].row for system in leading.systems if system.name == "reason-embed"]
    assert isinstance(row, EncoderRow)

    of_biology = row.encoding_inputs("Biology", device="cpu")
    assert (of_biology["query"]["max_length"], of_biology["document"]["max_length"]) == (512, 512)
    assert of_biology["query"]["prompt"] == (
        "Instruct: Given a Biology post, retrieve relevant passages that help answer the post.\nQuery: "
    )


def test_an_agents_engine_knows_tools_and_sends_whole_answers(leading: ResolvedBenchmark) -> None:
    [row] = [system.language_model for system in leading.systems if system.name == "agent"]
    assert row is not None

    assert row.engine["enable_auto_tool_choice"]
    assert not row.for_replicas().stream
