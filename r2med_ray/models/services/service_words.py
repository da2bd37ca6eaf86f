"""What a service says when its answer is none: its own words, out of whatever it sent.

Services put their words into `error`, `message`, `detail` or `msg`, one inside the other; gateways send HTML.
"""

import html
import json
import re
from collections.abc import Mapping
from typing import Any

KEPT_CHARACTERS = 2_000
"""Characters of a service's words that are handed on. Errors quote fewer, once the service's key is taken out."""

_PLACES = ("error", "message", "detail", "msg")
"""Keys under which services put their words, the outermost first."""

_UNSEEN = re.compile(r"<(script|style|head)\b.*?</\1\s*>", re.DOTALL | re.IGNORECASE)
_TITLE = re.compile(r"<title\b[^>]*>(.*?)</title\s*>", re.DOTALL | re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")
_PAGE = re.compile(r"\s*<(?:!doctype|html|head|body)\b", re.IGNORECASE)


def words_of(sent: Any) -> str:
    """Return the words of a service in one line, at most `KEPT_CHARACTERS` of them.

    Args:
        sent: what the service sent: text, HTML, JSON as text or as values, or an object of the client library.
    """
    return " ".join(_words(sent).split())[:KEPT_CHARACTERS]


def _words(sent: Any) -> str:
    if isinstance(sent, bytes | bytearray):
        sent = sent.decode("utf-8", "replace")
    if hasattr(sent, "to_dict"):  # an object of the client library
        sent = sent.to_dict(warnings=False)
    if isinstance(sent, str):
        return _of_text(sent)
    if not isinstance(sent, Mapping):
        return json.dumps(sent, ensure_ascii=False, default=str)
    for place in _PLACES:
        if said := sent.get(place):
            # OpenRouter puts the words of the service behind it here, beside its own
            behind = sent.get("metadata")
            return f"{_words(said)} ({_words(behind)})" if behind else _words(said)
    return json.dumps(sent, ensure_ascii=False, default=str)


def _of_text(text: str) -> str:
    if _PAGE.match(text):
        title = _TITLE.search(text)
        seen = _TAG.sub(" ", _UNSEEN.sub(" ", text))
        return html.unescape(f"{title[1] if title else ''} {seen}")
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return _words(values) if isinstance(values, dict) else text
