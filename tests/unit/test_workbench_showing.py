"""`r2med show` prints what the models of a system are given, before a run and after it, and changes nothing."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from r2med_ray.cli.main import app
from r2med_ray.errors import ConfigError
from r2med_ray.first_stages.lexical import LexicalFirstStage
from r2med_ray.indexing.bm25 import query_weights
from r2med_ray.reporting.record import BenchmarkRecord
from r2med_ray.settings.config_files import load_config
from r2med_ray.systems import ResolvedBenchmark, resolve
from r2med_ray.workbench.bench import Workbench, open_workbench
from r2med_ray.workbench.local_runner import LocalRunner
from r2med_ray.workbench.showing.choosing import chosen
from r2med_ray.workbench.showing.flow import furthest, lead
from r2med_ray.workbench.showing.show import show
from r2med_ray.workbench.showing.text import CUT, shown_text
from r2med_ray.workbench.showing.values import Section, Shown
from r2med_ray.workbench.worklog import Worklog
from tests.http_services import Service, completions
from tests.unit.corpus_files import write_r2med
from tests.unit.tasks import run_in
from tests.unit.tiny_checkpoints import classifier

CORPUS = [("d1", "heart failure"), ("d2", "rash " * 40), ("d3", "heart and rash")]
QUERIES = [("q1", "a heart with a rash, a rash"), ("q2", "rash " * 20)]
QRELS = [("q1", "d3", 1), ("q1", "d1", 1), ("q1", "d2", 0), ("q2", "d2", 1)]
KEY = "sk-never-shown"
SYSTEMS: list[dict[str, Any]] = [
    {"name": "words", "retriever": "bm25-r2med"},
    {"name": "dense", "retriever": {"model": "all-MiniLM-L6-v2", "max_length": 16}},
    {"name": "tokens", "retriever": "minilm-tokens"},
    {"name": "scored", "retriever": "bm25", "reranker": {"model": "tiny", "depth": 3}},
    {"name": "pooled", "retriever": "bm25", "reranker": {"model": "maxsim-minilm", "depth": 3}},
    {"name": "hyde", "retriever": "all-MiniLM-L6-v2", "rewriter": {"method": "hyde", "llm": "writer"}},
    {
        "name": "lamer",
        "retriever": "bm25",
        "rewriter": {"method": "lamer", "llm": "writer", "candidates": {"retriever": "bm25", "depth": 2}},
    },
    {
        "name": "agent",
        "retriever": "bm25",
        "rewriter": {"method": "search-r1", "llm": "writer", "agent": {"retriever": "bm25"}, "max_unusable": 1},
    },
    {"name": "twice", "retriever": "bm25", "reranker": {"model": "again", "depth": 3}},
    {"name": "listed", "retriever": "bm25", "reranker": {"model": "lister", "depth": 3}},
    {
        "name": "cascade",
        "retriever": "bm25",
        "rerankers": [
            {"model": "parts", "depth": 3},
            {"model": "grader", "depth": 2, "samples": 2, "max_unusable": 1},
        ],
    },
]

PARTS = """
system_message: You rank {num} passages.
prefix: "For {query}: "
body: "[{rank}] {candidate}; "
suffix: Rank them.
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("showing")


@pytest.fixture(scope="module")
def file(folder: Path) -> Path:
    """A benchmark file, whose benchmark has run in the folder's `store`; its service has ended since."""
    write_r2med(folder / "tiny", corpus=CORPUS, queries=QUERIES, qrels=QRELS)
    (folder / "list.trec").write_text("q1 Q0 d2 1 2.0 t\nq1 Q0 d3 2 1.0 t\nq2 Q0 d2 1 1.0 t\n")
    classifier(folder / "classifier")
    with Service(completions(lambda prompt: "[1] > [2] > [3]")) as service:
        writer = {
            "name": "writer",
            "kind": "openai",
            "model": "m",
            "base_url": service.url,
            "key_variable": "SHOW_KEY",
        }
        lister = {"name": "lister", "strategy": "listwise", "language_model": "writer", "window": 3, "step": 1}
        parts = lister | {"name": "parts", "prompt": "parts.yaml", "thinking": False, "top_k": 7, "temperature": 0.5}
        (folder / "parts.yaml").write_text(PARTS)
        grader = {"name": "grader", "strategy": "pointwise", "language_model": "writer"}
        tiny = {"name": "tiny", "kind": "cross-encoder", "model": str(folder / "classifier"), "max_length": 13}
        rows = {"language_models": [writer], "llm_rerankers": [lister, parts, grader], "rerankers": [tiny]}
        rows["listwise_encoders"] = [{"name": "again", "encoder": "all-MiniLM-L6-v2", "shown": 1}]
        (folder / "models.yaml").write_text(yaml.safe_dump(rows))
        systems = [*SYSTEMS, {"name": "list", "retriever": {"candidates": str(folder / "list.trec")}}]
        values = {"name": "showing", "models": "models.yaml", "systems": systems}
        values |= {"tasks": [{"name": "Tiny", "path": str(folder / "tiny")}]}
        (folder / "showing.yaml").write_text(yaml.safe_dump(values))
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SHOW_KEY", KEY)
            _RECORDS.append(_run(folder / "showing.yaml", folder))
    return folder / "showing.yaml"


