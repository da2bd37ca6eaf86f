import json
from pathlib import Path
from typing import Any

import pytest

from r2med_ray.errors import ConfigError, DataError, StageError
from r2med_ray.models.catalog.llm_rows import ChatCallPolicy, LanguageModelRow
from r2med_ray.models.services.chat import ChatModel
from r2med_ray.protocols import Completion
from r2med_ray.rewriting.generations import StoredGenerator
from r2med_ray.rewriting.live import LiveRewriter
from r2med_ray.rewriting.replay import ReplayRewriter
from r2med_ray.settings.config import RewriterConfig
from r2med_ray.settings.templates import Template
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Expansion, Query
from tests.fakes import ScriptedGenerator
from tests.http_services import Answer, Reply, Request, Service, completions, refuse

QUERIES = (Query(query_id="7", text="acute pain"), Query(query_id="8", text="chronic pain"))
PROMPT = Template(version="1", text="Write: {query}")
LAMER = Template(version="1", text="Correct{candidates}\nfor {query}")


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(str(tmp_path / "store"))


def config(**values: Any) -> RewriterConfig:
    return RewriterConfig.model_validate({"method": "hyde", "llm": "m"} | values)


def said(text: str, *, finish_reason: str = "stop", reasoning: str = "") -> Completion:
    return Completion(text=text, reasoning=reasoning, finish_reason=finish_reason)


def live(
    store: ArtifactStore,
    first: str | Completion = "injury",
    second: str | Completion = "nerves",
    *,
    answer_format: str = "plain",
    compat: Any = "none",
    **values: Any,
) -> LiveRewriter:
    model = ScriptedGenerator({"Write: acute pain": first, "Write: chronic pain": second})
    return LiveRewriter(
        config(**values), StoredGenerator(model, store), PROMPT, answer_format=answer_format, compat=compat
    )


def chat_model(service: Service) -> ChatModel:
    calls = ChatCallPolicy(max_in_flight=4, timeout_s=5, attempts=2, base_wait_s=0.01, max_wait_s=0.02)
    return ChatModel(LanguageModelRow(name="m", kind="openai", model="org/m", calls=calls), base_url=service.url)


def served(store: ArtifactStore, service: Service, **values: Any) -> LiveRewriter:
    generator = StoredGenerator(chat_model(service), store)
    return LiveRewriter(config(**values), generator, PROMPT, answer_format="plain")


def lamer(store: ArtifactStore, service: Service, found: dict[str, list[str]], **first_stage: Any) -> LiveRewriter:
    values = config(method="lamer", candidates={"retriever": "bm25", "depth": 2, "words": 64} | first_stage)
    generator = StoredGenerator(chat_model(service), store)
    return LiveRewriter(values, generator, LAMER, answer_format="plain", find_candidates=lambda queries: found)


def told(request: Request) -> str:
    return str(request.body["messages"][-1]["content"])


def test_every_query_gets_the_text_that_was_written_for_it(store: ArtifactStore) -> None:
    rewriting = live(store).rewrite(QUERIES)

    assert [query.text for query in rewriting.queries] == ["acute pain", "chronic pain"]
    assert rewriting.queries[0].expansions == (Expansion(text="injury", method="hyde"),)
    assert rewriting.queries[1].expansions == (Expansion(text="nerves", method="hyde"),)
    assert rewriting.flagged == {}


@pytest.mark.parametrize(("method", "like"), [("reason", "hyde"), ("keywords", "query2doc"), ("hyde", "hyde")])
def test_a_method_of_ours_is_used_like_a_published_one(store: ArtifactStore, method: str, like: str) -> None:
    assert live(store, method=method).rewrite(QUERIES).queries[0].expansions[0].method == like


