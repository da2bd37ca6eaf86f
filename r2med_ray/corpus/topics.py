"""Reads TREC topics: `<top>` blocks, which TREC has written since 1992, and the XML and the JSON of medical tracks.

A `<top>` block has `<num>` and `<title>`, and is no XML. `xml_topics` reads `<topic>` elements. JSON is a list of
topics, alone or as the value of `topics`, as BioGen writes it.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from r2med_ray.corpus.xml_topics import TRACKS, read_xml_topics
from r2med_ray.errors import DataError
from r2med_ray.storage.jsonl import Record, read_lines, why_no_json
from r2med_ray.storage.packed import unpacked_name

LAYOUTS_OF_TOPICS = f"<top> blocks with <num> and <title>, XML with <topic> elements ({TRACKS}), or JSON (BioGen)"
"""The layouts of topics in words, for errors."""

_FIRST_TAG = re.compile(r"<(top|topics?)[\s>/]", re.IGNORECASE)
_TAG = re.compile(r"<(/?(?:top|num|title|desc|narr))>")
_LIST_OF_TOPICS = re.compile(r'"topics"\s*:\s*\[')
_BETWEEN = re.compile(r"[\s,]*")
_DECODER = json.JSONDecoder(strict=False)


def is_trec_topics(path: Path) -> bool:
    """Say whether a file holds topics between tags."""
    _, first = next(read_lines(path), (0, ""))
    return first.lstrip().startswith("<")


def read_trec_topics(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield (line where the topic starts, number, text) of each topic between tags.

    Raises:
        DataError: the file has none of the known tags, or a topic lacks something; names file, line and layout.
    """
    for _, text in read_lines(path):
        if tag := _FIRST_TAG.search(text):
            return _read_blocks(path) if tag[1].lower() == "top" else read_xml_topics(path, whole_text(path))
    line, first = next(read_lines(path), (1, ""))
    raise DataError(f"{path}:{line}: {first.strip()[:80]!r} begins no topics; expected {LAYOUTS_OF_TOPICS}")


def is_json_topics(path: Path) -> bool:
    """Say whether a file is one JSON value that lists topics, rather than JSON Lines."""
    _, first = next(read_lines(path), (0, ""))
    if unpacked_name(path).endswith(".jsonl") or first.lstrip()[:1] not in ("[", "{"):
        return False
    try:
        return "topics" in _DECODER.decode(first) or first.lstrip().startswith("[")
    except (ValueError, RecursionError):
        return True


def read_json_topics(path: Path) -> Iterator[Record]:
    """Yield the topics of a JSON file, each with the line where it starts.

    Raises:
        DataError: the file is no JSON, or has no list of topics that are objects; names file and line.
    """
    text = whole_text(path)
    try:
        _DECODER.decode(text.strip())
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: {why_no_json(error, 'is no JSON')}; expected {LAYOUTS_OF_TOPICS}") from error
    start = re.match(r"\s*\[", text) or _LIST_OF_TOPICS.search(text)
    if start is None:
        raise DataError(f'{path}: the JSON has no list of topics; expected {{"topics": [...]}} as BioGen writes it')
    position = _after_gap(text, start.end())
    while text[position] != "]":
        line = text.count("\n", 0, position) + 1
        topic, position = _DECODER.raw_decode(text, position)
        if not isinstance(topic, dict):
            raise DataError(f"{path}:{line}: expected a topic as a JSON object, got {type(topic).__name__}")
        yield Record(path, line, topic)
        position = _after_gap(text, position)


def whole_text(path: Path) -> str:
    """Return the text of a file, whose lines have the numbers that they have in the file.

    Raises:
        DataError: a line is no UTF-8, or the packed file is damaged; names file and line.
    """
    lines = dict(read_lines(path))
    return "\n".join(lines.get(number, "") for number in range(1, max(lines, default=0) + 1))


def _read_blocks(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield (line where the topic starts, number, title) of each `<top>` block.

    `<num>` and `<title>` need no closing tags. "Number:" and "Topic:" after them are labels. A title may have several
    lines.

    Raises:
        DataError: a topic isn't closed, or lacks its number or title; names the file and the topic's first line.
    """
    start, field = 0, ""
    topic: dict[str, str] = {}
    for line, text in read_lines(path):
        for position, part in enumerate(_TAG.split(text)):
            if position % 2 == 0:
                topic[field] = f"{topic.get(field, '')} {part.strip()}".strip()
            elif part == "/top":
                yield (
                    start,
                    _value(topic, "num", "Number:", path, start),
                    _value(topic, "title", "Topic:", path, start),
                )
                start, field, topic = 0, "", {}
            elif part == "top" and start:
                raise DataError(f"{path}:{line}: <top> inside the topic that starts in line {start}")
            else:
                start, field = start or line, part
    if start:
        raise DataError(f"{path}:{start}: the topic that starts here has no </top>")


def _value(topic: dict[str, str], field: str, label: str, path: Path, start: int) -> str:
    value = topic.get(field, "").removeprefix(label).strip()
    if not value:
        raise DataError(f"{path}:{start}: the topic that starts here has no <{field}>, which a <top> block needs")
    return value


def _after_gap(text: str, position: int) -> int:
    """Return the position of the next value or closing bracket of a list."""
    gap = _BETWEEN.match(text, position)
    return gap.end() if gap else position
