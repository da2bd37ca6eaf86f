"""The Porter stemmer with its author's later changes, as in Lucene's PorterStemFilter.

Source: M. F. Porter, "An algorithm for suffix stripping", Program 14(3), 1980. The author's later changes: step 2
turns `logi` into `log` and `bli` into `ble`, and words of two letters or fewer stay. NLTK's mode MARTIN_EXTENSIONS
gives the same stems, but is three times as slow, and importing NLTK costs every worker seconds.
"""

import re

_C = "[^aeiou][^aeiouy]*"
_V = "[aeiouy][aeiou]*"
_HAS_VOWEL = re.compile(f"(?:{_C})?[aeiouy]")
_MEASURE_ABOVE_0 = re.compile(f"(?:{_C})?{_V}{_C}")
_MEASURE_IS_1 = re.compile(f"(?:{_C})?{_V}{_C}(?:{_V})?$")
_MEASURE_ABOVE_1 = re.compile(f"(?:{_C})?{_V}{_C}{_V}{_C}")
_ENDS_IN_CONSONANT = re.compile(f"(?:{_C})?(?:{_V}{_C})*$")
_SHORT_SYLLABLE = re.compile(f"{_C}[aeiouy][^aeiouwxy]$")

_STEP_2 = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "bli": "ble", "alli": "al",
    "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate", "ator": "ate", "alism": "al",
    "iveness": "ive", "fulness": "ful", "ousness": "ous", "aliti": "al", "iviti": "ive", "biliti": "ble",
    "logi": "log",
}  # fmt: skip
_STEP_3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}
_STEP_4 = "al|ance|ence|er|ic|able|ible|ant|ement|ment|ent|(?<=[st])ion|ou|ism|ate|iti|ous|ive|ize"


def _ending(suffixes: str) -> re.Pattern[str]:
    """Return a pattern that splits a word into a stem and the longest of the suffixes."""
    return re.compile(rf"(.*?)({suffixes})$")


_ENDING_2, _ENDING_3, _ENDING_4 = _ending("|".join(_STEP_2)), _ending("|".join(_STEP_3)), _ending(_STEP_4)
_PAST = _ending("ed|ing")


def stem(word: str) -> str:
    """Return the stem of a lower-case word."""
    if len(word) <= 2:
        return word
    if word[0] == "y":  # a first y is a consonant, but the patterns would take it for a vowel
        return "y" + _stem("Y" + word[1:])[1:]
    return _stem(word)


def _stem(word: str) -> str:
    word = _step_1(word)
    for ending, replacements in ((_ENDING_2, _STEP_2), (_ENDING_3, _STEP_3)):
        match = ending.match(word)
        if match and _MEASURE_ABOVE_0.match(match[1]):
            word = match[1] + replacements[match[2]]
    match = _ENDING_4.match(word)
    if match and _MEASURE_ABOVE_1.match(match[1]):
        word = match[1]
    return _step_5(word)


def _step_1(word: str) -> str:
    """Cut plurals and past forms, and turn a final y into i."""
    if word.endswith(("sses", "ies")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith("ss"):
        word = word[:-1]
    past = _PAST.match(word)
    if word.endswith("eed"):
        word = word[:-1] if _MEASURE_ABOVE_0.match(word[:-3]) else word
    elif past and _HAS_VOWEL.match(past[1]):
        word = past[1]
        if word.endswith(("at", "bl", "iz")) or (_MEASURE_IS_1.match(word) and _SHORT_SYLLABLE.match(word)):
            word += "e"
        elif word[-2:-1] == word[-1:] and word[-1] not in "lsz" and _ENDS_IN_CONSONANT.match(word):
            word = word[:-1]
    if word.endswith("y") and _HAS_VOWEL.match(word[:-1]):
        word = word[:-1] + "i"
    return word


def _step_5(word: str) -> str:
    """Cut a final e, and one l of a final double l."""
    if word.endswith("e"):
        rest = word[:-1]
        if _MEASURE_ABOVE_1.match(rest) or (_MEASURE_IS_1.match(rest) and not _SHORT_SYLLABLE.match(rest)):
            word = rest
    return word[:-1] if word.endswith("ll") and _MEASURE_ABOVE_1.match(word) else word
