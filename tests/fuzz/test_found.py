"""What readers have tripped over once, one case of each kind."""

from pathlib import Path

import pytest

from r2med_ray.errors import R2MedError
from tests.fuzz.readers import ANSWER_READERS, READERS

# Each of 30 lines names two copies of the line before: 2 to the power of 30 values in 30 lines.
BOMB = "a0: &a0 x\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 31))
ENTITIES = '<!DOCTYPE t [<!ENTITY a "b"><!ENTITY c "&a;&a;">]><topics><topic number="1">&c;</topic></topics>'


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("YAML", BOMB.encode(), "aliases stand for more than 1000000 values"),
        ("YAML", b"a: &a [*a]", "aliases stand for more than"),
        ("YAML", b"? [1, 2]\n: x", "a key is a list or a mapping"),
        ("YAML", b"day: 2001-99-99", "month must be in"),
        ("YAML", b"[" * 3000, "nested too deeply"),
        ("YAML", b"n: !!int x", "invalid literal"),
        ("benchmark file", BOMB.encode(), "aliases stand for"),
        ("topics", b"", "begins no topics"),
        ("topics", ENTITIES.encode(), "declare entities"),
        ("prompt file", b"version: 1\n\xff {query}", "not UTF-8"),
        ("results of MTEB", b'{"a":' * 100_000, "not JSON"),
    ],
)
def test_a_file_is_refused_in_words(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / READERS[name].file
    path.write_bytes(content)

    with pytest.raises(R2MedError, match=message):
        READERS[name].read(path)


def test_a_deep_answer_of_a_service_is_quoted_as_it_is() -> None:
    assert ANSWER_READERS["words of a service"].read('{"a":' * 100_000) == ('{"a":' * 100_000)[:2000]


def test_an_alias_stands_for_what_it_names(tmp_path: Path) -> None:
    path = tmp_path / "x.yaml"
    path.write_text("a: &a {k: 1}\nb: [*a, *a]\nc: {<<: *a, l: 2}\n")

    assert READERS["YAML"].read(path) == {"a": {"k": 1}, "b": [{"k": 1}, {"k": 1}], "c": {"k": 1, "l": 2}}


def test_an_id_that_begins_with_a_brace_makes_no_json_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / READERS["qrels"].file
    path.write_text("{{x}} 0 d1 1\n")

    assert READERS["qrels"].read(path) == {"{{x}}": {"d1": 1}}
