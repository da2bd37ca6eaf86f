import json
from typing import Any

import pytest

from r2med_ray.models.services.service_words import KEPT_CHARACTERS, words_of


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ("no\n room", "no room"),
        (b"no room", "no room"),
        ({"error": {"message": "no room"}}, "no room"),
        ('{"error": {"message": "no room"}}', "no room"),
        ({"error": "no room"}, "no room"),
        ({"message": "no room", "code": 5}, "no room"),
        ({"detail": [{"loc": ["body"], "msg": "no room"}]}, '[{"loc": ["body"], "msg": "no room"}]'),
        ({"error": {"message": "refused", "metadata": {"raw": "no room"}}}, 'refused ({"raw": "no room"})'),
        ({"errors": ["no room"]}, '{"errors": ["no room"]}'),
        ({"error": None, "text": "x"}, '{"error": null, "text": "x"}'),
        ("[1, 2", "[1, 2"),
        (None, "null"),
        ("<html><head><style>p {}</style></head><body><p>502 Bad&nbsp;Gateway</p></body></html>", "502 Bad Gateway"),
        ("<!doctype html><title>Busy</title><script>x()</script><p>no room", "Busy Busy no room"),
        ("a < b and c > d", "a < b and c > d"),
    ],
)
def test_the_words_are_found_whatever_they_are_wrapped_in(sent: Any, words: str) -> None:
    assert words_of(sent) == words


def test_words_have_a_limit() -> None:
    assert words_of(json.dumps({"message": "x" * 5000})) == "x" * KEPT_CHARACTERS
