"""Reads R2MED's own prompts from a copy of its repository. The repository's code is never executed.

`src/instrcution.py` (its spelling) holds the tables `hyde`, `query2doc` and `lamer`: old name of a task → prompt.
Some prompts are filled with few-shot examples from a table of `src/example.py`. Only text, `a + b`, `a.format(X=b)`
and `TABLE[name]` are understood.
"""

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path

from r2med_ray.errors import ConfigError
from r2med_ray.settings.registry import nearest
from r2med_ray.settings.templates import Template

PUBLISHED_FILE = Path("src") / "instrcution.py"
EXAMPLES_FILE = Path("src") / "example.py"

_PLACES = {"query": "{{TEXT}}", "candidates": "{{PASSAGE}}"}


def published_prompt(checkout: Path, method: str, task_names: Sequence[str], places: Sequence[str]) -> Template:
    """Return a prompt of R2MED, whose places get the names that our prompt files use.

    Args:
        checkout: folder of R2MED's repository.
        method: `hyde`, `query2doc` or `lamer`.
        task_names: the names of the task. The table must have one of them.
        places: the places that the prompt must have, by the names of our prompt files.

    Raises:
        ConfigError: a file, the table, the task or a place is missing, or an expression is not understood.
    """
    path = checkout / PUBLISHED_FILE
    tables = _tables(path)
    if method not in tables:
        raise ConfigError(f"{path}: no prompts for {method!r}.{nearest(method, tables)} Known: {', '.join(tables)}")
    table = tables[method]
    prompts = {_key(key): value for key, value in zip(table.keys, table.values, strict=True)}
    name = next((name for name in task_names if name in prompts), None)
    if name is None:
        hint = nearest(task_names[0], prompts)
        raise ConfigError(
            f"{path}:{table.lineno}: no prompt of {method!r} for task {task_names[0]!r}.{hint} "
            f"Known: {', '.join(prompts)}"
        )
    text = _Reader(path, checkout / EXAMPLES_FILE).text(prompts[name]).replace("{", "{{").replace("}", "}}")
    for ours, theirs in _PLACES.items():
        if ours in places and theirs not in text:
            raise ConfigError(f"{path}:{prompts[name].lineno}: the prompt has no place {theirs[1:-1]}")
        text = text.replace(theirs, f"{{{ours}}}")
    return Template(version="r2med", text=text)


def _tables(path: Path) -> Mapping[str, ast.Dict]:
    """Return the dictionaries that a module assigns to names."""
    try:
        module = ast.parse(path.read_bytes(), filename=str(path))
    except (OSError, SyntaxError) as error:
        raise ConfigError(f"{path}: {error}") from error
    return {
        statement.targets[0].id: statement.value
        for statement in module.body
        if isinstance(statement, ast.Assign)
        and isinstance(statement.targets[0], ast.Name)
        and isinstance(statement.value, ast.Dict)
    }


def _key(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


class _Reader:
    """Works out the text of an expression."""

    def __init__(self, path: Path, examples: Path) -> None:
        self._path = path
        self._examples = examples

    def text(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=str(value)):
                return value
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self.text(left) + self.text(right)
            case ast.Call(func=ast.Attribute(value=template, attr="format"), args=[], keywords=keywords):
                text = self.text(template)
                for keyword in keywords:
                    text = text.replace(f"{{{keyword.arg}}}", self.text(keyword.value))
                return text
            case ast.Subscript(value=ast.Name(id=table), slice=ast.Constant(value=str(key))):
                return self._example(table, key, node)
        raise self._refusal(node)

    def _example(self, table: str, key: str, node: ast.expr) -> str:
        tables = _tables(self._examples)
        for known, value in zip(tables[table].keys, tables[table].values, strict=True) if table in tables else ():
            if _key(known) == key:
                return _Reader(self._examples, self._examples).text(value)
        raise self._refusal(node)

    def _refusal(self, node: ast.expr) -> ConfigError:
        return ConfigError(f"{self._path}:{node.lineno}: can't be read without running it: {ast.unparse(node)[:80]}")
