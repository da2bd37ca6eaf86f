"""Regular expressions that a prompt file brings along. They run on RE2, so none can hold a job up.

RE2's time grows with the length of the text, whatever the expression. It knows no look-around and no references back:
an expression with one is refused when the file is read. Prompt files may spell an expression as a Python literal
(`r"\\[(\\d+)\\]"`), as those of RankLLM do.
"""

import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

_LITERAL = re.compile(r"""r?(["'])(.*)\1""", re.DOTALL)
_MARK = "\x1f"
"""Is put around what was found. A text has it replaced first."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A regular expression in RE2's syntax."""

    pattern: str
    has_group: bool

    @classmethod
    def of(cls, text: str) -> "Expression":
        """Return the expression that a text spells, with or without `r"..."` around it.

        Raises:
            ValueError: RE2 doesn't know such an expression.
        """
        literal = _LITERAL.fullmatch(text.strip())
        pattern = literal[2] if literal else text.strip()
        try:
            pc.match_substring_regex(pa.array([""]), pattern)
        except pa.ArrowInvalid as error:
            raise ValueError(f"{error}; the expressions of prompt files are RE2's") from error
        try:
            pc.replace_substring_regex(pa.array([""]), pattern, r"\1")
        except pa.ArrowInvalid:
            return cls(pattern, has_group=False)
        return cls(pattern, has_group=True)

    def is_in(self, text: str) -> bool:
        """Return whether the expression is found in a text."""
        return bool(pc.match_substring_regex(_array(text), self.pattern)[0].as_py())

    def found(self, text: str) -> list[tuple[str, str]]:
        """Return what is found in a text, as (what stands before it, its first group or all of it)."""
        marked = pc.replace_substring_regex(
            _array(text.replace(_MARK, " ")), self.pattern, f"{_MARK}\\{int(self.has_group)}{_MARK}"
        )
        parts = marked[0].as_py().split(_MARK)
        return list(zip(parts[0::2], parts[1::2], strict=False))


def _array(text: str) -> pa.Array:
    return pa.array([text.encode("utf-8", "replace").decode()])
