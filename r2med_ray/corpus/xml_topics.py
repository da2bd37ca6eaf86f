"""Reads the XML topics of TREC's medical tracks: `<topic>` elements, whose fields show which track wrote them.

<topic number="1">A patient ...</topic>                                      Clinical Trials 2021 and 2022
<topic number="1" template="glaucoma"><field name="visual acuity">0.3</...   Clinical Trials 2023
<topic number="1"><disease>...<gene>...<demographic>...                      Precision Medicine 2017 to 2020
<topic number="1"><query>...<question>...<narrative>...                      TREC-COVID
<topic number="1" type="diagnosis"><description>...<summary>...              Clinical Decision Support 2014 to 2016
<topic><number>1</number><query>...                                          Health Misinformation 2019 to 2022
"""

import re
import xml.sax
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from r2med_ray.errors import DataError

_BLANKS = re.compile(r"[ \t\r\n]+")
_ENTITY = re.compile(r"<!ENTITY\b")
NOTHING = "None"
"""The word that Precision Medicine 2017 writes into a field without a value."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """What a track's topics look like, and which of their fields are the query."""

    name: str
    sign: str
    """The field that tells the track's topics from those of the tracks below it in the table; always needed."""

    asks: tuple[str, ...]
    """The fields whose texts are the query, joined by blanks in this order. A field without a value is left out."""


_TRACKS = (
    Track(
        name="Precision Medicine",
        sign="disease",
        asks=("disease", "gene", "demographic", "treatment", "other"),
    ),
    # BEIR and MTEB ask the question, too.
    Track(name="TREC-COVID", sign="question", asks=("question",)),
    Track(name="Clinical Decision Support", sign="summary", asks=("summary",)),
    Track(name="Health Misinformation", sign="query", asks=("query",)),
    Track(name="Health Misinformation 2020", sign="title", asks=("title",)),
    Track(name="Clinical Trials 2023", sign="field", asks=("field",)),
)
_PLAIN = Track(name="Clinical Trials 2021", sign="", asks=("",))
TRACKS = ", ".join(
    f"{track.name}: <{track.sign}>" if track.sign else f"{track.name}: its text alone" for track in (*_TRACKS, _PLAIN)
)
"""The tracks in words, each with the field by which it is known."""


@dataclass(slots=True, kw_only=True)
class _Topic:
    line: int
    attributes: dict[str, str]
    fields: list[tuple[str, str, str]] = field(default_factory=list)
    """(tag, attribute `name`, text) of each child; the topic's own text has the tag ''."""


class _Topics(xml.sax.ContentHandler):
    """Collects the `<topic>` elements of a file."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[_Topic] = []
        self._inside: list[tuple[str, str]] = []
        """(tag, attribute `name`) of the open elements, from `<topic>` on."""

    def startElement(self, name: str, attrs: xml.sax.xmlreader.AttributesImpl) -> None:  # noqa: N802
        if self._inside:
            self._inside.append((name, attrs.get("name", "")))
        elif name == "topic":
            line = self._locator.getLineNumber()  # type: ignore[attr-defined]  # set by the parser
            self.found.append(_Topic(line=line, attributes=dict(attrs.items())))
            self._inside.append(("", ""))

    def endElement(self, name: str) -> None:  # noqa: N802
        if len(self._inside) == 2:
            self.found[-1].fields.append((*self._inside[-1], " "))
        if self._inside:
            self._inside.pop()

    def characters(self, content: str) -> None:
        if self._inside:
            child = self._inside[min(1, len(self._inside) - 1)]
            self.found[-1].fields.append((*child, content))


def read_xml_topics(path: Path, text: str) -> Iterator[tuple[int, str, str]]:
    """Yield (line, number, query) of each topic.

    A topic of Clinical Trials 2023 becomes its template and `name: value` of each field with a value, separated by
    semicolons.

    Args:
        path: the file, for errors.
        text: its text.

    Raises:
        DataError: the text is no XML, or declares entities; or a topic has no number, no text, or the fields of no
            track. Names file and line, and the track.
    """
    if _ENTITY.search(text):
        raise DataError(
            f"{path}: the XML topics declare entities (<!ENTITY ...>), which may grow without end; remove them"
        )
    topics = _Topics()
    body = text.lstrip()
    skipped = text.count("\n", 0, len(text) - len(body))
    try:
        xml.sax.parseString(body, topics)
    except xml.sax.SAXParseException as error:
        line = (error.getLineNumber() or 1) + skipped
        raise DataError(f"{path}:{line}: the XML topics are damaged: {error.getMessage()}") from error
    for topic in topics.found:
        where = f"{path}:{topic.line + skipped}"
        values = _values(topic)
        number = topic.attributes.get("number") or _first(values, "number") or _first(values, "id")
        if not number:
            raise DataError(f'{where}: this topic has no number; expected <topic number="1"> or <number> in it')
        yield topic.line + skipped, number.strip(), _query(topic, values, f"{where}: topic {number!r}")


def _values(topic: _Topic) -> list[tuple[str, str, str]]:
    """Return (tag, attribute `name`, text) of each field, in the order of the file, its pieces joined."""
    joined: dict[tuple[str, str], str] = {}
    for tag, name, piece in topic.fields:
        joined[tag, name] = joined.get((tag, name), "") + piece
    return [(tag, name, _BLANKS.sub(" ", value).strip(" ")) for (tag, name), value in joined.items()]


def _first(values: list[tuple[str, str, str]], wanted: str) -> str:
    return next((value for tag, _, value in values if tag == wanted), "")


def _query(topic: _Topic, values: list[tuple[str, str, str]], where: str) -> str:
    tags = {tag for tag, _, _ in values if tag} - {"number", "id"}
    track = next((track for track in _TRACKS if track.sign in tags), None if tags else _PLAIN)
    if track is None:
        shown = ", ".join(f"<{tag}>" for tag in sorted(tags))
        raise DataError(f"{where} has the fields {shown}; expected those of one of TREC's tracks: {TRACKS}")
    texts = {tag: value for tag, _, value in values if value != NOTHING}
    if track.sign == "field":
        told = [f"{name}: {value}" for tag, name, value in values if tag == "field" and value]
        return "; ".join([*filter(None, [topic.attributes.get("template", "")]), *told])
    if not texts.get(track.sign):
        missing = f"<{track.sign}>" if track.sign else "text"
        raise DataError(f"{where}, in the layout of TREC's track {track.name}, has no {missing}")
    return " ".join(filter(None, (texts.get(tag, "") for tag in track.asks)))