@pytest.mark.parametrize(
    ("completion", "text", "flag"),
    [
        (said("<think>a</think>b"), "b", None),
        (said("a</think>b"), "b", None),
        (said("<think>a", finish_reason="length"), None, "cut at limit"),
        (said("b"), "b", "no closing tag"),
        (said("<think>a</think> \n"), None, "empty"),
        (said("", reasoning="a"), None, "no closing tag"),
        (said("", reasoning="a", finish_reason="length"), None, "cut at limit"),
        (said("b", reasoning="a"), "b", None),
        (said("b", reasoning="a", finish_reason="length"), "b", "cut at limit"),
        (said("I'm sorry, but I can't assist with that.", reasoning="a"), None, "refusal"),
        (said("so far", reasoning="a", finish_reason="content_filter"), None, "refusal"),
    ],
)
def test_lm01_lm03_how_a_text_ended_decides_about_it(
    store: ArtifactStore, completion: Completion, text: str | None, flag: str | None
) -> None:
    rewriter = live(store, completion, "</think>nerves", answer_format="think", max_unusable=0.5)

    rewriting = rewriter.rewrite(QUERIES)

    expansions = () if text is None else (Expansion(text=text, method="hyde", reasoning=True),)
    assert rewriting.queries[0].expansions == expansions
    assert rewriting.flagged == ({flag: ("7",)} if flag else {})
    assert rewriting.unchanged == (() if text else ("7",))


def test_lm03_too_many_unusable_texts_fail_and_are_named(store: ArtifactStore) -> None:
    # 1 of 2 is 0.5: allowed at 0.5, above 0.4
    live(store, " ", max_unusable=0.5).rewrite(QUERIES)
    with pytest.raises(
        DataError, match=r"rewriter hyde/m: 1 of 2 queries have no usable text \(empty: 1\), 40% may: 7"
    ):
        live(store, " ", max_unusable=0.4).rewrite(QUERIES)


def test_r06_compat_uses_every_text(store: ArtifactStore) -> None:
    rewriting = live(store, said("<think>so"), "", answer_format="think", compat="r2med").rewrite(QUERIES)

    assert [query.expansions[0].text for query in rewriting.queries] == ["<think>so", ""]
    assert rewriting.flagged == {"no closing tag": ("7",), "empty": ("8",)}


def test_lm07_samples_have_seeds_of_their_own(store: ArtifactStore) -> None:
    with Service(lambda request: completions(lambda prompt: f"text {request.body['seed']}")(request)) as service:
        rewriting = served(store, service, samples=3, seed=5).rewrite(QUERIES)

        # 2 queries × seeds 5, 6, 7
        assert sorted(request.body["seed"] for request in service.requests) == [5, 5, 6, 6, 7, 7]
        assert [part.text for part in rewriting.queries[1].expansions] == ["text 5", "text 6", "text 7"]
        served(store, service, samples=2, seed=6).rewrite(QUERIES)
        assert len(service.requests) == 6


def test_a_query_keeps_the_usable_ones_of_its_samples(store: ArtifactStore) -> None:
    def blank_at_first(request: Request) -> Reply:
        return completions(lambda prompt: "b" if request.body["seed"] == 44 else " ")(request)

    with Service(blank_at_first) as service:
        rewriting = served(store, service, samples=3).rewrite(QUERIES)

    assert [part.text for part in rewriting.queries[0].expansions] == ["b"]
    assert rewriting.flagged == {"empty": ("7", "8")}


def test_a_failing_query_is_named_and_resuming_asks_only_for_it(store: ArtifactStore) -> None:
    queries = [*QUERIES, *(Query(query_id=str(number), text=f"pain {number}") for number in range(20, 26))]
    write = completions(str.upper)

    def fails(request: Request) -> Reply:
        return (refuse(500, "down") if "chronic" in told(request) else write)(request)

    with Service(fails) as service, pytest.raises(StageError, match="query '8', after 2 attempts"):
        served(store, service).rewrite(queries)
    with Service(write) as service:
        rewriter = served(store, service)
        left = rewriter.unfinished(queries)
        rewriting = rewriter.rewrite(list(reversed(queries)))

        # what was begun beside query 8 was kept, what was not begun is asked for now
        assert 1 <= left == len(service.requests) < len(queries)
        assert "Write: chronic pain" in [told(request) for request in service.requests]
        assert rewriter.unfinished(queries) == 0
    assert rewriting.queries[-2].expansions[0].text == "WRITE: CHRONIC PAIN"


