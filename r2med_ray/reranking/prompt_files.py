"""Prompt files of rerankers, in two formats, and the messages that they make of a query and its passages.

*Text* (`.txt`): a version in the first line, then one user message with places; see `settings.templates`.

*Parts* (`.yaml`), which RankLLM's templates are: a `system_message` or none, a `prefix`, a `body` for each passage
and a `suffix`, all with places. With `prefix_assistant` and `body_assistant` there is one turn per passage.
`output_validation_regex` says what an answer looks like, and `output_extraction_regex` where its ids are; both run as
`expressions` does. An answer that looks otherwise is read by the rules of `permutations`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import NamedTuple, Protocol

from r2med_ray.chat import Message
from r2med_ray.errors import ConfigError
from r2med_ray.reranking.expressions import Expression
from r2med_ray.reranking.shown_ids import answer_of
from r2med_ray.settings.registry import nearest
from r2med_ray.settings.templates import Template, known_places_in, places_in
from r2med_ray.settings.yaml_files import read_yaml
from r2med_ray.storage.keys import fingerprint

WINDOW_PLACES = ("query", "num", "rank", "candidate", "score")
PAIR_PLACES = ("query", "doc_content", "candidate", "score", "num", "rank")

EXPRESSIONS = ("output_validation_regex", "output_extraction_regex")
"""The keys of expressions: what an answer looks like, and where its ids are."""

_ALSO = {"prefix_user": "prefix", "body_user": "body", "suffix_user": "suffix"}
"""Key → the key that it is another word for."""

_IGNORED = ("method",)
"""Keys that say what RankLLM does with a file; a row's `strategy` says it here."""


class Passage(NamedTuple):
    """A passage as a prompt shows it."""

    text: str
    score: float
    """The first stage's score."""


class Prompt(Protocol):
    """What a prompt file says."""

    @property
    def digest(self) -> str:
        """The digest that names the prompt in an artefact's key."""
        ...

    @property
    def shows_scores(self) -> bool:
        """Whether the file has a place for the first stage's scores."""
        ...

    def messages(self, query: str, passages: Sequence[Passage], *, show_scores: bool) -> tuple[Message, ...]:
        """Return the conversation about a query's passages, which are numbered from 1."""
        ...

    def told(self, answer: str) -> str | None:
        """Return what the file's own expressions find in an answer, as a list of ids; None if they don't fit."""
        ...


@dataclass(frozen=True, slots=True)
class TextPrompt:
    """A prompt of one user message. Its places are `passages` and `count`, or `passage`."""

    template: Template
    shows_scores: bool = False

    @property
    def digest(self) -> str:
        return self.template.digest

    def messages(self, query: str, passages: Sequence[Passage], *, show_scores: bool) -> tuple[Message, ...]:
        lines = [
            f"[{number}] {f'(score {passage.score:.4g}) ' if show_scores else ''}{passage.text}"
            for number, passage in enumerate(passages, start=1)
        ]
        text = self.template.fill(
            query=query, passages="\n".join(lines), passage=passages[0].text, count=str(len(passages))
        )
        return ({"role": "user", "content": text},)

    def told(self, answer: str) -> str | None:
        return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class PartsPrompt:
    """A prompt of parts. Each field is a key of the file."""

    body: str
    version: str = ""
    system_message: str = ""
    prefix: str = ""
    suffix: str = ""
    prefix_assistant: str = ""
    body_assistant: str = ""
    output_validation_regex: Expression | None = None
    output_extraction_regex: Expression | None = None
    more: Mapping[str, str] = field(default_factory=dict)
    """Further places → their texts, which a row gives."""

    @property
    def digest(self) -> str:
        return fingerprint({name: value for name, value in asdict(self).items() if value})

    @property
    def shows_scores(self) -> bool:
        return "score" in places_in(self.body)

    def messages(self, query: str, passages: Sequence[Passage], *, show_scores: bool) -> tuple[Message, ...]:
        always = {**self.more, "query": query, "num": str(len(passages))}
        system = [{"role": "system", "content": _filled(self.system_message, always)}] if self.system_message else []
        first, last = _filled(self.prefix, always), _filled(self.suffix, always)
        shown = [
            {**always, "rank": str(number), "candidate": text, "doc_content": text, "score": f"{score:.4g}"}
            for number, (text, score) in enumerate(passages, start=1)
        ]
        if not self.body_assistant:
            text = first + "".join(_filled(self.body, values) for values in shown) + last
            return (*system, {"role": "user", "content": text})
        turns = [(first, _filled(self.prefix_assistant, always))] if first else []
        turns += [(_filled(self.body, values), _filled(self.body_assistant, values)) for values in shown]
        said = [
            {"role": role, "content": text}
            for turn in turns
            for role, text in zip(("user", "assistant"), turn, strict=True)
        ]
        return (*system, *said, {"role": "user", "content": last})

    def told(self, answer: str) -> str | None:
        extraction, said = self.output_extraction_regex, answer_of(answer).strip()
        if self.output_validation_regex and not self.output_validation_regex.is_in(said):
            return None
        if extraction is None:
            return answer
        chain = ""
        for join, found in extraction.found(said):
            if not found.isdecimal():
                return None
            chain += f"{' = ' if '=' in join and '>' not in join else ' > '}[{found}]" if chain else f"[{found}]"
        return chain or None


