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


# a is reasoning, b is the answer, c is either
@pytest.mark.parametrize("writer", ["my-own-model", THINKER])
@pytest.mark.parametrize(
    ("raw", "text", "flag"),
    [
        pytest.param("<think>a<think>a</think>a</think>b", "b", "unclear marks", id="nested"),
        pytest.param("<think>a<think>a</think>b", "b", "unclear marks", id="nested, one end"),
        pytest.param("<think>a</think>c<think>a</think>b", "b", "unclear marks", id="repeated"),
        pytest.param("<think></think><think>a</think>b", "b", "unclear marks", id="an empty block first"),
        pytest.param("<think>\n\n</think>\n\nb", "b", "none", id="an empty block alone"),
        pytest.param("<think>after </think> I answer</think>b", "b", "unclear marks", id="the end talked about"),
        pytest.param("after </think> I answer</think>b", "b", "unclear marks", id="so too in reasoning begun before"),
        pytest.param("<think>a</think>c</think>", "", "unclear marks", id="an end at the end"),
        pytest.param("<think>a</think>c<think>a", "", "no closing tag", id="reasoning begun again"),
        pytest.param("c<think>a</think>b", "b", "unclear marks", id="a text first"),
        pytest.param("c<think>a", "", "no closing tag", id="a text first, reasoning cut"),
        pytest.param("<THINK>a</THINK>b", "b", "none", id="upper case"),
        pytest.param("<thinking>a</thinking>b", "b", "none", id="thinking"),
        pytest.param("<Thinking>a</think>b", "b", "none", id="two spellings"),
        pytest.param("< think >a< /think >b", "b", "none", id="blanks"),
        pytest.param("[THINK]a[/THINK]b", "b", "none", id="Magistral"),
        pytest.param("<thought>a</thought>b", "b", "none", id="thought"),
        pytest.param("<reasoning>a</reasoning>b", "b", "none", id="reasoning"),
        pytest.param("<THINKING>a", "", "no closing tag", id="upper case, cut"),
        pytest.param("<think>a</think>what one [thinks] is < b", "what one [thinks] is < b", "none", id="no marks"),
    ],
)
def test_no_reasoning_gets_through_and_what_fits_no_rule_is_flagged(
    writer: str, raw: str, text: str, flag: str
) -> None:
    answer = read_answer(raw, writer, finish_reason="stop")

    assert (answer.text, answer.flag) == (text, flag)


@pytest.mark.parametrize(
    ("writer", "raw", "text", "flag"),
    [
        ("huatuo-o1-8b", "## Thinking\na, then my Final Response\n## Final Response\nb", "b", "unclear marks"),
        ("huatuo-o1-8b", "## Thinking\na\n## Final Response\nb", "b", "none"),
        ("qwen-7b-ins", "<think>an <answer> tag</think><answer>b</answer>", "b", "none"),
        ("qwen-7b-ins", "<think>as <answer>x</answer></think><answer>b</answer>", "b", "none"),
        ("qwen-7b-ins", "<think>as <answer>x</answer></think>nothing", "", "no closing tag"),
        ("qwen-7b-ins", "<think>so I write <answer>", "", "no closing tag"),
        ("qwen-7b-ins", "<think>as <answer>x</answer> or not", "x", "unclear marks"),
        ("qwen-7b-ins", "<think>a</think><think>a</think><answer>b</answer>", "b", "unclear marks"),
        ("qwen-7b-ins", "<think>a</think><answer>c <answer>b</answer>", "b", "unclear marks"),
        ("qwen-7b-ins", "<think>a</think><answer>b</answer><think>a</think>", "b", "none"),
        ("qwen-7b-ins", "<think>a</think>b", "", "no closing tag"),
        (
            "sky-32b",
            "<|begin_of_thought|>a<|end_of_thought|>a<|end_of_thought|><|begin_of_solution|>b<|end_of_solution|>",
            "b",
            "unclear marks",
        ),
        (
            "gpt-oss-20b",
            "<|channel|>analysis<|message|>a<|channel|>analysis<|message|>a<|channel|>final<|message|>b",
            "b",
            "none",
        ),
    ],
)
def test_marks_of_other_families_are_told_from_those_that_are_talked_about(
    writer: str, raw: str, text: str, flag: str
) -> None:
    answer = read_answer(raw, writer, finish_reason="stop")

    assert (answer.text, answer.flag) == (text, flag)


@pytest.mark.parametrize(
    "raw", ["<think>a<think>a</think>b</think>c", "<think></think>b</think>c", "<think>a</think>b</think>c"]
)
def test_r06_the_published_way_splits_at_the_first_mark_and_flags_too(raw: str) -> None:
    # base.py: text.split("</think>")[1:] joined again, so the text after the first mark
    answer = read_answer(raw, THINKER, rules=Rules.of("r2med"))

    assert (answer.text, answer.flag) == ("b</think>c", "unclear marks")


@pytest.mark.parametrize(
    ("reason", "flag"),
    [
        ("stop", "none"),
        ("eos", "none"),
        ("STOP", "none"),
        (None, "none"),
        ("none", "none"),
        ("max_tokens", "cut at limit"),
        ("repetition", "repetition"),
        ("tool_calls", "tool_calls"),
        # a stored text or a file may hold what the client would ask for again
        ("error", "error"),
        ("abort", "abort"),
        ("cancelled", "cancelled"),
        ("insufficient_system_resource", "insufficient_system_resource"),
    ],
)
def test_an_end_that_is_not_known_is_the_flag_in_the_services_own_word(reason: str | None, flag: str) -> None:
    answer = read_answer("<think>a</think>b", THINKER, finish_reason=reason)

    assert (answer.text, answer.flag) == ("b", flag)


def test_reasoning_that_a_service_broke_off_is_no_answer() -> None:
    answer = read_answer("so first", THINKER, finish_reason="repetition")

    assert (answer.text, answer.flag) == ("", "repetition")


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


def test_a_passage_is_no_refusal() -> None:
    passage = "I am unable to find a single cause; insects that circle a lamp keep their backs to the light."

    answer = read_answer(passage, "gpt4")

    assert (answer.text, answer.flag) == (passage, "none")


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
