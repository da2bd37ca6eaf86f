"""A prompt that its service refuses as too long costs its query the text, and nothing else, whatever asked for it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
import yaml

from r2med_ray.chat import ChatPrompt
from r2med_ray.demands import Ask, Steps
from r2med_ray.errors import ContextError, DataError, StageError
from r2med_ray.models.services.chat import ChatModel
from r2med_ray.pipeline import Ranked
from r2med_ray.rewriting.methods import METHODS
from r2med_ray.settings.resources import ResourcesConfig
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.systems import Names
from r2med_ray.types import Expansion, Query, Rewriting
from r2med_ray.workbench.bench import Workbench
from r2med_ray.workbench.local_runner import LocalRunner
from r2med_ray.workbench.worklog import Worklog
from tests.http_services import Reply, Request, Service, completions, refuse

TOO_LONG = "This model's maximum context length is 4096 tokens. However, your request has 5000 input tokens."
DOCUMENTS = {"d1": "skin skin skin", "d2": "skin skin arm", "d3": "skin arm arm"}
QUERIES = {f"q{number}": f"skin {number}" for number in range(20)}
"""20 queries, so that the 5% that are allowed without a setting are one query."""

SAID = "<think>so</think><answer>[1] > [2]: 7</answer>"
"""An answer that all methods can use: a text, an order, and a grade."""


class Own:
    """A rewriter that is a user's class: it joins every query to what the model says."""

    def __init__(self, config: Any, *, model: Any, **others: Any) -> None:
        self._model = model

    def rewrite(self, queries: Sequence[Query]) -> Steps[Rewriting]:
        prompts = tuple(
            ChatPrompt(unit=f"query {query.query_id!r}", messages=({"role": "user", "content": query.text},), seed=1)
            for query in queries
        )
        texts = yield Ask(model=self._model, prompts=prompts)
        expansions = [(Expansion(text=text.text, method="own", use="joined"),) if text else () for text in texts]
        return Rewriting(
            queries=tuple(
                replace(query, expansions=of_query) for query, of_query in zip(queries, expansions, strict=True)
            )
        )


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Names]:
    """A catalogue with a language model that is a service. The service refuses prompts with the word endless."""

    def answer(request: Request) -> Reply:
        said = "\n".join(message["content"] for message in request.body["messages"])
        return (refuse(400, TOO_LONG) if "endless" in said else completions(lambda prompt: SAID))(request)

    folder = tmp_path_factory.mktemp("model")
    (folder / "config.json").write_text("{}")
    with Service(answer) as service:
        model = {"name": "m", "model": str(folder), "base_url": service.url, "sampling": {"max_tokens": 8}}
        rerankers = [{"name": name, "strategy": name, "language_model": "m"} for name in ("listwise", "groupwise")]
        own = {"name": "own", "use": "joined", "class": f"{__name__}.Own"}
        path = folder / "models.yaml"
        path.write_text(yaml.safe_dump({"language_models": [model], "llm_rerankers": rerankers, "methods": [own]}))
        yield Names.load(path)


class Bench:
    """A workbench with an empty store."""

    def __init__(self, names: Names, store: ArtifactStore) -> None:
        resources, worklog = ResourcesConfig(), Worklog()
        self._bench = Workbench(
            store, LocalRunner(names.catalog, store, resources, worklog), names, worklog, resources
        )

    def rank(self, system: Mapping[str, Any], endless: int) -> Ranked:
        """Rank for 20 queries, the first of which have prompts that are too long."""
        first = {f"q{number}": f"skin endless {number}" for number in range(endless)}
        task = self._bench.task("skin", documents=DOCUMENTS, queries=QUERIES | first)
        return self._bench.rank(task, {"retriever": "bm25", **system})


@pytest.fixture
def bench(names: Names, store: ArtifactStore) -> Bench:
    return Bench(names, store)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(TOO_LONG, id="OpenAI, vLLM"),
        pytest.param(
            "The decoder prompt (length 9) is longer than the maximum model length of 8.", id="vLLM's engine"
        ),
        pytest.param("Input prompt (9 tokens) is too long and exceeds limit of 8", id="vLLM's scheduler"),
        pytest.param("The input (9 tokens) is longer than the model's context length (8 tokens).", id="SGLang"),
        pytest.param("the request exceeds the available context size. try increasing it", id="llama.cpp"),
        pytest.param("prompt is too long: 9 tokens > 8 maximum", id="Anthropic"),
        pytest.param("Input is too long for requested model.", id="Bedrock"),
        pytest.param("This model's maximum prompt length is 8 but the request contains 9 tokens.", id="xAI"),
        pytest.param("The input token count (9) exceeds the maximum number of tokens allowed (8).", id="Gemini"),
        pytest.param(
            "too many tokens: total number of tokens in the prompt cannot exceed 8 - received 9", id="Cohere"
        ),
        pytest.param("Please reduce the length of the messages or completion.", id="Groq"),
        pytest.param("Input validation error: `inputs` must have less than 8 tokens. Given: 9", id="TGI, the prompt"),
        pytest.param("`inputs` tokens + `max_new_tokens` must be <= 8. Given: 7 and 2", id="TGI, with the answer"),
    ],
)
def test_the_words_of_services_for_a_prompt_that_is_too_long_are_known(names: Names, words: str) -> None:
    prompt = ChatPrompt(unit="query '7'", messages=({"role": "user", "content": "a b"},), seed=1)
    with Service(refuse(400, words)) as service, pytest.raises(ContextError) as raised:
        ChatModel(names.catalog.language_models["m"], base_url=service.url).generate([prompt])

    assert raised.value.units == ("query '7'",)


