"""Tells whether a language model refuses to answer, in English.

A text is read clause by clause. It is a refusal if each clause apologises, refuses, or says what such a text ends
with ("Please see a doctor."), and at least one apologises or refuses. A text with other clauses is no refusal,
because these may be the passage that was asked for. It holds a refusal if any clause refuses or the first one
apologises.

"We" is also the author of a medical text ("We cannot offer surgery to these patients."). So "we" refuses only if it
speaks to the reader or of the request, or if the text apologises.
"""

import re
from typing import Literal, TypeAlias

Refusal: TypeAlias = Literal["whole", "part", "none"]

_MOST_CHARACTERS = 240
"""Characters of the longest clause that is read. A longer one says more than a refusal does."""

_ABLE = (
    r"(?:cannot|can\s+not|can['’]?t|(?:won['’]t|will\s+not)(?:\s+be\s+able\s+to)?|(?:unable|not\s+(?:able|allowed|permitted|comfortable"
    r"|designed|programmed|qualified))(?:\s+to)?)\b"
)
_ADVERB = r"(?:(?:really|simply|just|currently|also|therefore|respectfully|politely)\s+)?"
_I = rf"I(?:['’]m|\s+am)?\s+{_ADVERB}"
_WE = rf"we(?:['’]re|\s+are)?\s+{_ADVERB}"
_VERB = (
    r"(?:advis|answer|assist|comply|continu|creat|diagnos|discuss|do\b|engag|fulfil|generat|giv(?!\w*\s+up\b)|help"
    r"|offer|produc|provid|respond|support|writ)"
)
_MADE_AS = r"an?\s+(?:AI|artificial|large\s+language|language|virtual)\b"
_SORRY = (
    r"(?:(?:I(?:['’]m|\s+am)|we(?:['’]re|\s+are))\s+)?(?:(?:so|very|really|truly|terribly)\s+)?(?:sorry|afraid)\b"
)
_THE_REQUEST = (
    r"(?:\s+you\b.*|(?:\s+with)?\s+(?:this|that)\W*"
    r"|(?:\s+with)?\s+(?:your\b|(?:this|that|the|such)\s+(?:\w+\s+)?(?:request|question|query|topic|task|inquir)).*)"
)

_NOT = r"(?:do\s+not|don['’]t)"
_LACK = (
    rf"{_NOT}\s+have\s+(?:(?:the|enough|sufficient|any)\s+)?"
    r"(?:ability|access|context|expertise|information)\b.*"
)

_SPACES = re.compile(r"[^\S\n]+")
_ENDS_OF_CLAUSES = re.compile(
    r"(?<=[.!?:;])\s+|\s*\n\s*|\s[-–—]+\s|,?\s+(?:but|however|although|though)\b[,\s]*"
    rf"|,\s+(?:(?:and|so)\s+)?(?={_I}{_ABLE})",
    re.IGNORECASE,
)

_LEAD = re.compile(
    rf"(?:{_SORRY}|(?:my\s+)?apologies\b|I\s+apologi[sz]e\b|unfortunately\b|regrettably\b|as\s+{_MADE_AS}[^,.]{{0,60}})"
    r"(?:\s+(?:for|about)\s[^,.]*|\s+to\s+hear\s+(?:this|that)(?=\W*\Z)|\s+that\b)?[,.:!\s]*",
    re.IGNORECASE,
)
"""An apology, or a model's word of what it is, at the beginning of a clause."""

_APOLOGISES = re.compile(rf"{_SORRY}|(?:my\s+)?apologies\b|I\s+apologi[sz]e\b", re.IGNORECASE)
_SPEAKS_AS_MODEL = re.compile(rf"(?:as|I(?:['’]m|\s+am)(?:\s+(?:just|only|simply))?)\s+{_MADE_AS}", re.IGNORECASE)

