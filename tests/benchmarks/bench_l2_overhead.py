"""L2: what a prompt costs beside the model's own time: 10,000 prompts to an engine that answers at once.

    python -m tests.benchmarks.bench_l2_overhead [--small]

    K  keeping: keys, look-ups, one artefact per text, reading it back; then a second run, which only reads
    C  the client: HTTP on loopback, streamed, 64 at a time, against a server that answers at once (1,000 prompts)

K is what this package adds to any engine, and has the bar; C is nearly all the SDK's, and is printed. `--small` is
200 prompts and no bar.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence

from r2med_ray.artifacts import ArtifactStore
from r2med_ray.models.chat import ChatModel
from r2med_ray.models.llm_rows import LanguageModelRow
from r2med_ray.protocols import ChatPrompt, Completion
from r2med_ray.rewriting.generations import StoredGenerator
from tests.http_services import Service, completions

BAR_MS = 1.0


class Instant:
    """An engine that takes no time."""

    def inputs(self) -> Mapping[str, str]:
        return {"model": "instant"}

    def generate(
        self, prompts: Sequence[ChatPrompt], *, keep: Callable[[int, Completion], None] | None = None
    ) -> list[Completion]:
        answers = [Completion(text=prompt.unit, reasoning="", finish_reason="stop") for prompt in prompts]
        for position, completion in enumerate(answers):
            if keep:
                keep(position, completion)
        return answers


def prompts(count: int) -> list[ChatPrompt]:
    return [
        ChatPrompt(unit=f"query {number}", messages=({"role": "user", "content": f"fever {number} " * 100},), seed=1)
        for number in range(count)
    ]


def milliseconds(work: Callable[[], object], count: int) -> float:
    start = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - start) / count


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args().small
    asked = prompts(200 if small else 10_000)
    with tempfile.TemporaryDirectory() as folder:
        kept = StoredGenerator(Instant(), ArtifactStore(folder))
        written, read = (milliseconds(lambda: kept.generate(asked), len(asked)) for _ in range(2))
    print(f"K  {written:.3f} ms a prompt when it is written, {read:.3f} ms when it is only read")
    some = asked[: len(asked) // 10]
    with Service(completions(lambda prompt: "a passage")) as service:
        row = LanguageModelRow.model_validate(
            {"name": "x", "kind": "openai", "model": "x", "base_url": service.url, "calls": {"max_in_flight": 64}}
        )
        print(f"C  {milliseconds(lambda: ChatModel(row).generate(some), len(some)):.3f} ms a prompt")
    if not small and written > BAR_MS:
        sys.exit(f"missed: keeping a text may take {BAR_MS} ms")


if __name__ == "__main__":
    main()
