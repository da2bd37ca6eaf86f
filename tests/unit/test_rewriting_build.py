"""The row of the method, and whether texts are replayed, decide which rewriter is built."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from r2med_ray.demands import Ask, Find, QueryRewriter, Read, Recall, Steps
from r2med_ray.errors import ConfigError, NotAtHand
from r2med_ray.rewriting.build import build_rewriter
from r2med_ray.rewriting.methods import METHODS, Method
from r2med_ray.rewriting.prompts import PromptTask
from r2med_ray.settings.compat import Rules
from r2med_ray.settings.rewriter import RewriterConfig
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Expansion, Query, Rewriting
from tests.fakes import answer, kept_in
from tests.unit.corpus_files import write_jsonl
from tests.unit.rewriting_parts import TOOL, Model, finding, task, told, writing

QUERY = Query(query_id="7", text="acute pain")
AGENT = {"method": "search-o1", "agent": {"retriever": "bm25"}}


def build(values: dict[str, Any], folder: Path | str = "", **changes: Any) -> QueryRewriter:
    config = RewriterConfig.model_validate(({} if "generations" in values else {"llm": "m"}) | values)
    given: dict[str, Any] = {
        "task": task(folder),
        "method": changes.get("method") or METHODS[config.method],
        "model": None if config.generations else Model(),
        "in_place": False,
        "tool": TOOL if config.agent or config.candidates else None,
        "tool_inputs": {},
        "rules": Rules(),
        "prompt": PromptTask(names=("Biology",), family="qa"),
        "can_fetch": False,
        "system": "s",
    }
    return build_rewriter(config, **given | changes)


def test_a_method_that_writes_at_once_asks_with_the_prompt_of_its_task() -> None:
    _, [ask] = answer(build({"method": "hyde"}).rewrite([QUERY]), writing(lambda prompt: "b"))

    assert isinstance(ask, Ask)
    assert "acute pain" in told(ask.prompts[0])
    _, [other] = answer(
        build({"method": "hyde"}, prompt=PromptTask(names=("x",), family="case")).rewrite([QUERY]),
        writing(lambda prompt: "b"),
    )
    assert isinstance(other, Ask)
    assert other.prompts != ask.prompts


def test_a_method_that_is_shown_candidates_searches_first() -> None:
    rewriter = build({"method": "lamer", "candidates": {"retriever": "bm25", "depth": 1}})

    _, demands = answer(
        rewriter.rewrite([QUERY]), finding(lambda query: ["about nerves"]) | writing(lambda prompt: "b")
    )

    assert [type(demand) for demand in demands] == [Find, Read, Ask]


def test_an_agent_has_its_own_prompts_and_those_of_its_condensing(tmp_path: Path) -> None:
    for name, text in (("search-o1", "Start: {query}"), ("condense", "{query}{reasoning}{request}{passages}")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "default.txt").write_text(f"version: 1\n{text}")
    rewriter = build(AGENT | {"prompts": str(tmp_path)})

    rewriting, [recall, ask, _] = answer(
        rewriter.rewrite([QUERY]), kept_in(ArtifactStore(str(tmp_path / "store"))) | writing(lambda prompt: "b")
    )

    assert isinstance(recall, Recall)
    assert isinstance(ask, Ask)
    assert told(ask.prompts[0]) == "Start: acute pain"
    assert rewriting.queries[0].expansions == (Expansion(text="b", method="search-o1"),)


@pytest.mark.parametrize("method", ["hyde", "search-o1"])
def test_texts_that_were_generated_before_are_replayed_whatever_the_method(tmp_path: Path, method: str) -> None:
    (tmp_path / method / "gpt4").mkdir(parents=True)
    row = {"id": "7", "text": "acute pain", "hy_doc": "injury"}
    write_jsonl(tmp_path / method / "gpt4" / "query_with_hydoc.jsonl", [row])

    rewriting, demands = answer(build({"method": method, "generations": "gpt4"}, tmp_path).rewrite([QUERY]), {})

    assert demands == []
    assert rewriting.queries[0].expansions == (Expansion(text="injury", method=method),)


def test_published_texts_are_fetched_only_where_that_is_possible(tmp_path: Path) -> None:
    build({"method": "hyde", "generations": "gpt4"}, tmp_path, can_fetch=True)
    with pytest.raises(NotAtHand, match=r"expected hyde/gpt4/query_with_hydoc\.jsonl"):
        build({"method": "hyde", "generations": "gpt4"}, tmp_path)


def test_a_method_with_a_class_of_its_own_gets_all_that_a_rewriter_is_built_of() -> None:
    class Repeat:
        def __init__(self, config: RewriterConfig, **given: Any) -> None:
            self.given = given

        def rewrite(self, queries: Sequence[Query]) -> Steps[Rewriting]:
            made.append(self)
            return Rewriting(queries=tuple(queries))
            yield  # makes it a generator

    made: list[Repeat] = []
    built = build({"method": "repeat"}, method=Method(use="joined", build=Repeat))
    rewriting, _ = answer(built.rewrite([QUERY]), {})

    assert rewriting == Rewriting(queries=(QUERY,), unchanged=(QUERY.query_id,))
    assert list(made[0].given) == [
        "task", "method", "model", "in_place", "tool", "tool_inputs", "rules", "prompt", "can_fetch", "system",
    ]  # fmt: skip


@pytest.mark.parametrize("use", ["alone", "replaces", "subtracted"])
@pytest.mark.parametrize("values", [{"method": "hyde"}, {"method": "hyde", "generations": "gpt4"}])
def test_a_use_that_was_never_published_is_refused_under_the_published_protocol(
    values: dict[str, Any], use: Any
) -> None:
    with pytest.raises(ConfigError, match=f"rewriter hyde: its texts have the use `{use}`; the published protocol"):
        build(values, method=Method(use=use), rules=Rules.of("r2med"), can_fetch=True)
    build(values, method=Method(use=use), can_fetch=True)


@pytest.mark.parametrize(
    ("values", "changes", "message"),
    [
        ({"method": "hyde"}, {"model": None}, "rewriter hyde: it needs a language model"),
        ({"method": "search-o1"}, {}, "rewriter search-o1: it needs a tool, `agent: {retriever: bm25}`"),
        (AGENT, {"model": None}, "rewriter search-o1: it needs a language model"),
        ({"method": "hyde"}, {"prompt": None, "method": Method(use="joined", needs_candidates=True)}, "no place"),
    ],
)
def test_what_a_method_lacks_is_an_error(values: dict[str, Any], changes: dict[str, Any], message: str) -> None:
    changes = changes | ({"prompt": PromptTask(names=("x",))} if "prompt" in changes else {})
    with pytest.raises(ConfigError, match=message):
        build(values, **changes)
