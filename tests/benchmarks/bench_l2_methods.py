"""L2 for each method: the cost of a text apart from the model's work, from the query to what is made of the text.

    python -m tests.benchmarks.bench_l2_methods [--small]

A model in this process answers every prompt at once. What is left is ours: prompts, seeds, the driver, the store, and
the reading of the answers. The searches that some methods need are left out: they have bars of their own. Stores are
in memory where the system has a folder there (`/dev/shm`), so that the time of a disk's file system is left out; what
a text's file takes here and there is printed. Each method does a small and a large job, each with a new store. The
difference of their CPU times is divided by the difference of their texts, so what a job costs once is left out. `hard
negatives` is a round of their generation with filters and judges, all of whose passages differ. `--small` has a few
queries and no bar.
"""

import argparse
import random
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from r2med_ray.chat import ChatPrompt, Completion, ToolCall
from r2med_ray.corpus.catalog import resolve_tasks
from r2med_ray.demands import Steps
from r2med_ray.first_stage import ShardedFirstStage
from r2med_ray.negatives.generating import generate
from r2med_ray.negatives.generation_job import load_material
from r2med_ray.negatives.generation_settings import GenerationConfig
from r2med_ray.negatives.material import Tools
from r2med_ray.pipeline import rank, rewriter_of
from r2med_ray.settings.config_files import load_settings
from r2med_ray.settings.resources import ResourcesConfig
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import ArtifactKey
from r2med_ray.systems import Names
from r2med_ray.types import Run, Task
from r2med_ray.workbench.bench import Workbench
from r2med_ray.workbench.in_process import PlainIndex
from r2med_ray.workbench.texts import FILE, KIND
from r2med_ray.workbench.worklog import Worklog
from tests.benchmarks.bench_l2_overhead import Instant
from tests.benchmarks.findings import Findings, Measured
from tests.integration.test_leading_rerankers import ROWS, names
from tests.scripted_writer import DEMO, KINDS, Script, lines_of, name_of, write_generation
from tests.unit.scripted_runner import ScriptedRunner

BAR_MS = 1.0
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else tempfile.gettempdir()
ROUNDS = 3
MODEL = "qwen-7b"
SHOWN = {"retriever": "bm25", "depth": 5, "words": 60}
SAYS = "<answer>[2] > [1]</answer>"
"""What the model answers: a ranking for rerankers, an answer for agents, and a text for the others."""

SEARCHES = {"search-o1": "<|begin_search_query|> word1 <|end_search_query|>", "search-r1": "<search> word1 </search>"}
"""What the model writes first where an agent searches."""


def rewriting(method: str, **settings: Any) -> dict[str, Any]:
    rewriter = {"method": method, "llm": MODEL, "max_unusable": 1.0, **settings}
    return {"retriever": "bm25", "rewriter": rewriter}


AGENT = {"retriever": "bm25", "max_turns": 2, "words": 60}
REWRITERS = {
    "hyde": rewriting("hyde", samples=4),
    "query2doc": rewriting("query2doc"),
    "lamer": rewriting("lamer", candidates=SHOWN),
    "intent": rewriting("intent"),
    "reasoned-query": rewriting("reasoned-query", samples=5, combine="sum"),
    "diver-qexpand": rewriting("diver-qexpand", candidates=SHOWN),
    "thinkqe": rewriting("thinkqe", candidates=SHOWN, samples=2),
    "contrast": rewriting("contrast"),
}
AGENTS = {
    "search-o1": rewriting("search-o1", agent=AGENT),
    "search-r1": rewriting("search-r1", agent=AGENT),
    "retrieval-agent": rewriting("retrieval-agent", agent=AGENT | {"depth": 5}),
}
RERANKERS = {
    name: {"retriever": "bm25", "reranker": {"model": f"r-{name}", "depth": 20, "max_unusable": 1.0}}
    for name in {row.strategy: name for name, row in sorted(ROWS.items(), reverse=True)}.values()
}
"""One shipped row for each strategy."""


def completion(says: Callable[[str], str], prompt: ChatPrompt) -> Completion:
    """Return what the model answers: a call to a prompt with tools, and else what it says to the last message."""
    if prompt.top_tokens:
        return Completion(text="", reasoning="", finish_reason="stop", top_tokens=((" true", -0.5),))
    if prompt.tools:
        call = ToolCall("retrieve", '{"query": "word1"}')
        if prompt.messages[-1]["role"] == "tool":
            call = ToolCall("final_results", '{"ids": ["p1"]}')
        return Completion(text="", reasoning="", finish_reason="tool_calls", tool_calls=(call,))
    return Completion(text=says(prompt.messages[-1]["content"]), reasoning="", finish_reason="stop")


Work: TypeAlias = Callable[[int], tuple[int, float]]


class Watched(ScriptedRunner):
    """A runner that knows the CPU seconds of its searches."""

    searching_s = 0.0

    def open_index(self, task: Task, first_stage: ShardedFirstStage) -> PlainIndex:
        index = super().open_index(task, first_stage)
        retrieve = index.retrieve

        def timed(*searched: Any, **settings: Any) -> Run:
            started = time.thread_time()
            run = retrieve(*searched, **settings)
            self.searching_s += time.thread_time() - started
            return run

        index.retrieve = timed  # type: ignore[method-assign]
        return index