_RECORDS: list[BenchmarkRecord] = []


def _run(path: Path, folder: Path) -> BenchmarkRecord:
    return run_in(folder, resolve(load_config(path)))


@pytest.fixture(scope="module")
def benchmark(file: Path) -> ResolvedBenchmark:
    return resolve(load_config(file))


@pytest.fixture(scope="module")
def bench(benchmark: ResolvedBenchmark, folder: Path) -> Iterator[Workbench]:
    with open_workbench(folder / "store", names=benchmark.names) as opened:
        yield opened


@pytest.fixture
def empty(benchmark: ResolvedBenchmark, tmp_path: Path) -> Iterator[Workbench]:
    """A workbench whose store holds nothing."""
    with open_workbench(tmp_path / "empty", names=benchmark.names) as opened:
        yield opened
    assert not (tmp_path / "empty").exists()


def shown(bench: Workbench, benchmark: ResolvedBenchmark, system: str, **names: str) -> Shown:
    return show(bench, benchmark, **{"task": "Tiny", "query": "q1", "system": system, **names})  # type: ignore[arg-type]


def section(of: Shown, arrow: str) -> Section:
    [found] = [each for each in of.sections if each.arrow == arrow]
    return found


def test_the_document_that_is_shown_is_the_first_relevant_one_by_its_id(
    bench: Workbench, benchmark: ResolvedBenchmark
) -> None:
    given = shown(bench, benchmark, "words", document="d2")

    assert (shown(bench, benchmark, "words").document_id, shown(bench, benchmark, "words").grade) == ("d1", 1)
    assert (given.document_id, given.grade, given.document) == ("d2", 0, "rash " * 40)


def test_bm25_shows_its_terms_with_repeats_and_the_weights_of_weighted_queries(
    bench: Workbench, benchmark: ResolvedBenchmark
) -> None:
    query, document = section(shown(bench, benchmark, "words"), "search").terms

    # "a" and "with" are stop words. All three documents have 2, 40 and 2 terms, on average 44/3. The query has 3
    # terms of the corpus: heart, rash, rash. Weight of rash, which 2 of 3 documents have: idf = ln(1 + 1.5/2.5) =
    # 0.47000, times 2 / (2 + 0.9 * (0.6 + 0.4 * 3 / (44/3))) = 2 / 2.613636 = 0.765217.
    assert [(term.term, term.count) for term in query.terms] == [("heart", 1), ("rash", 2)]
    assert query.terms[1].weight == pytest.approx(0.47000 * 0.765217, abs=1e-5)
    assert [(term.term, term.weight) for term in document.terms] == [("heart", None), ("failur", None)]


def test_the_weights_that_are_shown_are_those_that_the_index_multiplies(
    bench: Workbench, benchmark: ResolvedBenchmark
) -> None:
    [stage] = benchmark.systems[0].first_stages
    assert isinstance(stage, LexicalFirstStage)
    task = bench.task("own", documents=dict(CORPUS), queries={"q": "heart rash rash"})
    both = bench.find(task, stage).rankings["q"]
    one = {
        hit.doc_id: hit.score
        for term in ("heart", "rash")
        for hit in bench.find(task, "bm25", {"q": term}).rankings["q"]
    }
    weights = query_weights("heart rash rash", stage.row, stage.gather(bench.store, task, "cpu"))

    # d2 has the word rash alone. `bm25` weighs a query's term by its count, 1, so its score is the document's weight.
    [score] = [hit.score for hit in both if hit.doc_id == "d2"]
    assert score == pytest.approx(weights["rash"][1] * one["d2"], rel=1e-6)  # type: ignore[operator]


