from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from r2med_ray.chat import Completion
from r2med_ray.cuts import Cuts
from r2med_ray.demands import Ask, Demand, Find, Read
from r2med_ray.errors import ConfigError, DataError, StageError
from r2med_ray.rewriting.answers import FORMATS
from r2med_ray.rewriting.exporting import write_generations, written_rows
from r2med_ray.rewriting.live import LiveRewriter
from r2med_ray.rewriting.methods import METHODS, Method
from r2med_ray.rewriting.replay import ReplayRewriter
from r2med_ray.settings.compat import Rules
from r2med_ray.settings.rewriter import RewriterConfig
from r2med_ray.settings.templates import Template
from r2med_ray.types import Expansion, Query, Rewriting, Run
from tests.fakes import ScriptedGenerator, answer
from tests.unit.rewriting_parts import TOOL, Model, finding, said, task, told, with_room, writing

QUERIES = (Query(query_id="7", text="acute pain"), Query(query_id="8", text="chronic pain"))
PROMPT = Template(version="1", text="Write: {query}")
LAMER = Template(version="1", text="Correct{candidates}\nfor {query}")
PUBLISHED = Rules.of("r2med")


def config(**values: Any) -> RewriterConfig:
    return RewriterConfig.model_validate({"method": "hyde", "llm": "m"} | values)


def live(
    *,
    answer_format: str = "plain",
    rules: Rules | None = None,
    prompt: Template = PROMPT,
    row: Method | None = None,
    **values: Any,
) -> LiveRewriter:
    settings = config(**values)
    return LiveRewriter(
        settings,
        task=task(),
        method=row or METHODS[settings.method],
        model=Model(answer_format=answer_format),
        prompt=prompt,
        tool=TOOL if settings.candidates else None,
        rules=rules or Rules(),
    )


def rewritten(rewriter: LiveRewriter, *texts: str | Completion) -> Rewriting:
    """Have the given texts written for the two queries, in order. The default texts are `injury` and `nerves`."""
    first, second, *_ = (*texts, *("injury", "nerves")[len(texts) :])
    model = ScriptedGenerator({"Write: acute pain": first, "Write: chronic pain": second})
    rewriting, _ = answer(rewriter.rewrite(QUERIES), {Ask: lambda ask: model.generate(ask.prompts)})
    return rewriting


def lamer(max_unusable: float = 0.05, **first_stage: Any) -> LiveRewriter:
    candidates = {"retriever": "bm25", "depth": 2, "words": 64} | first_stage
    return live(method="lamer", prompt=LAMER, candidates=candidates, max_unusable=max_unusable)


def corrected(
    rewriter: LiveRewriter,
    found: Mapping[str, Sequence[str]],
    room: int = 10_000,
) -> tuple[Rewriting, list[Demand]]:
    answers = finding(lambda query: found[query.query_id]) | writing(with_room(room))
    return answer(rewriter.rewrite(QUERIES), answers)


def test_every_query_gets_the_text_that_was_written_for_it() -> None:
    rewriting = rewritten(live())

    assert [query.text for query in rewriting.queries] == ["acute pain", "chronic pain"]
    assert rewriting.queries[0].expansions == (Expansion(text="injury", method="hyde"),)
    assert rewriting.queries[1].expansions == (Expansion(text="nerves", method="hyde"),)
    assert rewriting.flagged == {}


@pytest.mark.parametrize(
    ("method", "like", "use"),
    [("reason", "hyde", "averaged"), ("keywords", "query2doc", "joined"), ("hyde", "hyde", "averaged")],
)
def test_a_method_of_ours_is_used_like_a_published_one(method: str, like: str, use: str) -> None:
    expansion = rewritten(live(method=method)).queries[0].expansions[0]

    assert (expansion.method, expansion.use) == (like, use)


def test_a_method_of_a_users_own_has_its_own_use() -> None:
    row = Method(use="replaces")

    [expansion] = rewritten(live(method="plain-words", row=row)).queries[0].expansions

    assert expansion == Expansion(text="injury", method="plain-words", use="replaces")


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
    completion: Completion, text: str | None, flag: str | None
) -> None:
    rewriting = rewritten(live(answer_format="think", max_unusable=0.5), completion, "</think>nerves")

    expansions = () if text is None else (Expansion(text=text, method="hyde", reasoning=True),)
    assert rewriting.queries[0].expansions == expansions
    assert rewriting.flagged == ({flag: ("7",)} if flag else {})
    assert rewriting.unchanged == (() if text else ("7",))


def test_lm03_too_many_unusable_texts_fail_and_are_named() -> None:
    # 1 of 2 is 0.5, which 0.5 allows and 0.4 doesn't
    rewritten(live(max_unusable=0.5), " ")
    with pytest.raises(
        DataError,
        match=r"Biology: rewriter hyde/m: 1 of 2 queries have .* \(empty: 1\); at most 40% are allowed: 7",
    ):
        rewritten(live(max_unusable=0.4), " ")


