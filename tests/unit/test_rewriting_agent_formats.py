import pytest

from r2med_ray.rewriting.agents.formats import AGENTS
from r2med_ray.rewriting.answers import FORMATS
from r2med_ray.settings.compat import Rules
from r2med_ray.types import Compat

R1 = AGENTS["search-r1"]
O1 = AGENTS["search-o1"]
THINK = FORMATS["think"]


@pytest.mark.parametrize(
    ("text", "finish_reason", "asked"),
    [
        pytest.param("<search> rash", "stop", ("<search> rash</search>", "rash"), id="ended by the stop string"),
        pytest.param("<search>rash</search>", "stop", ("<search>rash</search>", "rash"), id="ended by itself"),
        pytest.param(
            "<search> rash", "eos", ("<search> rash</search>", "rash"), id="ended, in another service's word"
        ),
        pytest.param("<search>rash</search>", "length", ("<search>rash</search>", "rash"), id="ended before a limit"),
        pytest.param("<search>ra", "length", None, id="cut"),
        pytest.param("<search>a</search>b</search>", "stop", ("<search>a</search>", "a"), id="made up behind it"),
        pytest.param(
            "<think>no <search> yet</think><search>rash",
            "stop",
            ("<think>no <search> yet</think><search>rash</search>", "rash"),
            id="mentioned before it",
        ),
        pytest.param("<think>no <search> here</think>b", "stop", None, id="mentioned in a thought"),
        pytest.param("<answer>no <search> here</answer>", "stop", None, id="mentioned in an answer"),
        pytest.param("<search>rash <information>lupus", "stop", None, id="a result made up in it"),
        pytest.param("rash</search>", "stop", None, id="not begun"),
        pytest.param("rash", "stop", None, id="none"),
        pytest.param("<answer>b</answer><search>rash", "stop", None, id="after an answer"),
        pytest.param("<answer>b</answer><search>rash</search><answer>c</answer>", "stop", None, id="after the first"),
        pytest.param(
            "<think>a</think><answer>b</answer> <think>c</think><search>rash", "stop", None, id="thoughts later"
        ),
        pytest.param(
            "<answer> </answer><search>rash",
            "stop",
            ("<answer> </answer><search>rash</search>", "rash"),
            id="after an empty answer",
        ),
        pytest.param(
            "<answer>b<search>rash",
            "stop",
            ("<answer>b<search>rash</search>", "rash"),
            id="in an answer that stays open",
        ),
        pytest.param(
            "<think>in <answer> and </answer>. First <search>rash",
            "stop",
            ("<think>in <answer> and </answer>. First <search>rash</search>", "rash"),
            id="after an answer that is only thought of",
        ),
        pytest.param(
            "in <answer> and </answer></think><search>rash",
            "stop",
            ("in <answer> and </answer></think><search>rash</search>", "rash"),
            id="after thoughts that the template opened",
        ),
        pytest.param(
            "I may write <answer>A</answer></thinking><search>q</search>",
            "stop",
            ("I may write <answer>A</answer></thinking><search>q</search>", "q"),
            id="after thoughts that end in another spelling",
        ),
        pytest.param(
            "<THINK>as <answer>A</answer></THINK><search>q",
            "stop",
            ("<THINK>as <answer>A</answer></THINK><search>q</search>", "q"),
            id="after thoughts in upper case",
        ),
        pytest.param(
            "<answer>b</answer> <thinking>c</thinking><search>q",
            "stop",
            None,
            id="thoughts later, in another spelling",
        ),
        pytest.param("<search>q </Thinking> lupus", "stop", None, id="thoughts that end after a mention"),
    ],
)
def test_a_request_is_what_a_text_ended_in(text: str, finish_reason: str, asked: tuple[str, str] | None) -> None:
    assert R1.request_in(text, THINK, finish_reason=finish_reason) == asked


