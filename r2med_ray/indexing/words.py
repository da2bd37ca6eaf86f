"""Cuts a text into tokens as Lucene 9's StandardTokenizer does.

The tokenizer follows the word rule of UAX #29 in its Unicode 9 version, in which an ideograph or a kana is a token of
one character. Two more kinds of tokens are runs of South East Asian letters (line breaking class SA), and emoji
sequences (UTS #51, version 11). All other characters separate tokens and are left out. There is one difference from
Lucene: letters that Unicode gained after version 9 are words here and are left out in Lucene.
"""

import functools
import re

import regex

MAX_UNITS = 255
"""StandardTokenizer's `maxTokenLength`, in UTF-16 code units. A longer token is cut into pieces."""

_BLANKS = {code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) in "_.,:;'\"#*")}
"""ASCII characters → a space. These characters are in no token, and no token depends on them."""

_ASCII_TOKEN = re.compile(r"\w+(?:(?:(?<=[A-Za-z])[.':](?=[A-Za-z])|(?<=[0-9])[.',;](?=[0-9]))\w+)*", re.ASCII)
"""The word rule for ASCII text. The pattern also matches underscores alone, which are no token."""

# Characters whose class changed after Unicode 9.
_NO_LETTER = r"\u00B8\u02E5-\u02EB\u055A\u055F\u058A\u19DA\uA708-\uA716"
_FORMAT = r"\u0600-\u0605\u06DD\u070F\u08E2\U000110BD"
_PICTOGRAPHIC = (
    r"\u2388\u2600-\u2605\u2607-\u2612\u2614-\u2685\u2690-\u2705\u2708-\u2712\u2763-\u2767"
    r"\U0001F000-\U0001F0FF\U0001F249-\U0001F3FA\U0001F400-\U0001F53D\U0001F546-\U0001F64F\U0001F680-\U0001F6FF"
)


def tokenize(text: str) -> list[str]:
    """Return the tokens of a text in their order."""
    return [token for piece in pieces(text) for token in tokens_of_piece(piece)]


def pieces(text: str) -> list[str]:
    """Cut a text at places that are inside no token: the tokens of the pieces, in order, are those of the text.

    The same pieces come often, so it is worth keeping their tokens, terms or term numbers.
    """
    return text.translate(_BLANKS).split(" ")


def tokens_of_piece(piece: str) -> list[str]:
    """Return the tokens of a piece in their order."""
    if piece.isascii() and len(piece) <= MAX_UNITS:
        return [token for token in _ASCII_TOKEN.findall(piece) if token.strip("_")]
    return _any_tokens(piece)


def _any_tokens(piece: str) -> list[str]:
    """Return the tokens of a piece of any characters and any length."""
    pattern = _token_pattern()
    if 2 * len(piece) <= MAX_UNITS:
        return list(pattern.findall(piece))
    tokens = []
    start = 0
    while start < len(piece):
        window = piece[start : start + MAX_UNITS].encode("utf-16-le", "surrogatepass")[: 2 * MAX_UNITS]
        match = pattern.match(piece, start, start + len(window.decode("utf-16-le", "ignore")))
        if match:
            tokens.append(match.group())
        start = match.end() if match else start + 1
    return tokens


@functools.cache
def _token_pattern() -> "regex.Pattern[str]":
    """Build the pattern of one token: a word, an emoji sequence, a South East Asian run, an ideograph or kana."""
    marks = rf"[\p{{WB=Format}}\p{{WB=Extend}}\p{{WB=ZWJ}}{_FORMAT}]*"  # WB4: marks belong to the character before

    def one(members: str) -> str:
        return rf"[[{members}]--[{_NO_LETTER}{_FORMAT}]]{marks}"

    hebrew = one(r"\p{WB=Hebrew_Letter}")
    letter = one(r"\p{WB=ALetter}\p{WB=Hebrew_Letter}")
    digit = one(r"\p{WB=Numeric}[\p{Blk=Halfwidth_And_Fullwidth_Forms}&&\p{Nd}]")
    katakana, joiner = one(r"\p{WB=Katakana}"), one(r"\p{WB=ExtendNumLet}")
    quote, double_quote = one(r"\p{WB=Single_Quote}"), one(r"\p{WB=Double_Quote}")
    in_word = one(r"\p{WB=MidLetter}\p{WB=MidNumLet}\p{WB=Single_Quote}")
    in_number = one(r"\p{WB=MidNum}\p{WB=MidNumLet}\p{WB=Single_Quote}\uFE10\uFE14")
    run = (
        rf"(?:(?:{katakana})+"
        rf"|(?:{hebrew}(?:{double_quote}{hebrew}|{quote})"
        rf"|{digit}(?:{in_number}{digit})*|{letter}(?:{in_word}{letter})*)+)"
    )
    word = rf"(?:{joiner})*+{run}(?:(?:{joiner})+{run})*(?:{joiner})*"
    south_east_asian = rf"(?:[\p{{LB=Complex_Context}}\u19DA]{marks})+"
    single = rf"[\p{{Script=Han}}\p{{Script=Hiragana}}]{marks}"
    return regex.compile(rf"(?V1){word}|{_emoji(marks)}|{south_east_asian}|{single}")


def _emoji(marks: str) -> str:
    """Return the pattern of an emoji sequence: pictographs joined or tagged, a keycap, or a flag."""
    plain_marks = rf"[[\p{{WB=Format}}\p{{WB=Extend}}\p{{WB=ZWJ}}{_FORMAT}]--[\uFE0E\uFE0F]]*"
    pictograph = (
        rf"[[\p{{Extended_Pictographic}}\p{{Emoji}}{_PICTOGRAPHIC}]"
        rf"--[\p{{WB=Regional_Indicator}}0-9#*\p{{Emoji_Modifier}}]]"
    )
    pictograph = rf"{pictograph}{plain_marks}\uFE0F?"
    modifier = rf"\p{{Emoji_Modifier}}{plain_marks}"
    tags = r"[\U000E0020-\U000E007E]+\U000E007F"
    keycap = rf"[#*]{plain_marks}\uFE0F?\u20E3{plain_marks}"
    flag = rf"(?:\p{{WB=Regional_Indicator}}{marks}){{2}}"
    joined = rf"(?:\u200D*(?<=\u200D)(?:{pictograph}|{modifier}))*"
    return rf"(?:\u200D*{pictograph}|{modifier})(?:{tags}|{joined})|{keycap}|{flag}"
