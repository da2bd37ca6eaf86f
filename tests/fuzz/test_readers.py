"""Whatever bytes a reader is given, it reads them or says what is wrong with them; it never breaks and never hangs.

`R2MED_FUZZ_CASES` says how many cases each reader gets; `make fuzz` gives it 100,000.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from r2med_ray.errors import R2MedError
from tests.fuzz.readers import ANSWER_READERS, READERS

CASES = int(os.environ.get("R2MED_FUZZ_CASES", "1000"))
FUZZ = settings(
    max_examples=CASES,
    deadline=None,
    database=None,
    derandomize="R2MED_FUZZ_CASES" not in os.environ,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
LIMIT_S = 600 + CASES // 10

PIECES = (
    b"",
    b"\x00",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xed\xa0\x80",
    b"\xc2\x85",
    b"\xe2\x80\xa8",
    b"\r",
    b"\n",
    b"\t",
    b" ",
    b"\x1f\x8b",
    b"nan",
    b"inf",
    b"-0",
    b"1e999",
    b"-",
    b"+",
    b"=",
    b"@",
    b"#",
    b"0x1p3",
    b"1_0",
    b"\xd9\xa3",
    b"999999999999999999999999999999",
    b"null",
    b"true",
    b"[]",
    b"{}",
    b"[",
    b"]",
    b"{",
    b"}",
    b'"\\ud800"',
    b'"',
    b"'",
    b",",
    b":",
    b"<",
    b">",
    b"</",
    b"<top>",
    b"</top>",
    b"<num>",
    b"<topic>",
    b'<!ENTITY b "&a;&a;&a;">',
    b"&b;",
    b"&#0;",
    b"<![CDATA[",
    b"<?xml version='1.0' encoding='utf-16'?>",
    b'encoding="no"',
    b"<!DOCTYPE a SYSTEM 'file:///etc/passwd'>",
    b"&a",
    b"*a",
    b"<<",
    b"? ",
    b"- ",
    b"!!python/object:os.system",
    b"!!int x",
    b"!!binary *",
    b"!!set",
    b"2001-99-99",
    b"---\n",
    b"%",
    b"|",
    b'"topics": [',
    b"[1]",
    b"[99999999999999999999]",
    b" > ",
    b"<think>",
    b"</think>",
    b"<answer>",
    b"</answer>",
    b"10/0",
    b"9" * 5000,
    b"[" * 1500,
    b'{"a":' * 1500,
)
"""Bytes that readers have tripped over, here or elsewhere."""


@st.composite
def near(draw: st.DrawFn, seeds: tuple[bytes, ...]) -> bytes:
    """Return a file with some of its bytes replaced, doubled or left out."""
    content = draw(st.sampled_from(seeds))
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, len(content)))
        end = min(len(content), start + draw(st.sampled_from((0, 0, 1, 2, 8, 64))))
        piece = draw(st.one_of(st.sampled_from(PIECES), st.binary(max_size=4), st.just(content[start:end] * 2)))
        content = content[:start] + piece + content[end:]
    return content


def files(seeds: tuple[bytes, ...]) -> st.SearchStrategy[bytes]:
    return st.one_of(near(seeds), near(seeds), near(seeds), st.binary(max_size=200))


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of one test's own: some readers look at all files that lie beside theirs."""
    with tempfile.TemporaryDirectory() as place:
        yield Path(place)


@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize("name", READERS)
def test_any_bytes_are_read_or_refused(name: str, folder: Path) -> None:
    reader = READERS[name]
    path = folder / reader.file

    @FUZZ
    @given(files(reader.seeds))
    def check(content: bytes) -> None:
        path.write_bytes(content)
        with contextlib.suppress(R2MedError):
            reader.read(path)

    check()


@pytest.mark.timeout(LIMIT_S)
@pytest.mark.parametrize("name", ANSWER_READERS)
def test_any_answer_is_read(name: str) -> None:
    reader = ANSWER_READERS[name]

    @FUZZ
    @given(files(tuple(seed.encode() for seed in reader.seeds)), st.sampled_from(("replace", "surrogateescape")))
    def check(content: bytes, errors: str) -> None:
        reader.read(content.decode(errors=errors))

    check()


@pytest.mark.parametrize("name", READERS)
def test_a_seed_of_each_reader_is_read(name: str, folder: Path) -> None:
    """Without this, a reader that refuses everything would pass."""
    reader = READERS[name]
    read = 0
    for seed in reader.seeds:
        path = folder / reader.file
        path.write_bytes(seed)
        try:
            reader.read(path)
            read += 1
        except R2MedError:
            continue
    assert read