def test_a_text_that_is_cut_has_a_mark_where_reading_ends(bench: Workbench, benchmark: ResolvedBenchmark) -> None:
    of_dense = shown(bench, benchmark, "dense", query="q2")
    query, document = section(of_dense, "search").readings

    # 16 tokens: two special ones and 14 words of 20 and of 40.
    assert [(len(reading.tokens or ()), reading.limit) for reading in (query, document)] == [(16, 16), (16, 16)]
    assert [part.lost for reading in (query, document) for part in reading.parts] == [6, 26]
    assert f"    {' '.join(['rash'] * 14)}{CUT} rash rash" in shown_text(of_dense)
    assert "document 'd2' in the best 100: rank 1" in section(of_dense, "search").lines


def test_token_vectors_are_shown_like_any_other(bench: Workbench, benchmark: ResolvedBenchmark) -> None:
    query, document = section(shown(bench, benchmark, "tokens"), "search").readings

    assert (query.side, document.tokens) == ("query", ("[CLS]", "heart", "failure", "[SEP]"))


@pytest.mark.parametrize("system", ["scored", "pooled"])
def test_a_scorer_shows_the_pair_and_says_whether_it_is_scored(
    bench: Workbench, benchmark: ResolvedBenchmark, system: str
) -> None:
    reranking = section(shown(bench, benchmark, system, document="d2"), "rerank")
    texts = [part.text for reading in reranking.readings for part in reading.parts]

    assert texts == [QUERIES[0][1], "rash " * 40]
    assert reranking.lines[0] == "document 'd2' is among the 3 candidates"


def test_a_rewriter_shows_its_prompt_its_answer_and_what_is_searched_for(
    bench: Workbench, benchmark: ResolvedBenchmark
) -> None:
    of_hyde = shown(bench, benchmark, "hyde")
    rewriting = section(of_hyde, "rewrite")
    [asked] = rewriting.asked
    query, expansion, document = section(of_hyde, "search").readings

    assert [message["role"] for message in asked.messages] == ["system", "user"]
    assert QUERIES[0][1] in asked.messages[1]["content"]
    assert (asked.request["seed"], asked.request["temperature"], asked.request["max_tokens"]) == (42, 0.7, 10_240)
    assert (asked.answer, asked.flag) == ("[1] > [2] > [3]", "none")
    assert rewriting.texts == ("(averaged) [1] > [2] > [3]",)
    assert [reading.parts[0].text for reading in (query, expansion, document)] == [
        QUERIES[0][1], "[1] > [2] > [3]", "heart failure",
    ]  # fmt: skip
    assert of_hyde.stops == ""


def test_what_a_rewriter_finds_first_is_shown_before_its_prompt(
    bench: Workbench, benchmark: ResolvedBenchmark
) -> None:
    tool, rewriting, search = shown(bench, benchmark, "lamer").sections

    assert (tool.arrow, tool.part, tool.terms[0].text) == ("rewrite", "bm25", QUERIES[0][1])
    assert "heart and rash" in rewriting.asked[0].messages[1]["content"]
    assert search.terms[0].text == f"{QUERIES[0][1]} [1] > [2] > [3]"


def test_an_agent_shows_its_first_request_although_its_conversation_is_stored(
    bench: Workbench, benchmark: ResolvedBenchmark
) -> None:
    of_agent = shown(bench, benchmark, "agent")
    tool, rewriting, search = of_agent.sections

    assert "it is asked whatever the agent requests, turn by turn" in tool.lines
    assert rewriting.asked[0].unit == "query 'q1', turn 1"
    assert QUERIES[0][1] in rewriting.asked[0].messages[-1]["content"]
    assert (len(search.terms), of_agent.stops) == (2, "")


def test_a_reranking_language_model_shows_its_prompts_although_its_order_is_stored(
    bench: Workbench, benchmark: ResolvedBenchmark
) -> None:
    [asked] = section(shown(bench, benchmark, "listed"), "rerank").asked

    assert "[3] " in asked.messages[-1]["content"]
    assert asked.answer == "[1] > [2] > [3]"


