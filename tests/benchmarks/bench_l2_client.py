"""L2: what asking a language model costs beside the model: 10,000 prompts to a service that takes no time.

    python -m tests.benchmarks.bench_l2_client [--small]

    A  the client library of OpenAI alone, as many calls in flight, each answer put together from its stream
    D  r2med_ray: limits, deadlines, checks of every piece, answers in order
    S  the same, and every text stored, whole or not at all

The service is a process of its own on loopback. First all texts must be those that were sent. Then all take turns,
2,000 prompts a turn; `--small` is 100 and no bar.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from openai import AsyncOpenAI

from r2med_ray.artifacts import ArtifactStore
from r2med_ray.models.chat import ChatModel
from r2med_ray.models.llm_rows import LanguageModelRow
from r2med_ray.protocols import ChatPrompt
from r2med_ray.rewriting.generations import StoredGenerator
from tests.benchmarks.rounds import print_seconds, seconds_per_round, verdict

PROMPTS = 2000
ROUNDS = 5
IN_FLIGHT = 32
BAR_MS = 1.0
WORDS = ("a ", "passage ", "on ", "fever")


def chunk(delta: dict[str, str], finish_reason: str | None) -> str:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return json.dumps({"id": "x", "object": "chat.completion.chunk", "created": 0, "model": "m", "choices": [choice]})


def reply() -> bytes:
    """Return the one answer: its words in a piece each."""
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


def measure(url: str, small: bool) -> bool:
    count = 100 if small else PROMPTS
    messages = ({"role": "user", "content": "fever"},)
    prompts = [ChatPrompt(unit=f"query {number}", messages=messages, seed=number) for number in range(count)]
    row = LanguageModelRow(name="m", kind="openai", model="m", base_url=url, calls={"max_in_flight": IN_FLIGHT})
    ours = ChatModel(row)

    def stored() -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            return [said.text for said in StoredGenerator(ours, ArtifactStore(folder)).generate(prompts)]

    contestants = {
        "A": lambda: asyncio.run(ask_bare(url, prompts)),
        "D": lambda: [said.text for said in ours.generate(prompts)],
        "S": stored,
    }
    for name, work in contestants.items():
        if work() != ["".join(WORDS)] * count:
            sys.exit(f"{name} lost or changed a text")
    seconds = seconds_per_round(contestants, 1 if small else ROUNDS)
    print_seconds(seconds, dict.fromkeys(seconds, count), "prompts")
    cost = {name: (min(seconds[name]) - min(seconds["A"])) / count * 1000 for name in ("D", "S")}
    by_median = (statistics.median(seconds["D"]) - statistics.median(seconds["A"])) / count * 1000
    print(
        f"beside A, per prompt: D {cost['D']:.2f} ms by the minimum, {by_median:.2f} by the median; S {cost['S']:.2f}"
    )
    return verdict(f"D adds at most {BAR_MS:g} ms to a prompt", holds=cost["D"] <= BAR_MS)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--serve", action="store_true", help="be the service")
    arguments = parser.parse_args()
    if arguments.serve:
        asyncio.run(serve())
        return
    command = [sys.executable, "-m", "tests.benchmarks.bench_l2_client", "--serve"]
    with subprocess.Popen(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        reached = measure(f"http://127.0.0.1:{int(service.stdout.readline())}/v1", arguments.small)
        service.terminate()
    if not reached and not arguments.small:
        sys.exit("missed")


if __name__ == "__main__":
    main()
