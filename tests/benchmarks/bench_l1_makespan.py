"""L1: how long a simulated engine takes for many prompts, for three ways to hand them over.

    python -m tests.benchmarks.bench_l1_makespan

    chunks  32 prompts at a time, and the next 32 when all are answered, as R2MED's script does it
    stream  all prompts at once, in their order; each place that becomes free takes the next prompt
    ours    the same, and the next prompt is the one that `LongestFirst` expects the longest answer to

The result is deterministic. A place writes one token per step, or one word where words were counted. The lower bound
is the largest of three numbers: all tokens divided by all places, the longest answer, and what one place has to write
if there are more long answers than places. One replica has as many places as 256 are beside R2MED's 876 prompts.
`oracle` knows all lengths and begins with the longest. The bar is for ours, by the median of what is drawn, where
lengths go with method, task and prompt. Where they don't, no order can be better than another, except by chance.

    unknown     876 log-normal lengths (sigma 0.8, mean about 900, cut at 10,240), of which nothing can be known
    seeded      such lengths by R2MED's tasks: a quarter of the variance of their logarithms is the task's, a quarter
                goes with the length of the prompt, and half is each answer's own; 20 draws
    demo        the texts that the package ships: methods × tasks of its two writers
    answers     what people answered to PubMedQA's 1,000 labelled questions, if the folder R2MED_DATA has them: one
                method, and the length of the prompt explains 1% of the variance; no bar
    after ...   the same with every second answer known, as in a job that was killed and runs again
"""

import argparse
import heapq
import json
import math
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import r2med_ray
from r2med_ray.chat import ChatPrompt, Completion
from r2med_ray.workbench.longest_first import Lengths, LongestFirst
from tests.benchmarks.bars import BARS
from tests.benchmarks.findings import Findings, Measured

TASKS = {"Biology": 103, "Bioinformatics": 77, "Medical-Sciences": 88, "MedXpertQA-Exam": 97, "MedQA-Diag": 118,
         "PMC-Treatment": 150, "PMC-Clinical": 114, "IIYi-Clinical": 129}  # fmt: skip
"""R2MED's tasks → queries."""

PROMPTS = sum(TASKS.values())
PLACES_PER_PROMPT = 256 / PROMPTS
CHUNK = 32
BAR = BARS["L1 1 replica"].at_most
REPLICAS = (1, 2, 4)
WITHOUT_BAR = ("unknown", "answers")
SEEDS = range(20)
DEMO = Path(r2med_ray.__file__).parent / "corpus" / "demo"
PUBMEDQA = Path("pubmedqa/ori_pqal.json")


class Asked(NamedTuple):
    """A prompt, and how long its answer will be."""

    part: str
    characters: int
    tokens: int


def unknown() -> list[Asked]:
    drawn = np.random.default_rng(9).lognormal(mean=6.5, sigma=0.8, size=PROMPTS)
    return [Asked("all", 1000, int(tokens)) for tokens in np.minimum(drawn, 10_240)]


def seeded(seed: int) -> list[Asked]:
    draw = np.random.default_rng(seed)
    asked = []
    for task, queries in TASKS.items():
        of_task, of_prompt, own = 0.4 * draw.normal(), draw.normal(size=queries), draw.normal(size=queries)
        tokens = np.minimum(np.exp(6.5 + of_task + 0.4 * of_prompt + math.sqrt(0.32) * own), 10_240)
        characters = 1000 * np.exp(0.5 * of_prompt)
        asked += [Asked(task, int(long), int(much)) for long, much in zip(characters, tokens, strict=True)]
    return asked


def demo(writer: str) -> list[Asked]:
    """Return the lengths of the texts of one model, in words."""
    asked = []
    for file in sorted(DEMO.glob(f"*/*/{writer}/query_with_hydoc.jsonl")):
        for row in map(json.loads, file.read_text().splitlines()):
            part = f"{file.parts[-3]} on {file.parts[-4]}"
            asked.append(Asked(part, len(row["text"]), len(row["hy_doc"].split())))
    return asked


def answers(file: Path) -> list[Asked]:
    """Return the lengths of answers that people wrote to questions over an abstract, in words."""
    rows = json.loads(file.read_text()).values()
    return [
        Asked("answer", len(row["QUESTION"]) + sum(map(len, row["CONTEXTS"])), len(row["LONG_ANSWER"].split()))
        for row in rows
    ]


def prompt_of(asked: Asked) -> ChatPrompt:
    return ChatPrompt(unit="", messages=({"content": "x" * asked.characters},), seed=1, part=asked.part)


