"""The command that serves the search page starts vLLM itself, and a visitor reads along while it writes."""

import json
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import yaml

from r2med_ray.storage.artifacts import ArtifactStore
from tests.integration.jobs import environment
from tests.integration.language_server import ENGINE, NAME, needs_vllm

pytestmark = [pytest.mark.ray, pytest.mark.serve, pytest.mark.llm, needs_vllm, pytest.mark.timeout(1200)]

TOKENS = 300
"""Tokens of an answer: less than the context, which has the prompt too."""

R2MED = str(Path(sys.executable).parent / "r2med")


@pytest.fixture(scope="module")
def url(llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a page whose language model is behind vLLM."""
    folder = tmp_path_factory.mktemp("page")
    row = {
        "name": NAME,
        "model": str(llama),
        "engine": ENGINE,
        "sampling": {"temperature": 0.8, "max_tokens": TOKENS},
    }
    (folder / "models.yaml").write_text(yaml.safe_dump({"language_models": [row]}))
    rewriter = {"method": "hyde", "llm": NAME, "samples": 1}
    values = {
        "name": "page",
        "models": "models.yaml",
        "tasks": ["Demo-Posts"],
        "systems": [{"name": "hyde", "retriever": "bm25", "rewriter": rewriter}],
        "resources": {"language_model": {"kv_cache_gib": 1}},
    }
    (folder / "page.yaml").write_text(yaml.safe_dump(values))
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(
            [R2MED, "serve", "page.yaml", "--port", "0"],
            cwd=folder, env=environment(), text=True, stdout=subprocess.PIPE, stderr=log,
        ) as process,
    ):  # fmt: skip
        try:
            assert process.stdout is not None
            # The address is the first thing on the standard output, whatever vLLM says meanwhile.
            line = process.stdout.readline()
            found = re.search(r"http://\S+/", line)
            assert found, line + (folder / "log").read_text()
            yield found[0]
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=300)
    assert (folder / "log").read_text().count(f"starting {NAME} behind Ray Serve") == 1
    assert ArtifactStore(str(folder / "store")).names_of("generation") == []


def events(url: str, question: str) -> list[dict[str, Any]]:
    body = json.dumps({"question": question, "k": 5}).encode()
    request = urllib.request.Request(f"{url}api/stream", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as answer:
        return [json.loads(line) for line in answer]


def test_a_text_is_read_while_vllm_writes_it_and_the_passages_come_after(url: str) -> None:
    told = events(url, "a child with fever and a red rash")

    assert [kind for kind, _ in groupby(each["event"] for each in told)] == [
        "begun", "writing", "rewritten", "retrieved", "done",
    ]  # fmt: skip
    pieces = [each["text"] for each in told if each["event"] == "writing"]
    [rewritten] = [each for each in told if each["event"] == "rewritten"]
    assert "".join(pieces).strip() == rewritten["texts"][0]["text"]
    # vLLM hands single tokens on, and Ray what came within 50 ms.
    assert len(pieces) > 5
    [retrieved] = [each for each in told if each["event"] == "retrieved"]
    assert len(retrieved["passages"]) == 5


def test_the_same_question_again_is_answered_alike_and_the_model_is_not_asked(url: str) -> None:
    first, again = (events(url, "a cough in winter") for _ in range(2))

    kinds = [{each["event"] for each in told} for told in (first, again)]
    assert kinds[0] - kinds[1] == {"writing"}
    texts, passages = (
        [[each[of] for each in told if each["event"] == kind] for told in (first, again)]
        for kind, of in (("rewritten", "texts"), ("retrieved", "passages"))
    )
    assert texts[0] == texts[1]
    assert passages[0] == passages[1]


def test_programs_get_the_same_in_one_object(url: str) -> None:
    body = json.dumps({"question": "a cough in winter", "k": 5}).encode()
    request = urllib.request.Request(f"{url}api/search", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as answer:
        found = json.load(answer)

    [retrieved] = [each for each in events(url, "a cough in winter") if each["event"] == "retrieved"]
    assert found["retrieved"][0]["passages"] == retrieved["passages"]
    assert found["rewritten"]["texts"]
