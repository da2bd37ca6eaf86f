"""L2: the cost of a prompt apart from the model's work: 5,000 prompts to models that take no time.

    python -m tests.benchmarks.bench_l2_overhead [--small]

    A  a service on loopback, asked by OpenAI's client library alone: 32 calls in flight, answers from streams
    D  the same service, asked by r2med_ray: limits, deadlines, checks of every piece, answers in order
    R  an engine in this process, given its prompts by Ray Data's `map_batches`; nothing is kept
    K  an engine in this process, asked by the driver of r2med_ray, which stores every text whole or not at all

First all texts must equal the texts that were sent. Then all take turns with 1,000 prompts per turn. `--small` has
100 prompts per turn and no bar.
"""

import argparse
import asyncio
import json
import logging
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import ray
from openai import AsyncOpenAI

from r2med_ray.chat import ChatPrompt, Completion
from r2med_ray.demands import Ask, Steps
from r2med_ray.errors import NotAtHand
from r2med_ray.models.catalog.language_models import LanguageModelRow
from r2med_ray.models.services.chat import ChatModel
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Task
from r2med_ray.workbench.driver import Driver
from r2med_ray.workbench.parts import Ended
from r2med_ray.workbench.worklog import Worklog
from tests.benchmarks.findings import Findings, Measured
from tests.benchmarks.rounds import print_seconds, seconds_per_round
from tests.unit.scripted_runner import ScriptedModel, ScriptedRunner

PROMPTS = 1000
ROUNDS = 5
IN_FLIGHT = 32
BAR_MS = 1.0
WORDS = ("a ", "passage ", "on ", "fever")
TEXT = "".join(WORDS)


def same_text(prompt: ChatPrompt) -> Completion:
    return Completion(text=TEXT, reasoning="", finish_reason="stop")


class Instant:
    """An engine that takes no time, and counts what it is asked.

    Args:
        answer: says what it answers to a prompt.
    """

    def __init__(self, answer: Callable[[ChatPrompt], Completion]) -> None:
        self._answer = answer
        self.asked = 0

    def generate(
        self,
        prompts: Sequence[ChatPrompt],
        *,
        keep: Callable[[int, Completion], None] | None = None,
        order: Iterable[int] | None = None,
    ) -> list[Completion]:
        self.asked += len(prompts)
        answers = list(map(self._answer, prompts))
        for position in order or range(len(prompts)):
            if keep:
                keep(position, answers[position])
        return answers


def chunk(delta: dict[str, str], finish_reason: str | None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return json.dumps({"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [choice]})


def reply() -> bytes:
    """Return the answer to every prompt as a stream with one piece per word."""
    pieces = [*(chunk({"content": word}, None) for word in WORDS), chunk({}, "stop"), "[DONE]"]
    body = "".join(f"data: {piece}\n\n" for piece in pieces).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n" % len(body) + body


async def serve() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                fields = dict(line.split(": ", 1) for line in head.decode().lower().split("\r\n")[1:] if line)
                await reader.readexactly(int(fields["content-length"]))
                writer.write(said)
        except asyncio.IncompleteReadError:
            writer.close()

    said = reply()
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def ask_bare(url: str, prompts: list[ChatPrompt]) -> list[str]:
    places = asyncio.Semaphore(IN_FLIGHT)
    async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:

        async def ask(prompt: ChatPrompt) -> str:
            async with places:
                stream = await client.chat.completions.create(
                    model="m", messages=list(prompt.messages), seed=prompt.seed, stream=True
                )
                return "".join([piece.choices[0].delta.content or "" async for piece in stream])

        return await asyncio.gather(*map(ask, prompts))


def keep_all(prompts: list[ChatPrompt], folder: str) -> list[str]:
    store = ArtifactStore(tempfile.mkdtemp(dir=folder))
    worklog = Worklog()
    driver = Driver(store, ScriptedRunner(store, worklog, generator=Instant(same_text)), worklog, no_files)
    [(_, ended)] = driver.run({"all": ask_all(prompts)})
    assert isinstance(ended, Ended)
    return ended.result


def ask_all(prompts: list[ChatPrompt]) -> Steps[list[str]]:
    texts = yield Ask(model=ScriptedModel("instant"), prompts=tuple(prompts))
    return [said.text for said in texts]


def no_files(task: Task, file: str) -> Path:
    raise NotAtHand(file)


def map_all(prompts: list[ChatPrompt]) -> list[str]:
    rows = [{"prompt": prompt.messages[0]["content"]} for prompt in prompts]
    answered = ray.data.from_items(rows).map_batches(
        lambda batch: {"text": [TEXT] * len(batch["prompt"])}, batch_size=64
    )
    return [row["text"] for row in answered.take_all()]


def measure(url: str, small: bool, folder: str, findings: Findings) -> None:
    count = 100 if small else PROMPTS
    messages = ({"role": "user", "content": "fever " * 300},)
    prompts = [ChatPrompt(unit=f"query {number}", messages=messages, seed=number) for number in range(count)]
    row = LanguageModelRow(name="m", kind="openai", model="m", base_url=url, calls={"max_in_flight": IN_FLIGHT})
    ours = ChatModel(row)
    contestants = {
        "A": lambda: asyncio.run(ask_bare(url, prompts)),
        "D": lambda: [said.text for said in ours.generate(prompts)],
        "R": lambda: map_all(prompts),
        "K": lambda: keep_all(prompts, folder),
    }
    for name, work in contestants.items():
        findings.gate(f"{name} has every text as it was sent", holds=work() == [TEXT] * count)
    seconds = seconds_per_round(contestants, 1 if small else ROUNDS)
    print_seconds(seconds, dict.fromkeys(seconds, count), "prompts")
    allowed = count * BAR_MS / 1000
    more = [ours - theirs for ours, theirs in zip(seconds["D"], seconds["A"], strict=True)]
    asked = (min(seconds["D"]) - min(seconds["A"])) / allowed
    print(f"per prompt: D takes {asked * BAR_MS:.2f} ms more than A")
    findings.add("L2 ask", Measured(asked, min(more) / allowed, max(more) / allowed))
    kept = seconds["K"]
    findings.add("L2 keep", Measured(min(kept) / allowed, min(kept) / allowed, max(kept) / allowed))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--serve", action="store_true", help="be the service")
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(serve())
        return
    findings = Findings(__file__, small=arguments.small)
    command = [sys.executable, "-m", "tests.benchmarks.bench_l2_overhead", "--serve"]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        ray.init(address="local", include_dashboard=False, logging_level="WARNING")
        ray.data.DataContext.get_current().enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.WARNING)  # after the import, which sets a level
        with tempfile.TemporaryDirectory() as folder:
            url = f"http://127.0.0.1:{int(service.stdout.readline())}/v1"
            try:
                measure(url, arguments.small, folder, findings)
            finally:
                service.terminate()
    findings.close()


if __name__ == "__main__":
    main()