@pytest.mark.parametrize("model", ["think", "answer-tag", "plain", "final-response"])
@pytest.mark.parametrize(
    ("text", "answer", "flag"),
    [
        ("<think>a</think><answer>b</answer>", "b", "none"),
        # The first whole tag decides, as for requests and for models without an agent: a tag that did not end the
        # conversation for a request can't be overruled by text that follows it.
        ("<answer>a</answer> no, <answer>b</answer>", "a", "none"),
        ("<answer>A</answer><answer>B</answer>", "A", "none"),
        ("<answer> </answer><answer>B</answer>", "B", "none"),
        ("<answer>a no, <answer>b</answer>", "b", "none"),
        ("<answer>b</answer> as <answer> says", "b", "none"),
        ("<think>the <answer> tag</think><answer>b</answer>", "b", "none"),
        ("<answer>b", "b", "no closing tag"),
        ("</answer><answer>b", "b", "no closing tag"),
        ("<answer>a no, <answer>b", "b", "no closing tag"),
        ("<answer> </answer>", "", "empty"),
        ("<answer>b</answer><search>rash", "b", "none"),
        ("<answer>b</answer> <search>rash</search><answer>c</answer>", "b", "none"),
        ("<answer>a</answer> no, <answer>b</answer><search>rash", "a", "none"),
    ],
)
def test_search_r1_answers_in_its_first_whole_tag_whatever_the_model(
    model: str, text: str, answer: str, flag: str
) -> None:
    read = R1.answer_in(text, FORMATS[model], finish_reason="stop")

    assert (read.text, read.flag) == (answer, flag)


@pytest.mark.parametrize("model", ["think", "answer-tag", "plain"])
@pytest.mark.parametrize(
    ("text", "answer", "flag"),
    [
        ("<think>or <answer>A</answer></think><answer>B</answer>", "B", "none"),
        ("or <answer>A</answer></thinking><answer>B</answer><answer>C</answer>", "B", "none"),
        ("<THINK>or <answer>A</answer></THINK><answer>B", "B", "no closing tag"),
    ],
)
def test_an_answer_in_thoughts_is_not_given_however_the_thoughts_are_marked(
    model: str, text: str, answer: str, flag: str
) -> None:
    read = R1.answer_in(text, FORMATS[model], finish_reason="stop")

    assert (read.text, read.flag) == (answer, flag)


def test_an_answer_that_is_only_thought_of_is_no_answer() -> None:
    read = R1.answer_in("or <answer>A</answer></thinking> Lupus.", THINK, finish_reason="stop")

    assert (read.text, read.flag) == ("Lupus.", "none")


@pytest.mark.parametrize("name", [*FORMATS])
def test_the_first_whole_tag_decides_whatever_the_format(name: str) -> None:
    """A format without an end mark has no whole answer before a request, so the request decides."""
    form = FORMATS[name]
    text = f"{form.thought_start}hm{form.thought_end}{form.answer_start}Measles.{form.answer_end}"
    request = f"{O1.request_start}rash"

    asked = O1.request_in(text + request, form, finish_reason="stop")

    assert asked == (None if form.answer_end else (f"{text}{request}{O1.request_end}", "rash"))


@pytest.mark.parametrize("compat", ["none", "r2med"])
@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Measles.<|begin_search_query|>rash<|end_search_query|> It is.", "Measles. It is."),
        ("<|begin_search_result|>\nlupus\n<|end_search_result|>\nMeasles.", "Measles."),
        ("Measles. <|begin_search_query|>ra", "Measles."),
        ("Measles. <|begin_search_result|>lup", "Measles."),
        ("<|end_search_result|>Measles.", "Measles."),
    ],
)
def test_no_answer_holds_requests_or_results(compat: Compat, text: str, answer: str) -> None:
    read = O1.answer_in(f"<think>hm</think>{text}", THINK, finish_reason="stop", rules=Rules.of(compat))

    assert (read.text, read.flag) == (answer, "none")


def test_an_answer_of_nothing_but_a_result_is_empty() -> None:
    read = R1.answer_in("<answer><information>lupus</information></answer>", THINK, finish_reason="stop")

    assert (read.text, read.flag) == ("", "empty")
