import os
import subprocess
import sys
from pathlib import Path

import pytest

from r2med_ray.corpus.catalog import TASKS
from r2med_ray.corpus.sources import hub_file
from r2med_ray.demands import Fetch
from r2med_ray.errors import NotAtHand
from r2med_ray.evaluation.published import published
from r2med_ray.rewriting.answers import format_of
from r2med_ray.rewriting.methods import METHODS
from r2med_ray.rewriting.published_generations import GENERATIONS, at_hand
from r2med_ray.rewriting.replay import ReplayRewriter
from r2med_ray.settings.compat import Rules
from r2med_ray.settings.rewriter import RewriterConfig
from r2med_ray.storage.jsonl import read_jsonl
from r2med_ray.types import Expansion, Query
from tests.fakes import answer
from tests.unit.corpus_files import write_jsonl
from tests.unit.rewriting_parts import task

QUERY = Query(query_id="7", text="acute pain")

BIOLOGY = TASKS["Biology"]
UPSTREAM = Path(__file__).parents[2].parent / "shared" / "data" / "r2med_upstream" / "dataset" / "Biology-demo"
O3_MINI = "hyde/o3-mini/query_with_hydoc.jsonl"


def replay(folder, *, method="hyde", generations="o3-mini", can_fetch=False):
    config = RewriterConfig(method=method, generations=generations)
    return ReplayRewriter(config, task=task(folder), method=METHODS[method], rules=Rules(), can_fetch=can_fetch)


def test_there_are_twenty_sets_per_task():
    # hyde has 10, query2doc 3, lamer 3, search-o1 2, search-r1 2
    assert len(GENERATIONS) == 20
    assert {row.method for row in GENERATIONS.values()} <= set(METHODS)


def test_every_published_system_with_a_rewriter_can_be_computed_from_one_of_them():
    systems = {f"{row.method}/{row.llm}" for row in published() if row.family == "gar"}

    assert systems == set(GENERATIONS)


def test_every_writer_has_the_answer_format_of_the_published_protocol():
    reasoning = {row.writer for row in GENERATIONS.values() if format_of(row.writer).reasoning}

    # base.py:5 of R2MED at 62b7074 lists reasoning models; these of them have published texts
    assert reasoning == {
        "r1-qwen-32b", "r1-llama-70b", "qwq-32b", "huatuo-o1-70b", "qwen3-32b", "qwen-7b-ins", "qwen-3b-ins",
    }  # fmt: skip


@pytest.mark.parametrize("spelling", ["o3-mini", "o3_mini"])
def test_what_is_not_beside_the_task_is_fetched_under_the_published_path(tmp_path, spelling):
    fetched = write_jsonl(tmp_path / "o3-mini.jsonl", [{"id": "7", "text": "acute pain", "hy_doc": "injury"}])
    rewriter = replay(tmp_path / "nowhere", generations=spelling, can_fetch=True)

    rewriting, demands = answer(rewriter.rewrite([QUERY]), {Fetch: lambda fetch: fetched})

    assert demands == [Fetch(task=task(tmp_path / "nowhere"), file=O3_MINI)]
    assert rewriting.queries[0].expansions[0].text == "injury"


def test_the_writer_of_fetched_texts_is_that_of_their_set_wherever_they_lie(tmp_path):
    fetched = write_jsonl(tmp_path / "blob", [{"id": "7", "text": "acute pain", "hy_doc": "a</think>injury"}])
    rewriter = replay(tmp_path, generations="qwq-32b", can_fetch=True)

    rewriting, _ = answer(rewriter.rewrite([QUERY]), {Fetch: lambda fetch: fetched})

    assert rewriting.queries[0].expansions == (Expansion(text="injury", method="hyde", reasoning=True),)


def test_what_can_not_be_fetched_now_ends_the_rewriting_with_what_it_needs(tmp_path):
    def fetch(demand):
        raise NotAtHand(demand.file)

    with pytest.raises(NotAtHand, match=f"needs {O3_MINI}"):
        answer(replay(tmp_path, can_fetch=True).rewrite([QUERY]), {Fetch: fetch})


def test_what_is_beside_the_task_is_never_fetched(tmp_path):
    (tmp_path / "hyde" / "o3_mini").mkdir(parents=True)
    local = write_jsonl(
        tmp_path / "hyde" / "o3_mini" / "query_with_hydoc.jsonl", [{"id": "7", "text": "", "hy_doc": "a"}]
    )
    rewriter = replay(tmp_path, can_fetch=True)

    assert rewriter.source.path == local
    assert answer(rewriter.rewrite([QUERY]), {})[1] == []