def test_lamer_shows_the_best_candidates(store: ArtifactStore) -> None:
    with Service(completions(str.upper)) as service:
        rewriting = lamer(store, service, {"7": ["one two", "three", "four"], "8": []}).rewrite(QUERIES)
        prompts = {told(request) for request in service.requests}

    assert prompts == {"Correct\n[1]. one two\n[2]. three\nfor acute pain", "Correct\nfor chronic pain"}
    assert rewriting.queries[0].expansions[0].method == "lamer"


def longer_than(words: int) -> Answer:
    too_long = refuse(400, "This model's maximum context length is 64 tokens.")
    return lambda request: (too_long if len(told(request).split()) > words else completions(str.upper))(request)


LONG = {"7": [" ".join(["x"] * 90)], "8": ["x"]}


def test_candidates_are_halved_until_they_fit_where_that_is_allowed(store: ArtifactStore) -> None:
    with Service(longer_than(25)) as service:
        rewriting = lamer(store, service, LONG, too_long="halve").rewrite(QUERIES)

        # "Correct", "[1].", "for acute pain" are 5 words; with 64, 32 and then 16 words of the candidate 69, 37, 21
        assert sorted(len(told(request).split()) for request in service.requests) == [6, 21, 37, 69]
    assert rewriting.queries[0].expansions[0].text.count("X") == 16
    assert rewriting.flagged == {"candidates shortened": ("7",)}


def test_a_prompt_that_is_too_long_is_an_error_otherwise(store: ArtifactStore) -> None:
    with (
        Service(longer_than(25)) as service,
        pytest.raises(StageError, match=r"query '7', whose prompt of 69 words is too long"),
    ):
        lamer(store, service, LONG).rewrite(QUERIES)


def test_a_first_search_without_an_answer_for_a_query_is_an_error(store: ArtifactStore) -> None:
    with Service(completions(str.upper)) as service, pytest.raises(DataError, match="no answer for query '9'"):
        lamer(store, service, {}).rewrite([Query(query_id="9", text="x")])


def test_a_query_is_put_in_as_it_is(store: ArtifactStore) -> None:
    text = "{TEXT} {query} {0.__class__} {candidates} %s </s>"
    with Service(completions(str.upper)) as service:
        served(store, service).rewrite([Query(query_id="7", text=text)])

        assert told(service.requests[0]) == f"Write: {text}"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"method": "lamer"}, "rewriter lamer: it needs `candidates"),
        ({"candidates": {"retriever": "bm25"}}, "rewriter hyde: it has no use for `candidates"),
        ({"samples": 2, "compat": "r2med"}, "samples 2; the published protocol knows one"),
        ({"method": "hide"}, "Did you mean 'hyde'"),
        ({"answer_format": "thinks"}, "unknown answer format 'thinks'. Did you mean 'think'"),
    ],
)
def test_settings_that_do_not_fit_are_refused(store: ArtifactStore, values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        live(store, **values)


def test_inputs_change_with_everything_that_changes_the_expansions(store: ArtifactStore) -> None:
    base = live(store).inputs()
    others = [
        live(store, method="reason").inputs(),
        live(store, samples=2).inputs(),
        live(store, seed=1).inputs(),
        live(store, compat="r2med").inputs(),
        LiveRewriter(config(), StoredGenerator(ScriptedGenerator({}), store), LAMER, answer_format="plain").inputs(),
    ]

    assert live(store, max_unusable=0.3).inputs() == base
    assert len({json.dumps(one, sort_keys=True) for one in [base, *others]}) == 6


@pytest.mark.parametrize("first", [said("b", reasoning="a"), said("", reasoning="a", finish_reason="length")])
def test_an_exported_file_replays_to_the_same_expansions(
    store: ArtifactStore, tmp_path: Path, first: Completion
) -> None:
    rewriter = live(store, first, "</think>c\u2028d", answer_format="think", llm="qwq-32b", max_unusable=1.0)

    path = rewriter.export(QUERIES, tmp_path)

    assert path == tmp_path / "hyde" / "qwq-32b" / "query_with_hydoc.jsonl"
    replayed = ReplayRewriter(
        RewriterConfig(method="hyde", generations="qwq-32b", max_unusable=1.0), folder=tmp_path
    ).rewrite(QUERIES)
    assert replayed == rewriter.rewrite(QUERIES)
