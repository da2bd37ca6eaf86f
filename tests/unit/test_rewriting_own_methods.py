"""A user's own methods: what a models file may say about one, and the errors if the file is wrong."""

import sys
from pathlib import Path

import pytest

from r2med_ray.errors import ConfigError
from r2med_ray.rewriting.methods import METHODS, Method
from r2med_ray.rewriting.own_methods import load_methods


def written(folder: Path, text: str) -> Path:
    path = folder / "models.yaml"
    path.write_text(text)
    return path


def module(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.parametrize("text", [None, "", "encoders: []", "methods: []"])
def test_without_rows_there_are_the_methods_of_the_package(tmp_path: Path, text: str | None) -> None:
    methods = load_methods(None if text is None else written(tmp_path, text))

    assert dict(methods) == dict(METHODS)


def test_a_row_is_a_method_beside_those_of_the_package(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
        encoders: [{anything: at all}]
        methods:
          - {name: plain-words, use: replaces, meaning: for laymen, source: mine, needs_candidates: true}
          - {name: opposite, use: subtracted}
        """,
    )

    methods = load_methods(path)

    assert methods["plain-words"] == Method(
        use="replaces", meaning="for laymen", source="mine", needs_candidates=True
    )
    assert methods["opposite"] == Method(use="subtracted")
    assert methods["hyde"] is METHODS["hyde"]
    with pytest.raises(ConfigError, match=r"unknown rewriting method 'plain-word'\. Did you mean 'plain-words'"):
        methods["plain-word"]


def test_a_class_is_imported_because_the_file_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module(tmp_path, monkeypatch, "own_repeat", "class Repeat:\n    def rewrite(self, queries): ...\n")
    load_methods(written(tmp_path, "methods: [{name: other, use: joined}]"))
    assert "own_repeat" not in sys.modules

    methods = load_methods(written(tmp_path, "methods: [{name: repeat, use: joined, class: own_repeat.Repeat}]"))

    assert methods["repeat"].build is sys.modules["own_repeat"].Repeat


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("methods: {name: a}", r"models\.yaml: methods must be a list of rows, got \{'name': 'a'\}"),
        ("methods: [a]", r"models\.yaml: methods:\n  row 1: should be keys and values, .*, got 'a'"),
        ("methods: [{use: joined}]", r"  row 1: name is missing"),
        ("methods: [{name: a}]", r"  a: use is missing"),
        (
            "methods: [{name: a, use: joind}]",
            r"  a: use should be one of joined, .*'joind'\. Did you mean 'joined'\?",
        ),
        ("methods: [{name: a, use: joined, meening: x}]", r"  a: unknown key 'meening'\. Did you mean 'meaning'\?"),
        ("methods: [{name: a, use: joined, clas: x}]", r"unknown key 'clas'\. Did you mean 'class'\? Known: name, "),
        ("methods: [{name: My Method, use: joined}]", r"name should be small letters and digits, .* got 'My Method'"),
        ("methods: [{name: a, use: joined, needs_candidates: 7}]", r"  a: needs_candidates: .* got 7"),
        ("methods: [{name: hyde, use: joined}]", r"methods: hyde: there is a rewriting method of this name already"),
        ("methods: [{name: a, use: joined}, {name: a, use: alone}]", r"methods: a: there is a rewriting method of"),
        ("methods: [", r"models\.yaml: while parsing"),
    ],
)
def test_a_row_that_says_something_wrong_is_named_with_its_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_methods(written(tmp_path, text))


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml"):
        load_methods(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Repeat", "expected a module and a name in it, such as my_module.MyMethod"),
        (
            "own_methods_nowhere.Repeat",
            "there is no Python module 'own_methods_nowhere'; install it, or put its folder",
        ),
        ("own_wrong.Repeet", r"module 'own_wrong' has no class 'Repeet'\. Did you mean 'Repeat'\?"),
        ("own_wrong.number", "module 'own_wrong' has no class 'number'"),
        ("own_wrong.Repeat", "it has no method `rewrite`"),
        ("own_broken.Repeat", "module 'own_broken' can't be imported: cannot import name 'nothing'"),
    ],
)
def test_a_class_that_can_not_be_used_is_named_with_its_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, message: str
) -> None:
    module(tmp_path, monkeypatch, "own_wrong", "number = 7\nclass Repeat: ...\n")
    module(tmp_path, monkeypatch, "own_broken", "from json import nothing\n")

    with pytest.raises(ConfigError, match=rf"models\.yaml: methods: a: class '{name}': {message}"):
        load_methods(written(tmp_path, f"methods: [{{name: a, use: joined, class: {name}}}]"))
