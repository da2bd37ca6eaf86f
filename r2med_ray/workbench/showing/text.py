"""What is shown, as text for people. What follows the mark of a cut is not read."""

import json
from collections.abc import Iterator

from r2med_ray.readings import Reading, Terms, TextRead
from r2med_ray.workbench.showing.values import Asked, Section, Shown

CUT = "⟦cut: what follows is not read⟧"
BEGIN = "⟦cut: what comes before is not read⟧"


def shown_text(shown: Shown) -> str:
    """Return everything as text, in the order of the flow."""
    return "\n".join(_lines(shown))


def _lines(shown: Shown) -> Iterator[str]:
    yield f"{shown.system} on {shown.task}: {shown.description}"
    yield f"query {shown.query_id}"
    yield from _block(shown.query)
    if shown.document_id is None or shown.document is None:
        yield "no document: none of the corpus is judged relevant to the query"
    else:
        yield f"document {shown.document_id} ({'not judged' if shown.grade is None else f'grade {shown.grade}'})"
        yield from _block(shown.document)
    for section in shown.sections:
        yield ""
        yield from _section(section)
    yield ""
    if shown.device:
        yield f"stored answers: those of encoders on {shown.device}"
    if shown.stops:
        yield shown.stops


def _section(section: Section) -> Iterator[str]:
    yield f"== {section.arrow}: {section.part}"
    yield from section.lines
    for asked in section.asked:
        yield from _asked(asked)
    for text in section.texts:
        yield "text for the query"
        yield from _block(text)
    for terms in section.terms:
        yield from _terms(terms)
    for reading in section.readings:
        yield from _reading(reading)


def _asked(asked: Asked) -> Iterator[str]:
    yield f"-- prompt of {asked.unit}"
    yield f"sent with {json.dumps(dict(asked.request), ensure_ascii=False)}"
    if asked.shorter:
        yield f"{asked.shorter} shorter versions are tried if the model has no room"
    for message in asked.messages:
        yield f"{message['role']}:"
        yield from _block(message["content"])
        for call in message.get("tool_calls", ()):
            yield from _block(f"calls {call['function']['name']}({call['function']['arguments']})")
    if asked.answer is None:
        yield "no answer is stored"
        return
    if asked.reasoning:
        yield f"reasoning of {len(asked.reasoning.split())} words, which is not used"
    yield f"answer, flag {asked.flag}:"
    yield from _block(asked.answer)


def _terms(terms: Terms) -> Iterator[str]:
    number = sum(term.count for term in terms.terms)
    yield f"-- {terms.side}: {number} terms, {len(terms.terms)} different; no prompt, nothing is cut"
    yield from _block(terms.text)
    yield "terms, with × count" + (" and weight" if any(term.weight is not None for term in terms.terms) else "")
    words = [
        term.term
        + (f" ×{term.count}" if term.count > 1 else "")
        + (f" ({term.weight:.4g})" if term.weight is not None else "")
        for term in terms.terms
    ]
    yield from _block(" · ".join(words))


def _reading(reading: Reading) -> Iterator[str]:
    number = "tokens not known" if reading.tokens is None else f"{len(reading.tokens)} tokens"
    limit = "" if reading.tokens is None else (f" of at most {reading.limit}" if reading.limit else ", no limit")
    yield f"-- {reading.side}: {number}{limit}"
    yield from reading.remarks
    for part in reading.parts:
        yield from _part(part)
    if reading.tokens is not None:
        yield "tokens"
        yield from _block(" ".join(reading.tokens))


def _part(part: TextRead) -> Iterator[str]:
    yield f"prompt of the {part.side}: {part.prompt!r}" if part.prompt else f"no prompt before the {part.side}"
    if part.lost:
        yield f"{part.lost} tokens of the {part.side} are cut off"
    whole = part.prompt + part.text
    if part.read is None:
        yield from _block(whole + part.after)
        if part.lost:
            yield "the tokenizer doesn't say where the cut is"
        return
    start, stop = part.read
    begin = f"{whole[:start]}{BEGIN}" if start else ""
    end = f"{CUT}{whole[stop:]}" if part.lost and stop < len(whole) else whole[stop:]
    yield from _block(f"{begin}{whole[start:stop]}{end}")
    if part.after:
        yield f"after what is read of the {part.side}: {part.after!r}"


def _block(text: str) -> Iterator[str]:
    yield from (f"    {line}" for line in text.split("\n"))
