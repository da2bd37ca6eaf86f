"""P1: how long a visitor of the search page waits for the first passage: BM25 over R2MED's largest corpus in size.

    python -m tests.benchmarks.bench_serve [--small]

The corpus has 61,379 documents, as many as MedXpertQA-Exam, of 200 words each; words are as frequent as Zipf's law
says. Questions have 100 words. A visitor asks over HTTP and reads the stream. Printed is the time from the question
to the end of the first line with passages, over 100 questions, and the time that the search itself took. `--small`
has 2,000 documents and no bar.
"""

import argparse
import http.client
import json
import statistics
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import yaml

from r2med_ray.live.job import served
from r2med_ray.live.preparing import prepare
from r2med_ray.settings.config_files import load_with
from r2med_ray.systems import resolve
from r2med_ray.workbench.bench import open_workbench
from tests.benchmarks.findings import Findings, Measured

DOCUMENTS, SMALL = 61_379, 2_000
WORDS_OF_DOCUMENT, WORDS_OF_QUESTION = 200, 100
VOCABULARY = 200_000
QUESTIONS = 100
BAR_MS = 200.0


def write_task(folder: Path, documents: int) -> list[str]:
    """Write a task, and return its questions."""
    random = np.random.default_rng(42)

    def text(words: int) -> str:
        return " ".join(f"w{rank}x" for rank in np.minimum(random.zipf(1.2, words), VOCABULARY))

    corpus = [{"id": f"d{number}", "text": text(WORDS_OF_DOCUMENT)} for number in range(documents)]
    queries = [{"id": f"q{number}", "text": text(WORDS_OF_QUESTION)} for number in range(QUESTIONS)]
    qrels = [{"q_id": query["id"], "p_id": "d0", "score": 1} for query in queries]
    for name, rows in {"corpus": corpus, "query": queries, "qrels": qrels}.items():
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return [query["text"] for query in queries]


def first_passages(url: str, question: str) -> tuple[float, float]:
    """Return the seconds until the first passages are there, and those that the search took."""
    visitor = http.client.HTTPConnection(urlsplit(url).netloc)
    began = time.perf_counter()
    body = json.dumps({"question": question, "k": 10})
    visitor.request("POST", "/api/stream", body, {"Content-Type": "application/json"})
    answer = visitor.getresponse()
    while (event := json.loads(answer.readline()))["event"] != "retrieved":
        pass
    seconds = time.perf_counter() - began
    answer.read()
    visitor.close()
    return seconds, event["seconds"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    is_small = parser.parse_args().small
    documents = SMALL if is_small else DOCUMENTS
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        questions = write_task(folder, documents)
        limits = {"port": 0, "per_minute": 100_000}
        values = {
            "name": "p1",
            "tasks": [{"name": "largest", "path": scratch}],
            "systems": [{"name": "bm25", "retriever": "bm25"}],
            "resources": {"search_page": limits},
        }
        (folder / "p1.yaml").write_text(yaml.safe_dump(values))
        benchmark = load_with(resolve, folder / "p1.yaml")
        with (
            open_workbench(folder / "store", address="local", names=benchmark.names) as bench,
            served(benchmark, bench, prepare(benchmark, bench)) as url,
        ):
            first_passages(url, questions[0])
            times = [first_passages(url, question) for question in questions]
    whole, search = ([1000 * seconds for seconds in each] for each in zip(*times, strict=True))
    for name, values_ms in {"question to first passages": whole, "search alone": search}.items():
        high = statistics.quantiles(values_ms, n=20)[-1]
        median, most = statistics.median(values_ms), max(values_ms)
        print(f"{name:27} median {median:7.1f} ms, 95 % within {high:7.1f} ms, at most {most:7.1f} ms")
    print(f"{documents:,} documents, {len(times)} questions")
    findings = Findings(__file__, small=is_small)
    findings.add("P1", Measured.once(statistics.quantiles(whole, n=20)[-1] / BAR_MS))
    findings.close()


if __name__ == "__main__":
    main()