def test_an_unknown_set_gets_the_nearest_of_those_that_can_be_fetched(tmp_path):
    with pytest.raises(
        NotAtHand, match=r"expected lamer/qwen-722b/.*Did you mean 'qwen-72b'\? Known: gpt4, qwen-72b,"
    ):
        replay(tmp_path, method="lamer", generations="qwen-722b", can_fetch=True)


def test_a_published_set_of_a_task_that_has_none_is_not_at_hand(tmp_path):
    with pytest.raises(NotAtHand, match=r"expected hyde/o3-mini/query_with_hydoc\.jsonl"):
        replay(tmp_path)


def test_sets_beside_the_task_and_in_the_cache_are_at_hand(tmp_path):
    (tmp_path / "lamer" / "gpt4").mkdir(parents=True)
    write_jsonl(tmp_path / "lamer" / "gpt4" / "query_with_hydoc.jsonl", [])

    assert at_hand(tmp_path, lambda file: file == O3_MINI) == ["hyde/o3-mini", "lamer/gpt4"]


def test_without_a_network_the_error_says_which_file_to_put_where(tmp_path):
    with pytest.raises(NotAtHand) as failure:
        hub_file(BIOLOGY.hub, BIOLOGY.revision, O3_MINI, tmp_path)

    message = str(failure.value)
    assert f"hf download R2MED/Biology {O3_MINI} --repo-type dataset --revision {BIOLOGY.revision}" in message
    assert f"https://huggingface.co/datasets/R2MED/Biology/resolve/{BIOLOGY.revision}/{O3_MINI}" in message
    assert str(tmp_path / O3_MINI) in message
    assert failure.value.what == f"{O3_MINI} of R2MED/Biology at {BIOLOGY.revision[:12]}"


def test_the_cache_of_the_hub_serves_without_a_network(tmp_path):
    cached = tmp_path / "hub" / "datasets--R2MED--Biology" / "snapshots" / BIOLOGY.revision / O3_MINI
    cached.parent.mkdir(parents=True)
    write_jsonl(cached, [{"id": "7", "text": "acute pain", "hy_doc": "injury"}])
    program = f"""
from r2med_ray.corpus.catalog import fetcher
from r2med_ray.demands import Fetch
from r2med_ray.rewriting.methods import METHODS
from r2med_ray.rewriting.replay import ReplayRewriter
from r2med_ray.settings.compat import Rules
from r2med_ray.settings.rewriter import RewriterConfig
from r2med_ray.types import (Query, Task)
from r2med_ray.corpora import Corpus
from tests.fakes import answer
query = Query(query_id="7", text="acute pain")
task = Task(
    name="Biology", suite="R2MED", revision="content-0", corpus=Corpus(key="", digest="", shards=()),
    queries=(query,), qrels={{}}, folder={str(tmp_path)!r},
)
config = RewriterConfig(method="hyde", generations="o3_mini")
fetch = fetcher(task)
rewriter = ReplayRewriter(config, task=task, method=METHODS["hyde"], rules=Rules(), can_fetch=fetch is not None)
rewriting, _ = answer(rewriter.rewrite([query]), {{Fetch: lambda demand: fetch(demand.file)}})
print(rewriting.queries[0].expansions[0].text)
from r2med_ray.cli.main import app
app(["tasks", "--generations"])
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "R2MED_"))}

    child = subprocess.run(
        [sys.executable, "-c", program],
        env={**environment, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert child.stdout.splitlines()[:3] == [
        "injury",
        "Biology                   1 of 20 texts at hand  hyde/o3-mini",
        "Bioinformatics            0 of 20 texts at hand  ",
    ], child.stderr


def test_r2meds_own_sample_is_replayed_row_by_row():
    if not UPSTREAM.is_dir():
        pytest.skip(f"R2MED's sample is not here: {UPSTREAM}")
    rows = list(read_jsonl(UPSTREAM / "query.jsonl"))
    queries = [Query(query_id=row.values["id"], text=row.values["text"]) for row in reversed(rows)]
    generated = {
        row.values["id"]: row.values["hy_doc"]
        for row in read_jsonl(UPSTREAM / "hyde" / "qwen-7b" / "query_with_hydoc.jsonl")
    }

    rewriting, _ = answer(replay(UPSTREAM, generations="qwen-7b").rewrite(queries), {})

    assert rewriting.flagged == {}
    assert [query.query_id for query in rewriting.queries] == [query.query_id for query in queries]
    for query in rewriting.queries:
        assert query.expansions[0].text == generated[query.query_id].strip()