def read_parts(path: Path, places: Sequence[str], more: Mapping[str, str]) -> PartsPrompt:
    """Read a prompt file of parts.

    Args:
        path: the file.
        places: the places that it may have, of which `query` and one for the passage are needed.
        more: further places that it may have, with their texts.

    Raises:
        ConfigError: the file can't be read, or a key, a place or an expression is wrong; names the file and the key.
    """
    given = read_yaml(path)
    if not isinstance(given, dict):
        raise ConfigError(f"{path}: expected the keys of a prompt (`body`, `prefix`, ...), got {given!r:.80}")
    values = {_ALSO.get(str(key), str(key)): value for key, value in given.items() if key not in _IGNORED}
    if patterns := values.pop("output_patterns", None):  # the older spelling of the two expressions
        values |= dict(zip(EXPRESSIONS, patterns, strict=False))
    known = [each.name for each in fields(PartsPrompt) if each.name != "more"]
    texts: dict[str, str] = {}
    for key, value in values.items():
        if key not in known:
            raise ConfigError(f"{path}: unknown key {key!r}.{nearest(key, known)} Known: {', '.join(known)}")
        if not isinstance(value, str) and key != "version":
            raise ConfigError(f"{path}: {key} should be a text, got {value!r:.80}")
        texts[key] = str(value)
    expressions = {key: _expression(path, key, texts.pop(key)) for key in EXPRESSIONS if key in texts}
    _require_places(path, texts, [*places, *more])
    return PartsPrompt(**texts, **expressions, more=more)  # type: ignore[arg-type]


def refuse_expressions(prompt: Prompt, keys: Sequence[str], whose: str) -> None:
    """Refuse expressions of a prompt file that nothing would read.

    Args:
        prompt: the prompt.
        keys: which expressions.
        whose: who would read them, for the error: `reranker 'x' reads grades`.

    Raises:
        ConfigError: the prompt has such an expression.
    """
    given = [key for key in keys if getattr(prompt, key, None)]
    if given:
        raise ConfigError(f"{whose}, and no list of ids: leave `{given[0]}` out of its prompt file")


def _expression(path: Path, key: str, text: str) -> Expression:
    try:
        return Expression.of(text)
    except ValueError as error:
        raise ConfigError(f"{path}: {key}: {error}, got {text!r}") from error


def _require_places(path: Path, parts: Mapping[str, str], places: Sequence[str]) -> None:
    found = {place for key, text in parts.items() for place in known_places_in(text, places, f"{path}: {key}")}
    numbered = {"rank"} if "doc_content" not in places else set()
    passage = {"candidate", "doc_content"}
    if not parts.get("body") or not found & passage or (missing := ({"query"} | numbered) - found):
        lacking = "candidate" if not found & passage else min(missing, default="body")
        raise ConfigError(f"{path}: the prompt has no place {{{lacking}}}")


def _filled(text: str, values: Mapping[str, str]) -> str:
    return Template(version="", text=text).fill(**values)
