import pytest

from r2med_ray.rewriting.answers import FORMATS, joined, read_answer
from r2med_ray.settings.compat import Rules

THINKER = "r1-qwen-32b"


@pytest.mark.parametrize(
    ("raw", "finish_reason", "text", "flag"),
    [
        ("<think>a", "length", "", "cut at limit"),
        ("<think>a", None, "", "no closing tag"),
        ("<think>a", "stop", "", "no closing tag"),
        ("a</think>b", None, "b", "none"),
        ("<think>a</think>b", "stop", "b", "none"),
        ("<think>\nline\nline\n</think>\n\nb", None, "b", "none"),
        ("<think></think>b", None, "b", "none"),
        ("b", "stop", "b", "no closing tag"),
        ("a", "length", "", "cut at limit"),
        ("a", None, "", "no closing tag"),
        ("<think>a</think>b", "length", "b", "cut at limit"),
        ("<think>a</think>b</think>c", None, "b</think>c", "none"),
    ],
)
def test_lm01_marker_and_finish_reason_decide_what_is_the_answer(raw, finish_reason, text, flag):
    answer = read_answer(raw, THINKER, finish_reason=finish_reason)

    assert (answer.text, answer.flag) == (text, flag)


@pytest.mark.parametrize(
    ("raw", "finish_reason", "text", "flag"),
    [
        ("b", None, "b", "none"),
        ("b", "length", "b", "cut at limit"),
        ("<think>a</think>b", None, "b", "none"),
        ("<think>a", None, "", "no closing tag"),
    ],
)
def test_lm01_a_plain_writer_that_thinks_all_the_same_is_understood(raw, finish_reason, text, flag):
    answer = read_answer(raw, "my-own-model", finish_reason=finish_reason)

    assert (answer.text, answer.flag) == (text, flag)


@pytest.mark.parametrize("writer", ["qwen-7b", THINKER])
@pytest.mark.parametrize(
    ("raw", "flag"),
    [
        ("", "empty"),
        ("  \n", "empty"),
        (None, "empty"),
        ("<|im_end|>", "empty"),
        ("<think>a</think> \n</s>", "empty"),
        ("<think>a</think>I'm sorry, but I can't assist with that request.", "refusal"),
    ],
)
def test_lm03_nothing_usable_leaves_no_text(writer, raw, flag):
    answer = read_answer(raw, writer)

    assert (answer.text, answer.flag) == ("", flag)


@pytest.mark.parametrize(
    "passage",
    [
        "I am unable to find a single cause; insects that circle a lamp keep their backs to the light.",
        "I am sorry, but I cannot provide a diagnosis.\nMoths that circle a lamp keep their backs to the light.",
    ],
)
def test_a_passage_is_no_refusal(passage):
    assert read_answer(passage, "gpt4").text == passage


def test_a_stop_token_after_the_answer_is_removed():
    assert read_answer("<think>a</think> b <|im_end|>\n", THINKER).text == "b"


@pytest.mark.parametrize(
    ("writer", "raw", "text", "reasoning_text"),
    [
        ("huatuo-o1-70b", "## Thinking\n\na\n\n## Final Response\n\nb\nc", "b\nc", "a\n\n##"),
        (
            "sky-32b",
            "<|begin_of_thought|>a<|end_of_thought|> <|begin_of_solution|>\nb\n<|end_of_solution|> c",
            "b",
            "a<|end_of_thought|>",
        ),
        ("qwen-3b-ins", "<think>a</think>\n<answer> b\nc </answer> <answer>d</answer>", "b\nc", "a</think>"),
        ("qwen3_32b", "<think>a</think>b", "b", "a"),
        ("gpt-oss-20b", "<|channel|>analysis<|message|>a<|channel|>final<|message|>b", "b", "a"),
    ],
)
@pytest.mark.parametrize("compat", ["none", "r2med"])
def test_each_family_has_its_marker(compat, writer, raw, text, reasoning_text):
    answer = read_answer(raw, writer, rules=Rules.of(compat))

    assert (answer.text, answer.reasoning_text, answer.flag) == (text, reasoning_text, "none")