def test_r06_compat_uses_every_text() -> None:
    rewriting = rewritten(live(answer_format="think", rules=PUBLISHED), said("<think>so"), "")

    assert [query.expansions[0].text for query in rewriting.queries] == ["<think>so", ""]
    assert rewriting.flagged == {"no closing tag": ("7",), "empty": ("8",)}


def test_lm07_samples_have_seeds_of_their_own() -> None:
    rewriting, [ask] = answer(live(samples=3, seed=5).rewrite(QUERIES), writing(lambda prompt: f"text {prompt.seed}"))

    # 2 queries × seeds 5, 6, 7
    assert isinstance(ask, Ask)
    assert [prompt.seed for prompt in ask.prompts] == [5, 6, 7, 5, 6, 7]
    assert [part.text for part in rewriting.queries[1].expansions] == ["text 5", "text 6", "text 7"]
    others = live(samples=2, seed=6).prompts(QUERIES, {})
    assert {(told(prompt), prompt.seed) for prompt in others} <= {(told(item), item.seed) for item in ask.prompts}


def test_a_query_keeps_the_usable_ones_of_its_samples() -> None:
    write = writing(lambda prompt: "b" if prompt.seed == 44 else " ")
    rewriting, _ = answer(live(samples=3).rewrite(QUERIES), write)

    assert [part.text for part in rewriting.queries[0].expansions] == ["b"]
    assert rewriting.flagged == {"empty": ("7", "8")}


def test_each_prompt_names_its_task_query_and_sample() -> None:
    assert [prompt.unit for prompt in live().prompts(QUERIES, {})] == ["query '7'", "query '8'"]
    assert [prompt.unit for prompt in live(samples=2).prompts(QUERIES[:1], {})] == [
        "query '7', sample 0",
        "query '7', sample 1",
    ]


def test_a_model_that_fails_ends_the_rewriting_with_its_error() -> None:
    def fail(ask: Ask) -> list[Completion]:
        raise StageError("generate with m", ask.prompts[1].unit, "down")

    with pytest.raises(StageError, match="generate with m failed on query '8': down"):
        answer(live().rewrite(QUERIES), {Ask: fail})


def test_lamer_shows_the_best_candidates() -> None:
    rewriting, [find, read, ask] = corrected(lamer(), {"7": ["one two", "three", "four"], "8": []})

    assert find == Find(task=task(), first_stage=TOOL, queries=QUERIES, k=2)
    assert read == Read(task=task(), doc_ids=frozenset({"7: document 0", "7: document 1"}))
    assert isinstance(ask, Ask)
    assert [told(prompt) for prompt in ask.prompts] == [
        "Correct\n[1]. one two\n[2]. three\nfor acute pain",
        "Correct\nfor chronic pain",
    ]
    assert rewriting.queries[0].expansions[0].method == "lamer"


def test_nothing_is_read_where_a_first_search_finds_nothing() -> None:
    _, demands = corrected(lamer(), {"7": [], "8": []})

    assert [type(demand) for demand in demands] == [Find, Ask]


LONG = {"7": [" ".join(["x"] * 90)], "8": ["x"]}


def test_candidates_are_halved_until_they_fit_where_that_is_allowed() -> None:
    rewriting, [_, _, ask] = corrected(lamer(too_long="halve"), LONG, room=25)

    # "Correct", "[1].", "for acute pain" are 5 words. With 64, 32 and 16 words of the candidate they are 69, 37 and
    # 21.
    assert isinstance(ask, Ask)
    versions = (ask.prompts[0].messages, *ask.prompts[0].shorter)
    assert [len(messages[-1]["content"].split()) for messages in versions] == [69, 37, 21]
    assert rewriting.queries[0].expansions[0].text.count("X") == 16
    assert rewriting.flagged == {"candidates shortened": ("7",)}


def test_words_that_a_model_is_not_shown_of_a_candidate_are_counted_for_each_answered_prompt() -> None:
    # The candidate of query 7 has 90 words, of which 16 fit; that of query 8 has 1. Both queries have 2 words.
    halved, _ = corrected(lamer(too_long="halve"), LONG, room=25)
    # Without room for query 7, only the prompt of query 8 is answered.
    alone, _ = corrected(lamer(max_unusable=0.5), LONG, room=25)

    assert halved.cuts == {
        "query": Cuts(texts=2, tokens=4, unit="words"),
        "document": Cuts(texts=2, cut=1, tokens=91, lost=74, lengths=(16, 64), unit="words"),
    }
    assert alone.cuts == {
        "query": Cuts(texts=1, tokens=2, unit="words"),
        "document": Cuts(texts=1, tokens=1, lengths=(64,), unit="words"),
    }
    assert rewritten(live()).cuts is None


