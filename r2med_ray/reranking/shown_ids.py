"""The ids of passages: how they stand in prompts and answers, and the repairs that they may need.

A prompt shows passages under the ids `[1]`, `[2]`, ... A number in brackets within a text that is shown would look
like such an id, so it is shown in round brackets (`without_ids`), as RankLLM and ReasonRank do.

Models write ids with quotes and code fences, as keys of JSON, and with the full-width signs of Chinese texts. `plain`
makes all of these alike before an answer is read.
"""

import re

ID = r"\d{1,9}"

LABEL = r"\b(?:doc(?:ument)?s?|passages?|texts?|candidates?|ids?)(?![^\W\d_])"
"""A word that may stand before an id."""

VERSION = 5
"""The version of the rules of `permutations`, `grades` and `orderings`, and of their counts. It is part of artefact
keys."""

NO_LIST = "no list"
OUT_OF_RANGE = "id out of range"
REPEATED = "id repeated"
MISSING = "id missing"
OUT_OF_SCALE = "grade out of scale"
NO_NUMBER = "no number"
REASONING_CUT = "reasoning cut and closed"
OTHER_FORMAT = "not as the prompt file says"

_OPENING, _CLOSING = "[［【〔", "]］】〕"
_LEFT_OUT = "*_`~\\\"'“”‘’"
_ABOVE, _LEVEL = "＞≻≥⩾≧≽⪰≫", "＝≈≃≅∼～"
_ALIKE = str.maketrans(
    dict.fromkeys(_LEFT_OUT, "")
    | dict.fromkeys(_ABOVE, ">")
    | dict.fromkeys(_LEVEL, "=")
    | dict.fromkeys(_OPENING, "[")
    | dict.fromkeys(_CLOSING, "]")
    | {"｛": "{", "｝": "}", "（": "(", "）": ")", "：": ":", "；": ";"}
    | dict.fromkeys("，、", ",")
)
"""Signs → what they are read as. Quotes, Markdown's emphasis and escapes are left out."""

_OBJECT = re.compile(r"\{[^{}]*")
_KEY = re.compile(rf"(?<=[{{,])(\s*)({ID})(?=\s*:\s*(?:-?\d|\{{))")
_ABOUT = re.compile(r"(?<=[\d\]］】〕])(\s*)~(?=\s*[\d\[［【〔])")
"""`~` between ids. Elsewhere it is left out, as a sign of Markdown or a word for "about"."""

_LABELLED = re.compile(rf"\[(?:[\s>=,;:#\d]|{LABEL})*\]", re.IGNORECASE)
_LABELLED_CHAIN = re.compile(rf"{LABEL}[\s#]*{ID}(?:\s*[>=]\s*{LABEL}[\s#]*{ID})+", re.IGNORECASE)
_LABEL = re.compile(rf"{LABEL}[\s:#]*", re.IGNORECASE)
_LABELLED_ID = re.compile(rf"{LABEL}[\s#]*({ID})", re.IGNORECASE)
_BETWEEN = rf"(?:[\s,;:#&>=，、；：–—{re.escape(_LEFT_OUT)}{_ABOVE}{_LEVEL}-]|{LABEL}|\b(?:and|or)\b)"
_IN_BRACKETS = re.compile(
    rf"[{re.escape(_OPENING)}]({_BETWEEN}*\d(?:\d|{_BETWEEN})*)[{re.escape(_CLOSING)}]", re.IGNORECASE
)
_ANSWER = re.compile(r"<answer>((?:(?!<answer>).)*?)(?:</answer>|\Z)", re.DOTALL | re.IGNORECASE)


def without_ids(text: str) -> str:
    """Return a text in which numbers in brackets are in round brackets.

    `[2]` → `(2)`, `[3, 7-9]` → `(3, 7-9)`, `[Doc 2]` → `(Doc 2)`, `[2 and 3]` → `(2 and 3)`.
    """
    return _IN_BRACKETS.sub(r"(\1)", text)


def plain(answer: str) -> list[str]:
    """Return the parts of an answer to read in turn: what is in its last answer tags, and all of it.

    Signs are written alike. Ids that are keys of numbers are in brackets (`{"1": 7}` → `{[1]: 7}`). Ids in brackets
    or in an order have no labels (`[Doc 2]` → `[2]`, `Doc 2 > Doc 1` → `[2] > [1]`).
    """
    return [_plain(part) for part in (*_ANSWER.findall(answer)[-1:], answer)]


def answer_of(answer: str) -> str:
    """Return what is in the last answer tags, or all of an answer without such tags."""
    return str((_ANSWER.findall(answer) or [answer])[-1])


def _plain(part: str) -> str:
    text = _ABOUT.sub(r"\1=", part).translate(_ALIKE)
    text = _OBJECT.sub(lambda found: _KEY.sub(r"\1[\2]", found[0]), text)
    text = _LABELLED.sub(lambda found: _LABEL.sub("", found[0]), text)
    return _LABELLED_CHAIN.sub(lambda found: _LABELLED_ID.sub(r"[\1]", found[0]), text)