def test_each_reranker_of_a_cascade_shows_its_own_prompts(bench: Workbench, benchmark: ResolvedBenchmark) -> None:
    of = shown(bench, benchmark, "cascade", document="d3")
    first, second = [each for each in of.sections if each.arrow == "rerank"]

    # The prompt in RankLLM's format is the first; its file lies beside the models file.
    [asked] = first.asked
    assert [message["role"] for message in asked.messages] == ["system", "user"]
    assert asked.messages[0]["content"] == "You rank 3 passages."
    assert asked.messages[1]["content"].startswith("For a heart with a rash, a rash: [1] ")
    assert asked.messages[1]["content"].endswith("; Rank them.")
    assert asked.request["temperature"] == 0.5
    assert asked.request["top_k"] == 7
    assert asked.request["chat_template_kwargs"] == {"enable_thinking": False}
    # The second asks about two documents, twice each. The first prompt about the shown document is shown.
    assert second.lines == ("prompts of writer", "1 of 4 prompts about the query")
    [pair] = second.asked
    assert "Passage:\nheart and rash\n" in pair.messages[-1]["content"]


def test_a_list_shows_the_rank_of_the_document(bench: Workbench, benchmark: ResolvedBenchmark) -> None:
    lines = section(shown(bench, benchmark, "list", document="d3"), "search").lines

    assert "the list of query 'q1' has 2 documents" in lines
    assert "document 'd3': rank 2" in lines


def test_before_a_run_it_is_said_what_the_rest_depends_on(empty: Workbench, benchmark: ResolvedBenchmark) -> None:
    of_hyde, of_scored = shown(empty, benchmark, "hyde"), shown(empty, benchmark, "scored")

    [asked] = section(of_hyde, "rewrite").asked
    assert asked.answer is None
    assert of_hyde.stops.startswith("the rest depends on texts of writer, which the store doesn't have: run")
    assert [reading.side for reading in section(of_hyde, "search").readings] == ["document"]
    assert of_scored.stops.startswith("the rest depends on a search with bm25, ")
    assert section(of_scored, "rerank").readings
    assert "the weights depend on the terms of the corpus" in section(of_scored, "search").lines[1]


def test_answers_of_another_device_are_found(bench: Workbench, benchmark: ResolvedBenchmark) -> None:
    # The store holds what was computed on a CPU; this stands for a machine whose own encoders would use a GPU.
    other = LocalRunner(benchmark.names.catalog, bench.store, benchmark.config.resources, Worklog(), device="cuda")
    [system] = [each for each in benchmark.systems if each.name == "dense"]
    with chosen(benchmark, bench.store, task="Tiny", system="dense", query="q1", document=None) as found:
        alone = lead(bench.store, other, found.task, system)
        flow = furthest(bench.store, (other, bench.runner), found.task, system)

    assert alone.stops
    assert (flow.device, flow.stops) == ("cpu", "")


