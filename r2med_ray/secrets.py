"""Takes keys and passwords out of texts that people read: messages, logs, manifests and reports.

`scrubbed` knows secrets in two ways: by value, for keys that this process has read (`note_secret`) and for
environment variables with the name of a key; and by place, in URLs, in headers and after the names of keys. What
looks like a secret is taken out although it may be none, because a mangled word costs less than a published key.
Lengths in the patterns are limited, so that the time grows with the length of a text and not with its square.
"""

import os
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

HIDDEN = "***"

SHORTEST = 8
"""Characters of the shortest key that is looked for by value. Shorter ones, such as `EMPTY` for a service that wants
no key, would be found in ordinary words."""

_NAMES = (
    r"(?:[\w-]{0,40}(?:api[_-]?key|secret[_-]?key|access[_-]?key(?:[_-]?id)?|account[_-]?key|private[_-]?key"
    r"|client[_-]?secret|(?:access|session|auth|security|refresh|hub|hf|api|bearer)[_-]?token"
    r"|password|passwd)|(?:proxy-)?authorization)"
)
"""Names that are followed by a secret wherever they stand."""

_OF_A_NAME = re.compile(_NAMES, re.IGNORECASE)

_KEY_OF_ENVIRONMENT = re.compile(r"(?:^|_)(?:API_?KEY|ACCESS_KEY(?:_ID)?|KEY|TOKEN|SECRET|PASSWORD)$", re.IGNORECASE)

_PLACES: tuple[tuple[re.Pattern[str], str], ...] = (
    # scheme://user:password@host; a password that was not encoded may hold / and +
    (
        re.compile(
            r"(\b[a-z][a-z0-9+.-]{0,20}://)(?:[^\s/?#\"'<>]{0,400}|[^\s/?#@:\"'<>]{1,200}:(?!\d{1,5}(?:/|$))[^\s\"'<>]{1,400})@",
            re.I,
        ),
        r"\1***@",
    ),
    # ?key=…&X-Amz-Signature=…
    (
        re.compile(
            r"([?&;](?:[\w.%-]{0,40}(?:key|token|secret|passw(?:or)?d|pwd|signature|credential|auth)[\w.%-]{0,20}"
            r"|sig|pass)=)"
            r"[^&#;\s\"'<>]+",
            re.I,
        ),
        r"\1***",
    ),
    # Authorization: Bearer …, also as JSON or as Python prints it; and a Bearer alone
    (
        re.compile(r"(\bauthorization[\"']?\s*[:=,]\s*b?[\"']?)(?:(?:bearer|basic|token)\s+)[^\s\"',;}]+", re.I),
        r"\1***",
    ),
    (re.compile(r"(\bBearer\s+)(?=\S*[\d_.=-])[\w.~+/=-]{8,}", re.I), r"\1***"),
    # api_key=…, "x-api-key": "…", AWS_SECRET_ACCESS_KEY=…
    (re.compile(rf"((?<![\w-]){_NAMES}[\"']?\s*[:=]\s*b?[\"']?)(?!\*\*\*)[^\s\"',;&}}]+", re.I), r"\1***"),
    # keys with the mark of their service: OpenAI, Anthropic; Hugging Face; AWS; Google; GitHub; Slack
    (
        re.compile(
            r"\b(?:sk-[\w-]{16,}|hf_[A-Za-z0-9]{20,}|A[KS]IA[0-9A-Z]{16}|AIza[\w-]{35}|gh[pousr]_\w{30,}|xox[abprs]-[\w-]{10,})"
        ),
        HIDDEN,
    ),
)

_noted: set[str] = set()


def note_secret(value: str) -> None:
    """Remember a key that this process has read, so that `scrubbed` takes it out of every text from now on.

    Args:
        value: the key. One of fewer than `SHORTEST` characters is not remembered.
    """
    if len(value) >= SHORTEST:
        _noted.add(value)


def scrubbed(text: str) -> str:
    """Return a text with `***` in place of each key, password and signature. What is scrubbed already stays as it is.

    Taken out are: keys that `note_secret` was given; values of environment variables whose names end as names of keys
    do (`…_KEY`, `…_TOKEN`, `…_SECRET`, `…_PASSWORD`); user and password of a URL, and the values of its keys, tokens
    and signatures; `Authorization` headers; what follows `api_key=`, `password:` and the like.
    """
    for secret in sorted(_noted | _of_environment(), key=len, reverse=True):
        text = text.replace(secret, HIDDEN).replace(quote(secret, safe=""), HIDDEN)
    for place, instead in _PLACES:
        text = place.sub(instead, text)
    return text


def scrubbed_values(value: Any) -> Any:
    """Return a value of JSON with every text scrubbed, also the texts in lists and mappings.

    A text under a key that names a secret, such as `api_key`, is taken out whole. Names of keys stay.
    """
    if isinstance(value, str):
        return scrubbed(value)
    if isinstance(value, Mapping):
        return {
            key: HIDDEN
            if isinstance(inner, str) and inner and _OF_A_NAME.fullmatch(str(key))
            else scrubbed_values(inner)
            for key, inner in value.items()
        }
    if isinstance(value, list | tuple):
        return type(value)(scrubbed_values(inner) for inner in value)
    return value


def _of_environment() -> set[str]:
    return {
        value.strip()
        for name, value in os.environ.items()
        if len(value.strip()) >= SHORTEST and _KEY_OF_ENVIRONMENT.search(name)
    }