@contextmanager
def opened(known: Names, model: Instant, **resources: Any) -> Iterator[tuple[Workbench, Watched]]:
    """Open a workbench whose language models are all this one, with a store of its own."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        store, worklog = ArtifactStore(folder), Worklog()
        runner = Watched(store, worklog, generator=model)
        yield Workbench(store, runner, known, worklog, ResourcesConfig(**resources)), runner


def seconds_of(bench: Workbench, runner: Watched, steps: Steps[Any]) -> float:
    """Return the CPU seconds of some steps without those of their searches."""
    started, searched = time.process_time(), runner.searching_s
    bench.lead("steps", steps)
    return time.process_time() - started - (runner.searching_s - searched)


def after_a_search(search: str, prompt: str) -> str:
    """Return what the model answers to a prompt; `search` if it has not searched yet."""
    return SAYS if search in prompt else search


def text_of(dice: random.Random, words: int) -> str:
    return " ".join(f"word{dice.randrange(2000)}" for _ in range(words))


def of_system(known: Names, system: dict[str, Any], queries: int) -> tuple[int, float]:
    """Return how many texts a system needs, and the CPU seconds of all of it beside the searches."""
    search = SEARCHES.get(system.get("rewriter", {}).get("method"), "")
    model = Instant(partial(completion, partial(after_a_search, search)))
    dice = random.Random(7)
    documents = {f"d{number}": text_of(dice, 60) for number in range(400)}
    asked = {f"q{number}": text_of(dice, 30) for number in range(queries)}
    with opened(known, model) as (bench, runner):
        task = bench.task("words", documents=documents, queries=asked)
        resolved = bench.system({"name": "system", **system})
        bench.find(task, "bm25")
        rewriter = rewriter_of(task, resolved)
        steps = rewriter.rewrite(task.queries) if rewriter else rank(task, resolved)
        seconds = seconds_of(bench, runner, steps)
        return model.asked, seconds


def another_text(corpus: Sequence[str]) -> Callable[[str], str]:
    """Return what writer and judges say. Every other word of a passage is exchanged, so that no two are alike."""
    dice, words, known = random.Random(7), " ".join(corpus).split(), set(corpus)
    good = Script(
        {"rank": lambda prompt: "[1] > [2]" if prompt.split("[1] ")[1].partition("\n")[0] in known else "[2] > [1]"}
    )

    def say(prompt: str) -> str:
        said = good(prompt)
        if name_of(prompt) not in KINDS:
            return said
        return " ".join(dice.choice(words) if number % 2 else word for number, word in enumerate(said.split()))

    return say


def of_generation(per_query: int) -> tuple[int, float]:
    """Return how many texts a round of hard negatives needs, and the CPU seconds of all of it beside the searches."""
    model = Instant(partial(completion, another_text([line["text"] for line in lines_of(DEMO / "corpus.jsonl")])))
    with tempfile.TemporaryDirectory() as folder:
        changes = {"queries": None, "per_query": per_query}
        config = load_settings(GenerationConfig, write_generation(Path(folder), "http://127.0.0.1", **changes))
        known = Names.load(Path(str(config.models)))
        [source] = resolve_tasks(list(config.tasks))
        with opened(known, model, documents_per_shard=40) as (bench, runner):
            material = load_material(bench, source, config, Tools.of(config, known))
            bench.find(material.task, material.tools.anchors)
            seconds = seconds_of(bench, runner, generate(material))
            return model.asked, seconds


def milliseconds_per_text(work: Work, size: int) -> tuple[int, float]:
    """Return how many more texts a job of three times the size needs, and the CPU milliseconds for each."""
    (few, less), (many, more) = work(size), work(3 * size)
    return many - few, (more - less) / (many - few) * 1000


def worst(works: Iterable[tuple[str, Work]], size: int, rounds: int) -> Measured:
    """Print what a text costs with each method, and return the cost with the worst one, in bars."""
    found = []
    for name, work in works:
        taken = [milliseconds_per_text(work, size) for _ in range(rounds)]
        texts, costs = taken[0][0], [cost / BAR_MS for _, cost in taken]
        print(
            f"{name:<26}{texts:>7} texts: {min(costs) * BAR_MS:.2f} ms of CPU time, {max(costs) * BAR_MS:.2f} at most"
        )
        found.append(Measured(min(costs), min(costs), max(costs)))
    return max(found)


def milliseconds_per_file(folder: str, count: int) -> float:
    """Return the CPU milliseconds that it takes to store one text in a folder."""
    with tempfile.TemporaryDirectory(dir=folder) as place:
        store = ArtifactStore(place)
        started = time.process_time()
        for number in range(count):
            with store.create(ArtifactKey(KIND, {"seed": number}, is_text=True)) as writer:
                writer.write(FILE, SAYS.encode())
        return (time.process_time() - started) / count * 1000


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args().small
    findings = Findings(__file__, small=small)
    size, rounds = (5, 1) if small else (200, ROUNDS)
    with tempfile.TemporaryDirectory() as folder:
        known = names(Path(folder), "http://127.0.0.1", ROWS)
        for bar, systems in (("L2 rewriters", REWRITERS), ("L2 agents", AGENTS), ("L2 rerankers", RERANKERS)):
            works = ((name, partial(of_system, known, system)) for name, system in systems.items())
            findings.add(bar, worst(works, size, rounds))
    findings.add("L2 negatives", worst([("hard negatives", of_generation)], 4 if small else 8, rounds))
    for folder in dict.fromkeys((tempfile.gettempdir(), MEMORY)):
        print(f"a text's file in {folder}: {milliseconds_per_file(folder, 10 if small else 2000):.2f} ms of CPU time")
    findings.close()


if __name__ == "__main__":
    main()
