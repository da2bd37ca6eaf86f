"""The ids of passages: how they stand in prompts and answers, and the repairs that they may need.

A prompt shows passages under the ids `[1]`, `[2]`, ... A number in brackets within a text that is shown would look
like such an id, so it is shown in round brackets (`without_ids`), as RankLLM and ReasonRank do.

Models write ids with quotes and code fences, as keys of JSON, and with the full-width signs of Chinese texts. `plain`
makes all of these alike before an answer is read.
"""

import re

ID = r"\d{1,9}"

VERSION = 4
"""The version of the rules of `permutations`, `grades` and `orderings`, and of their counts. It is part of artefact
keys."""

NO_LIST = "no list"
OUT_OF_RANGE = "id out of range"
REPEATED = "id repeated"
MISSING = "id missing"
OUT_OF_SCALE = "grade out of scale"

_OPENING, _CLOSING = "[［【〔", "]］】〕"
_ALIKE = str.maketrans(
    dict.fromkeys("*_`~\\\"'“”‘’", "")
    | dict.fromkeys(_OPENING, "[")
    | dict.fromkeys(_CLOSING, "]")
    | {"｛": "{", "｝": "}", "（": "(", "）": ")", "＞": ">", "≻": ">", "＝": "=", "：": ":", "；": ";"}
    | dict.fromkeys("，、", ",")
)
"""Signs → what they are read as. Quotes, Markdown's emphasis and escapes are left out."""

_OBJECT = re.compile(r"\{[^{}]*")
_KEY = re.compile(rf"(?<=[{{,])(\s*)({ID})(?=\s*:\s*(?:-?\d|\{{))")
_IN_BRACKETS = re.compile(
    rf"[{re.escape(_OPENING)}]([\s,;>=，、；＞＝≻–—-]*\d[\d\s,;>=，、；＞＝≻–—-]*)[{re.escape(_CLOSING)}]"
)
_ANSWER = re.compile(r"<answer>((?:(?!<answer>).)*?)(?:</answer>|\Z)", re.DOTALL | re.IGNORECASE)


def without_ids(text: str) -> str:
    """Return a text in which numbers in brackets are in round brackets: `[2]` → `(2)`, `[3, 7-9]` → `(3, 7-9)`."""
    return _IN_BRACKETS.sub(r"(\1)", text)


def plain(answer: str) -> list[str]:
    """Return the parts of an answer to read in turn: what is in its last answer tags, and all of it.

    Signs are written alike, and ids that are keys of numbers are in brackets: `{"1": 7}` → `{[1]: 7}`.
    """
    parts = [*_ANSWER.findall(answer)[-1:], answer]
    return [_OBJECT.sub(lambda found: _KEY.sub(r"\1[\2]", found[0]), part.translate(_ALIKE)) for part in parts]