def test_a_prompt_without_room_leaves_its_query_as_it_was_and_is_counted() -> None:
    rewriting, _ = corrected(lamer(max_unusable=0.5), LONG, room=25)

    assert rewriting.queries[0] == QUERIES[0]
    assert len(rewriting.queries[1].expansions) == 1
    assert (rewriting.flagged, rewriting.unchanged) == ({"context limit": ("7",)}, ("7",))


@pytest.mark.parametrize("rules", [Rules(), PUBLISHED])
def test_too_many_prompts_without_room_are_an_error_whatever_the_rules(rules: Rules) -> None:
    with pytest.raises(
        DataError, match=r"\(context limit: 1\); at most 5% are allowed: 7\. .* a language model with more room"
    ):
        answer(live(rules=rules).rewrite(QUERIES), writing(lambda prompt: None if "acute" in told(prompt) else "b"))


def test_one_sample_without_room_leaves_the_others() -> None:
    write = writing(lambda prompt: None if prompt.seed == 42 else "b")
    rewriting, _ = answer(live(samples=2).rewrite(QUERIES), write)

    assert [part.text for part in rewriting.queries[0].expansions] == ["b"]
    assert (rewriting.flagged, rewriting.unchanged) == ({"context limit": ("7", "8")}, ())


def test_a_first_search_without_an_answer_for_a_query_is_an_error() -> None:
    answers = {Find: lambda find: Run(tag="found", rankings={})}

    with pytest.raises(DataError, match="no answer for query '9'"):
        answer(lamer().rewrite([Query(query_id="9", text="x")]), answers)


def test_a_query_is_put_in_as_it_is() -> None:
    text = "{TEXT} {query} {0.__class__} {candidates} %s </s>"

    [prompt] = live().prompts([Query(query_id="7", text=text)], {})

    assert told(prompt) == f"Write: {text}"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"method": "lamer"}, "rewriter lamer: it needs `candidates"),
        ({"candidates": {"retriever": "bm25"}}, "rewriter hyde: it has no use for `candidates"),
        ({"agent": {"retriever": "bm25"}}, "rewriter hyde: leave out `agent`"),
        ({"samples": 2, "rules": PUBLISHED}, "samples 2; the published protocol knows one"),
        ({"method": "hide"}, "Did you mean 'hyde'"),
        ({"answer_format": "thinks"}, "unknown answer format 'thinks'. Did you mean 'think'"),
    ],
)
def test_settings_that_do_not_fit_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        live(**values)


def test_prompts_change_with_everything_that_changes_a_text_and_with_nothing_else() -> None:
    def asked(rewriter: LiveRewriter) -> frozenset[tuple[str, int]]:
        return frozenset((told(prompt), prompt.seed) for prompt in rewriter.prompts(QUERIES, {}))

    base = asked(live())
    others = [asked(live(samples=2)), asked(live(seed=1)), asked(live(prompt=Template(version="1", text="{query}")))]

    assert asked(live(max_unusable=0.3, rules=PUBLISHED, method="reason")) == base
    assert len({base, *others}) == 4


@pytest.mark.parametrize("first", [said("b", reasoning="a"), said("", reasoning="a", finish_reason="length")])
def test_an_exported_file_replays_to_the_same_expansions(tmp_path: Path, first: Completion) -> None:
    rewriter = live(answer_format="think", llm="qwq-32b", max_unusable=1.0)
    texts = {"Write: acute pain": first, "Write: chronic pain": said("</think>c\u2028d")}
    written, _ = answer(rewriter.write(QUERIES), writing(lambda prompt: texts[told(prompt)]))
    rows = written_rows(QUERIES, {query_id: item[0] for query_id, item in written.items()}, FORMATS["think"])

    path = write_generations(rows, tmp_path, "hyde/qwq-32b")

    assert path == tmp_path / "hyde" / "qwq-32b" / "query_with_hydoc.jsonl"
    replayed = ReplayRewriter(
        RewriterConfig(method="hyde", generations="qwq-32b", max_unusable=1.0),
        task=task(tmp_path),
        method=METHODS["hyde"],
        rules=Rules(),
    )
    rewriting, _ = answer(rewriter.rewrite(QUERIES), writing(lambda prompt: texts[told(prompt)]))
    assert answer(replayed.rewrite(QUERIES), {})[0] == rewriting


def test_a_prompt_without_room_is_exported_without_a_text() -> None:
    [row] = written_rows(QUERIES[:1], {"7": None}, FORMATS["plain"])

    assert row == {"id": "7", "text": "acute pain", "hy_doc": None, "finish_reason": None}