def test_an_answer_that_was_opened_and_not_closed_is_kept_and_flagged():
    answer = read_answer("<|begin_of_thought|>a<|end_of_thought|><|begin_of_solution|> b", "sky-32b")

    assert (answer.text, answer.flag) == ("b", "no closing tag")


@pytest.mark.parametrize("name", [*FORMATS])
def test_what_a_server_took_apart_is_joined_and_cut_again(name):
    form = FORMATS[name]

    whole = read_answer(joined("a", "b", form), form, finish_reason="stop")
    assert (whole.text, whole.reasoning_text, whole.flag) == ("b", "a", "none")
    cut = read_answer(joined("a", "", form), form, finish_reason="length")
    assert (cut.text, cut.reasoning_text, cut.flag) == ("", "a", "cut at limit")
    unended = read_answer(joined("a", "", form), form, finish_reason="stop")
    assert (unended.text, unended.flag) == ("", "no closing tag")


def test_a_server_that_takes_nothing_apart_changes_nothing():
    assert joined("", "<think>a</think>b", FORMATS["think"]) == "<think>a</think>b"


@pytest.mark.parametrize(
    ("name", "said", "flag"),
    [
        ("answer-tag", "<answer>Measles.</answer>", "none"),
        ("answer-tag", "So I answer. <answer>Measles.</answer>", "none"),
        ("answer-tag", "<answer>Measles.", "no closing tag"),
        ("solution", "<|begin_of_solution|>Measles.<|end_of_solution|>", "none"),
        ("think", "Measles.", "none"),
    ],
)
def test_marks_that_a_server_left_are_not_put_in_again(name, said, flag):
    form = FORMATS[name]

    answer = read_answer(joined("hm", said, form), form, finish_reason="stop")

    assert (answer.text, answer.flag) == ("Measles.", flag)


@pytest.mark.parametrize(("name", "end"), [("answer-tag", "</think>"), ("think", "</think>")])
def test_a_request_that_a_server_took_from_its_reasoning_gets_no_marks_of_an_answer(name, end):
    assert joined("hm", "<search>a", FORMATS[name], is_answer=False) == f"<think>hm{end}<search>a"


@pytest.mark.parametrize(
    ("name", "text", "is_open", "has_ended"),
    [
        ("think", "", False, False),
        ("think", "a", False, False),
        ("think", "<think>a", True, False),
        ("think", "<think>a</think>b", False, True),
        ("think", "a</think><think>b", True, True),
        ("answer-tag", "<think>a</think>", False, True),
        ("answer-tag", "<think>a<answer>b", False, True),
        ("solution", "<|begin_of_thought|>a<|end_of_thought|>", False, True),
        ("final-response", "## Thinking a\n## Final Response b", False, True),
    ],
)
def test_a_thought_is_open_from_its_start_to_its_end(name, text, is_open, has_ended):
    form = FORMATS[name]

    assert (form.has_open_thought(text), form.has_ended_thought(text)) == (is_open, has_ended)


def test_what_a_filter_stopped_is_a_refusal():
    answer = read_answer("Moths circle", "gpt4", finish_reason="content_filter")

    assert (answer.text, answer.flag) == ("", "refusal")


def test_half_a_character_becomes_the_replacement_character() -> None:
    assert read_answer("rash \ud83d", "qwen-7b", finish_reason="stop").text == "rash \ufffd"


@pytest.mark.parametrize(
    ("rules", "texts"),
    [
        # the texts are reasoning without a marker, a plain writer's thoughts, and a refusal
        (Rules(), ["", "b", ""]),
        (Rules(missing_marker=True), ["<think>a", "<think>a</think>b", ""]),
        (Rules(unusable_texts=True), ["", "b", "I cannot assist with that."]),
    ],
)
def test_missing_markers_and_unusable_texts_are_two_differences(rules, texts):
    raw = [("<think>a", THINKER), ("<think>a</think>b", "gpt4"), ("I cannot assist with that.", "gpt4")]

    assert [read_answer(text, writer, rules=rules).text for text, writer in raw] == texts
