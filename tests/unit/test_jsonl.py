import gzip
from pathlib import Path

import pytest

from r2med_ray.errors import DataError
from r2med_ray.storage.jsonl import Record, holds_json, read_jsonl, read_lines


def write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e"])
def test_da05_only_a_newline_ends_a_record(tmp_path, separator):
    path = write(tmp_path / "a.jsonl", f'{{"id": "1", "text": "a{separator}b"}}\n{{"id": "2"}}\n'.encode())

    records = list(read_jsonl(path))

    assert [record.values["id"] for record in records] == ["1", "2"]
    assert records[0].values["text"] == f"a{separator}b"


def test_da05_lines_of_plain_text_keep_every_separator_but_the_newline(tmp_path):
    path = write(tmp_path / "a.tsv", "1\ta\u2028b\x85c\x0bd\x0ce\x1cf\n2\tx\n".encode())

    assert list(read_lines(path)) == [(1, "1\ta\u2028b\x85c\x0bd\x0ce\x1cf"), (2, "2\tx")]


def test_da05_carriage_returns_blank_lines_and_a_missing_last_newline_change_nothing(tmp_path):
    path = write(tmp_path / "a.jsonl", b'\xef\xbb\xbf{"id": "1"}\r\n\r\n  \n{"id": "2"}\n{"id": "3"}')

    assert [(record.line, record.values["id"]) for record in read_jsonl(path)] == [(1, "1"), (4, "2"), (5, "3")]


def test_da07_a_record_of_three_megabytes_is_one_record(tmp_path):
    text = "x" * 3_000_000
    path = write(tmp_path / "a.jsonl", f'{{"text": "{text}"}}\n{{"text": "y"}}\n'.encode())

    assert [record.values["text"] for record in read_jsonl(path)] == [text, "y"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b'{"id": "1"}\n{"id": }\n', r"a\.jsonl:2: not a JSON object", id="no-json"),
        pytest.param(b'{"id": "1"}\n[1]\n', r"a\.jsonl:2: expected a JSON object, got list", id="no-object"),
        pytest.param(b'{"id": "1"}\n{"id": "\xff"}\n', r"a\.jsonl:2: not UTF-8", id="no-utf8"),
        pytest.param('{"id": "1"}'.encode("utf-16"), r"a\.jsonl:1: not UTF-8", id="utf16"),
        pytest.param(
            b'{"n": ' + b"9" * 5000 + b"}",
            r"a\.jsonl:1: a number has more than 4300 digits, which is too long$",  # Python's limit
            id="too-many-digits",
        ),
        pytest.param(b"[" * 100_000, r"a\.jsonl:1: not a JSON object", id="too-deep"),
    ],
)
def test_a_bad_line_is_named(tmp_path, content, message):
    path = write(tmp_path / "a.jsonl", content)

    with pytest.raises(DataError, match=message):
        list(read_jsonl(path))


def test_a_gzip_file_reads_like_a_plain_one(tmp_path):
    path = write(tmp_path / "a.jsonl.gz", gzip.compress(b'{"id": "1"}\n{"id": "2"}\n'))

    assert [record.values["id"] for record in read_jsonl(path)] == ["1", "2"]


@pytest.mark.parametrize(
    "damage", [lambda raw: raw[:-9], lambda raw: b"plain text", lambda raw: raw[:10] + b"\xff" + raw[11:]]
)
def test_a_damaged_gzip_file_is_named(tmp_path, damage):
    lines = "".join(f'{{"id": "{number * 7919}"}}\n' for number in range(50)).encode()
    path = write(tmp_path / "a.jsonl.gz", damage(gzip.compress(lines)))

    with pytest.raises(DataError, match=r"a\.jsonl\.gz: the gzip file is damaged: \w"):
        list(read_jsonl(path))


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DataError, match=r"a\.jsonl: can't be read: No such file"):
        list(read_jsonl(tmp_path / "a.jsonl"))


@pytest.mark.parametrize("name", ["qrels.jsonl", "qrels.jsonl.gz", "qrels.jsonl.GZ", "qrels.txt"])
def test_r14_json_lines_are_known_by_the_name_or_by_the_first_line(tmp_path, name):
    content = b' {"id": "1"}\n'
    path = write(tmp_path / name, gzip.compress(content) if name.lower().endswith(".gz") else content)

    assert holds_json(path)
    assert not holds_json(write(tmp_path / "other.txt", b"q 0 d 1\n"))


def test_a_value_is_taken_from_the_first_field_that_is_there():
    record = Record(Path("a.jsonl"), 3, {"id": 1, "_id": 2})

    assert record.first_of(["docno", "_id", "id"]) == 2
    with pytest.raises(DataError, match=r"a\.jsonl:3: no field docno or text; it has id, _id"):
        record.first_of(["docno", "text"])