_REFUSES = re.compile(
    rf"{_I}{_ABLE}(?:\s+{_VERB}.*|\W*)"
    rf"|I\s+(?:(?:must|have\s+to|will)\s+)?{_ADVERB}(?:decline|refuse)"
    rf"(?:\s+(?:to\s+{_VERB}|(?:this|that|your|the)\s+(?:request|question)).*|\W*)"
    rf"|I\s+(?:{_LACK}|{_NOT}\s+know(?:\s+(?:the\s+answer|enough|how\s+to\s+answer)\b.*|\W*))"
    rf"|(?:{_WE})?{_ABLE}\s+(?:assist|comply|fulfil\w*|help){_THE_REQUEST}"
    r"|(?:my|our)\s+(?:\w+\s+)?(?:guidelines?|polic(?:y|ies)|programming|instructions|rules|training)\s+"
    r"(?:(?:(?:do|does)(?:\s+not|n['’]t)|cannot|can['’]?t|won['’]t|will\s+not)\s+(?:allow|permit|let)"
    r"|prevents?|prohibits?|forbids?)\b.*",
    re.IGNORECASE,
)
_MODEL_REFUSES = re.compile(rf"{_I}{_ABLE}.*", re.IGNORECASE)
"""What refuses in a text that says that a model wrote it."""

_WE_REFUSE = re.compile(
    rf"{_WE}(?:{_ABLE}(?:\s+{_VERB}.*|\W*)|{_LACK})",
    re.IGNORECASE,
)
"""What refuses in a text that apologises."""

_SYMPATHISES = re.compile(rf"{_SORRY}\s+(?:to\s+hear\b|(?:that\s+)?you\b).*", re.IGNORECASE)
_TAKES_LEAVE = re.compile(
    r"(?:please\s|(?:you\s+(?:should|may|might)|it(?:['’]s|\s+is)\s+(?:best|important)|I(?:['’]d|\s+would)?\s+"
    r"(?:strongly\s+)?(?:recommend|suggest|advise|encourage|urge))\b.*\b(?:consult|see|contact|seek|speak|talk|reach"
    r"|ask|visit)"
    r"|if\s+you\b.*\b(?:please|feel\s+free|let\s+me\s+know|(?:happy|glad)\s+to|call|contact|consult|seek|ask)\b"
    r"|feel\s+free|let\s+me\s+know|(?:is\s+there|how\s+else|what\s+else|can\s+I|may\s+I|would\s+you\s+like)\b.*\?"
    r"|I(?:['’]m|\s+am)\s+(?:here|happy|glad|only|just|not\s+an?\b|an\s+AI)|thank\s+you\b|I\s+understand\b"
    r"|(?:this|that|it|your)\s.*\b(?:violates?|goes\s+against|is\s+against|(?:is|falls)\s+outside)\b).*",
    re.IGNORECASE,
)


def refusal_in(text: str) -> Refusal:
    """Return whether a text is a refusal as a whole, holds one or begins with an apology, or neither."""
    parts = (part.strip(" \t*_\"“”'>#") for part in _ENDS_OF_CLAUSES.split(_SPACES.sub(" ", text)))
    clauses = [part for part in parts if part]
    patterns = [_REFUSES]
    patterns += [_MODEL_REFUSES] if any(map(_SPEAKS_AS_MODEL.match, clauses)) else []
    patterns += [_WE_REFUSE] if any(map(_APOLOGISES.match, clauses)) else []
    refuses = [_says(clause, *patterns) for clause in clauses]
    no_text = [said or _only_apologises(clause) for clause, said in zip(clauses, refuses, strict=True)]
    if any(no_text) and all(said or _is_leave(clause) for clause, said in zip(clauses, no_text, strict=True)):
        return "whole"
    return "part" if any(refuses) or any(no_text[:1]) or _sympathises(clauses[:1]) else "none"


def _says(clause: str, *patterns: re.Pattern[str]) -> bool:
    """Return whether a clause, after its apology, is what one of the patterns describes."""
    said = _after_apology(clause)
    return len(said) <= _MOST_CHARACTERS and any(pattern.fullmatch(said) for pattern in patterns)


def _only_apologises(clause: str) -> bool:
    """Return whether a clause does nothing but apologise, or apologise and take leave."""
    said = _after_apology(clause)
    return not said or (said != clause and _says(said, _TAKES_LEAVE))


def _is_leave(clause: str) -> bool:
    return _says(clause, _TAKES_LEAVE) or _sympathises([clause])


def _sympathises(clauses: list[str]) -> bool:
    return any(len(clause) <= _MOST_CHARACTERS and _SYMPATHISES.fullmatch(clause) for clause in clauses)


def _after_apology(clause: str) -> str:
    while lead := _LEAD.match(clause):
        clause = clause[lead.end() :]
    return clause