def test_nothing_is_written_and_no_key_is_printed(
    bench: Workbench, benchmark: ResolvedBenchmark, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHOW_KEY", KEY)
    before = sorted(folder.rglob("*"))
    for system in benchmark.systems:
        of_system = shown(bench, benchmark, system.name)
        assert KEY not in json.dumps(asdict(of_system)) + shown_text(of_system)

    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"task": "Tiniy"}, r"unknown task 'Tiniy'\. Did you mean 'Tiny'\? Known: Tiny"),
        ({"system": "denze"}, r"unknown system 'denze'\. Did you mean 'dense'\?"),
        ({"query": "q11"}, r"unknown query of Tiny 'q11'\. Did you mean 'q1'\? Known: q1, q2"),
        ({"document": "d11"}, r"unknown document of Tiny 'd11'\. Did you mean 'd1'\? Known: d1, d2, d3"),
    ],
)
def test_an_unknown_name_is_an_error_with_the_nearest_one(
    bench: Workbench, benchmark: ResolvedBenchmark, names: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        show(bench, benchmark, **{"task": "Tiny", "system": "words", "query": "q1", **names})  # type: ignore[arg-type]


def test_a_second_search_shows_the_text_that_it_embeds(bench: Workbench, benchmark: ResolvedBenchmark) -> None:
    found = section(shown(bench, benchmark, "twice", document="d1"), "rerank")

    [query, document] = found.readings
    # BM25 finds d2 first, which repeats a word of the query.
    assert query.parts[0].text.endswith(f"Documents:\n[1] {('rash ' * 40).strip()}\nSearch Query: {QUERIES[0][1]}")
    assert document.parts[0].text == "heart failure"
    assert any(line.startswith("document 'd1' in the best 3: rank ") for line in found.lines)


def test_only_queries_that_the_benchmark_asks_are_shown(
    bench: Workbench, benchmark: ResolvedBenchmark, file: Path
) -> None:
    one = resolve(load_config(file).model_copy(update={"queries": 1}))

    assert shown(bench, one, "words", query="q1").query_id == "q1"
    with pytest.raises(ConfigError, match="unknown query of Tiny 'q2'"):
        shown(bench, one, "words", query="q2")


def test_the_manifest_shows_an_example_of_each_system(file: Path, folder: Path) -> None:
    [record] = _RECORDS
    examples: dict[str, Any] = {system.name: system.example for system in record.systems}

    query, document = examples["dense"]["search"]["all-MiniLM-L6-v2"]
    # "a heart with a rash, a rash" has 8 words and one comma; "heart failure" is the corpus' first document.
    assert (query["tokens"], query["limit"], query["parts"][0]["prompt"]) == (10, 16, "")
    assert (document["tokens"], document["parts"][0]["text"]) == (4, "heart failure")
    assert examples["hyde"]["rewrite"]["messages"][1]["role"] == "user"
    assert [part["parts"][0]["side"] for part in examples["hyde"]["search"]["all-MiniLM-L6-v2"]] == [
        "query", "document", "document",
    ]  # fmt: skip
    # A classifier reads query and document at once, and late interaction each on its own.
    [pair] = examples["scored"]["rerank"]["pair"]
    assert (pair["tokens"], pair["limit"]) == (13, 13)
    assert [part["side"] for part in pair["parts"]] == ["query", "document"]
    # Pairs are scored in the order of their documents' ids, and d1 is "heart failure". 3 special tokens, 8 of the
    # query and 2 of the document are as many as the limit.
    assert [(part["text"], part["lost"]) for part in pair["parts"]] == [(QUERIES[0][1], 0), ("heart failure", 0)]
    assert [reading["parts"][0]["side"] for reading in examples["pooled"]["rerank"]["pair"]] == ["query", "document"]
    assert examples["scored"]["rerank"] | {"max_length": 13, "query_prompt": ""} == examples["scored"]["rerank"]
    assert examples["listed"]["rerank"]["unit"].startswith("query 'q1'")
    # a pass over a window, and then a document at a time
    units = [examples["cascade"][name]["unit"] for name in ("rerank", "rerank 2")]
    assert units[0] == "query 'q1', pass 1, window 1"
    assert units[1].startswith("query 'q1', document ")
    assert [system.example for system in _run(file, folder).systems] == [*examples.values()]


def test_a_long_text_is_kept_by_its_beginning_in_the_manifest(file: Path) -> None:
    [record] = _RECORDS
    [*_, pooled] = [system.example for system in record.systems if system.name == "lamer"]
    [content] = [each["content"] for each in pooled["rewrite"]["messages"] if each["role"] == "user"]  # type: ignore[call-overload, index]

    assert len(content) < 650


def test_the_command_prints_text_or_json(file: Path, folder: Path) -> None:
    arguments = ["show", str(file), "--task", "Tiny", "--system", "dense", "--query", "q1"]
    arguments += ["--store", str(folder / "store")]
    as_text = CliRunner().invoke(app, arguments)
    as_json = CliRunner().invoke(app, [*arguments, "--format", "json"])

    assert as_text.stdout.startswith("dense on Tiny: all-MiniLM-L6-v2\nquery q1\n    a heart with a rash, a rash\n")
    assert json.loads(as_json.stdout)["sections"][0]["readings"][0]["limit"] == 16


def test_the_command_shows_a_demo_task(tmp_path: Path) -> None:
    arguments = ["show", "jobs/full_benchmark.yaml", "--task", "Demo-Posts", "--system", "bm25+hyde", "--query", "1"]
    result = CliRunner().invoke(app, [*arguments, "--store", str(tmp_path / "store")])

    assert result.exit_code == 0, result.output
    assert "== rewrite: demo-writer" in result.stdout
    assert "== search: bm25" in result.stdout
    assert not (tmp_path / "store").exists()
