"""The tokens of a text are those of Lucene's StandardTokenizer."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from uniseg.wordbreak import words

from r2med_ray.indexing.words import MAX_UNITS, _any_tokens, pieces, tokenize, tokens_of_piece

ASCII = st.text(st.characters(max_codepoint=127))
JOINING = st.text("aZ09_'.,;:-\" ", max_size=30)
ANYTHING = st.text(
    st.characters(codec="utf-8")
    | st.sampled_from("aβ9_.':,;#*\"-  ’·‿\u0301\u00ad\u200d\u202f\u2028אアー漢かกข😀👩🔬🇩🇪🏽\ufe0f\u20e3𝐚"),
    max_size=30,
)
LETTERS_AND_MARKS = st.text("aÉßβЖ١9_'’.·:,;-–()/% \n\u0301\u00ad\u200d", max_size=30)


@given(ASCII | JOINING)
@example("1.2.3 1..2 a.1 _a_ __ a'b' a_.b a:b;c 1;2:3")
def test_the_ascii_rule_is_the_general_rule(text: str) -> None:
    for piece in pieces(text):
        assert tokens_of_piece(piece) == _any_tokens(piece)


@given(ANYTHING)
@example('א"ב א"ב')
@example("a\u202fb #\u20e3 -\u200d😀")
def test_cutting_a_text_into_pieces_cuts_no_token(text: str) -> None:
    assert tokenize(text) == _any_tokens(text)


@given(LETTERS_AND_MARKS)
def test_words_are_those_of_another_implementation_of_uax_29(text: str) -> None:
    assert tokenize(text) == [word for word in words(text) if any(character.isalnum() for character in word)]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        pytest.param("10,000 3.5 1;2 a.b o'clock", ["10,000", "3.5", "1;2", "a.b", "o'clock"], id="joined"),
        pytest.param("a,b 1:2 a.1 1.a a..b", ["a", "b", "1", "2", "a", "1", "1", "a", "a", "b"], id="not-joined"),
        pytest.param("IL-6 mg/dL p<0.05", ["IL", "6", "mg", "dL", "p", "0.05"], id="separated"),
        pytest.param("snake_case _ __ _x", ["snake_case", "_x"], id="underscores"),
        pytest.param("H₂O CO₂ 10⁻⁶ m²", ["H", "O", "CO", "10", "m"], id="small-digits-are-none"),
        pytest.param("中文か カナー 한글", ["中", "文", "か", "カナー", "한글"], id="east-asian"),
        pytest.param("ผู้ป่วย มีไข้", ["ผู้ป่วย", "มีไข้"], id="thai-runs"),
        pytest.param(
            "👍🏽 👩\u200d🔬 🇩🇪🇫 1\u20e3 Lipitor®",
            ["👍🏽", "👩\u200d🔬", "🇩🇪", "1\u20e3", "Lipitor", "®"],
            id="emoji",
        ),
        pytest.param("a\u202fb a\u00a0b a\u2028b", ["a\u202fb", "a", "b", "a", "b"], id="spaces"),
    ],
)
def test_tokens_by_hand(text: str, tokens: list[str]) -> None:
    assert tokenize(text) == tokens


@pytest.mark.parametrize(
    ("text", "lengths"),
    [
        pytest.param("a" * 255, [255], id="just-fits"),
        pytest.param("a" * 600, [255, 255, 90], id="letters"),
        # 255 units end in the middle of the 128th letter, which has two units and goes to the next token: 127 + 23.
        pytest.param("𝐚" * 150, [127, 23], id="two-units-each"),
        # 255 = 85 · 3: the 255th character is a full stop, which is not part of the number. 15 characters follow, the
        # last of them a stop.
        pytest.param("12." * 90, [254, 14], id="cut-at-a-stop"),
    ],
)
def test_a_long_token_is_cut_as_lucene_cuts_it(text: str, lengths: list[int]) -> None:
    tokens = tokenize(text)

    assert [len(token) for token in tokens] == lengths
    assert MAX_UNITS == 255
