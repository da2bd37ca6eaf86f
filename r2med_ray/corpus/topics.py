"""Reads TREC topics: `<top>` blocks with `<num>` and `<title>`, as TREC has written them since 1992."""

import re
from collections.abc import Iterator
from pathlib import Path

from r2med_ray.errors import DataError
from r2med_ray.storage.jsonl import read_lines

_TAG = re.compile(r"<(/?(?:top|num|title|desc|narr))>")


def is_trec_topics(path: Path) -> bool:
    _, first = next(read_lines(path), (0, ""))
    return first.lstrip().startswith("<")


def read_trec_topics(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield (line where the topic starts, number, title) of each topic.

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
        raise DataError(f"{path}:{start}: the topic that starts here has no <{field}>")
    return value