def completion_of(asked: Asked) -> Completion:
    return Completion(text="", reasoning="", finish_reason="stop", completion_tokens=asked.tokens)


def simulated(asked: Sequence[Asked], order: Iterator[int], places: int, first: LongestFirst | None = None) -> int:
    """Return the number of steps until all answers are done, if a place that is free takes the next prompt."""
    now, running = 0, [(asked[place].tokens, place) for place, _ in zip(order, range(places), strict=False)]
    heapq.heapify(running)
    while running:
        now, done = heapq.heappop(running)
        if first is not None:
            first.note(done, completion_of(asked[done]))
        place = next(order, None)
        if place is not None:
            heapq.heappush(running, (now + asked[place].tokens, place))
    return now


def ours(asked: Sequence[Asked], places: int, known: Sequence[Asked] = ()) -> int:
    lengths = Lengths()
    for each in known:
        lengths.note(prompt_of(each), completion_of(each))
    first = LongestFirst([prompt_of(each) for each in asked], lengths)
    return simulated(asked, first, places, first)


def chunked(asked: Sequence[Asked], replicas: int) -> int:
    """Return the number of steps if every replica waits for the longest answer of its chunk.

    A chunk is as large a share of the prompts as 32 are of R2MED's.
    """
    size = round(CHUNK * len(asked) / PROMPTS) * replicas
    return sum(max(each.tokens for each in asked[start : start + size]) for start in range(0, len(asked), size))


def lower_bound(tokens: Sequence[int], places: int) -> float:
    """Return the steps below which no order can be, though it knew all lengths."""
    longest = sorted(tokens, reverse=True)
    # Of the n × places + 1 longest answers, one place has to write n + 1.
    in_turn = [(number + 1) * length for number, length in enumerate(longest[::places])]
    return max(sum(tokens) / places, *in_turn)


def ratios(asked: Sequence[Asked], replicas: int, known: Sequence[Asked] = ()) -> dict[str, float]:
    """Return name of a way → its steps, in lower bounds."""
    places = round(PLACES_PER_PROMPT * len(asked)) * replicas
    tokens = [each.tokens for each in asked]
    bound = lower_bound(tokens, places)
    steps = {
        "chunks": chunked(asked, replicas),
        "stream": simulated(asked, iter(range(len(asked))), places),
        "ours": ours(asked, places, known),
        "oracle": simulated(asked, iter(sorted(range(len(asked)), key=lambda place: -tokens[place])), places),
    }
    return {name: number / bound for name, number in steps.items()}


def collections() -> dict[str, list[list[Asked]]]:
    """Return name → the lengths of a collection, several times where they are drawn."""
    found = {"unknown": [unknown()], "seeded": [seeded(seed) for seed in SEEDS]}
    found |= {f"demo, {writer}": [demo(writer)] for writer in ("demo-writer", "demo-reasoner")}
    file = Path(os.environ.get("R2MED_DATA", "")) / PUBMEDQA
    if file.exists():
        found["answers"] = [answers(file)]
    else:
        print(f"answers: left out, because R2MED_DATA names no folder with {PUBMEDQA}")
    return found


def median(draws: Sequence[Sequence[Asked]], replicas: int, *, half_known: bool) -> Mapping[str, float]:
    step = 2 if half_known else 1
    each = [ratios(draw[::step], replicas, draw[1::2] if half_known else ()) for draw in draws]
    return {way: statistics.median(ratio[way] for ratio in each) for way in each[0]} | {
        "worst": max(ratio["ours"] for ratio in each)
    }


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    barred: dict[int, list[float]] = {replicas: [] for replicas in REPLICAS}
    for name, draws in collections().items():
        for half_known in (False, True):
            for replicas in REPLICAS:
                label = f"{'after half, ' if half_known else ''}{name}, {replicas} replica(s)"
                by = median(draws, replicas, half_known=half_known)
                if name not in WITHOUT_BAR:
                    barred[replicas].append(by["ours"])
                is_late = by["ours"] > BAR and name not in WITHOUT_BAR
                shown = "  ".join(f"{way} {ratio:.3f}" for way, ratio in by.items())
                print(f"{label:48} {shown}  {'!' if is_late else ''}")
    findings = Findings(__file__, small=False)
    for replicas, of_all in barred.items():
        measured = Measured(max(of_all), min(of_all), max(of_all))
        findings.add(f"L1 {replicas} replica{'s' if replicas > 1 else ''}", measured)
    findings.close()


if __name__ == "__main__":
    main()