@pytest.mark.parametrize(
    "words", ["max_tokens is too large: 50000. This model supports at most 16384 completion tokens", "invalid input"]
)
def test_another_refusal_is_no_prompt_that_is_too_long(names: Names, words: str) -> None:
    prompt = ChatPrompt(unit="query '7'", messages=({"role": "user", "content": "a b"},), seed=1)
    with Service(refuse(400, words)) as service, pytest.raises(StageError) as raised:
        ChatModel(names.catalog.language_models["m"], base_url=service.url).generate([prompt])

    assert not isinstance(raised.value, ContextError)


def rewriter(method: str, **values: Any) -> dict[str, Any]:
    row = METHODS[method if method in METHODS else "hyde"]
    shown = {"candidates": {"retriever": "bm25", "depth": 2}} if row.needs_candidates else {}
    agent = {"agent": {"retriever": "bm25"}} if row.kind == "agent" else {}
    return {"rewriter": {"method": method, "llm": "m"} | shown | agent | values}


# Conversations with calls of tools are in `test_rewriting_ranking_agent.py`, because this service calls none.
WRITING = [name for name, row in METHODS.items() if row.kind != "ranker"]
REWRITERS = [
    *(pytest.param(rewriter(method), id=method) for method in [*WRITING, "own"]),
    *(pytest.param(rewriter(method, samples=2), id=f"{method}, two samples") for method in ("hyde", "lamer")),
    pytest.param(
        rewriter("lamer", candidates={"retriever": "bm25", "depth": 2, "too_long": "halve"}), id="lamer, halved"
    ),
]
RERANKERS = [pytest.param({"reranker": {"model": name, "depth": 3}}, id=name) for name in ("listwise", "groupwise")]


@pytest.mark.parametrize("system", REWRITERS)
def test_a_query_whose_prompt_is_too_long_stays_as_it_was_and_is_counted(
    bench: Bench, system: dict[str, Any]
) -> None:
    ranked = bench.rank(system, endless=1)

    assert ranked.rewriting.flagged["context limit"] == ("q0",)
    assert ranked.rewriting.unchanged == ("q0",)
    assert [len(query.expansions) > 0 for query in ranked.rewriting.queries] == [False, *[True] * 19]
    assert len(ranked.run.rankings) == 20


@pytest.mark.parametrize("system", REWRITERS)
def test_more_queries_than_allowed_without_a_text_are_refused_and_named(bench: Bench, system: dict[str, Any]) -> None:
    # A third round may also find no new passages among three.
    with pytest.raises(DataError, match=r"2 of 20 queries .*\(context limit: 2\b.*\); at most 5% .*: q0, q1\."):
        bench.rank(system, endless=2)


@pytest.mark.parametrize("method", ["hyde", "search-r1", "own"])
def test_where_an_unusable_text_is_an_error_one_prompt_is_enough(bench: Bench, method: str) -> None:
    with pytest.raises(DataError, match=r"1 of 20 queries .*\(context limit: 1\); at most 0% are allowed: q0\."):
        bench.rank(rewriter(method, on_unusable="error"), endless=1)


@pytest.mark.parametrize("system", RERANKERS)
def test_a_query_whose_candidates_are_too_long_keeps_its_order_and_is_counted(
    bench: Bench, system: dict[str, Any]
) -> None:
    ranked = bench.rank(system, endless=1)

    assert ranked.repairs.unreadable["q0"] == {"context limit": 1}
    assert [hit.doc_id for hit in ranked.run.rankings["q0"]] == ["d1", "d2", "d3"]


@pytest.mark.parametrize("system", RERANKERS)
def test_more_queries_than_allowed_without_an_order_are_refused_and_named(
    bench: Bench, system: dict[str, Any]
) -> None:
    with pytest.raises(DataError, match=r"2 of 20 queries .*context limit: 2.*; at most 5% are allowed: q0, q1\."):
        bench.rank(system, endless=2)
