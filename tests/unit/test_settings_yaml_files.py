"""YAML files are read whole: nothing that stands in them is passed over."""

from pathlib import Path

import pytest

from r2med_ray.errors import ConfigError
from r2med_ray.settings.yaml_files import read_yaml


def written(folder: Path, text: str) -> Path:
    path = folder / "a.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("text", ["a: 1\nb: 2\na: 3\n", "{a: 1, b: 2, a: 3}\n", "x: [{a: {b: 1}, a: 2}]\n"])
def test_a_key_that_comes_twice_is_refused_with_its_line(tmp_path: Path, text: str) -> None:
    line = text[: text.rindex("a:")].count("\n") + 1

    with pytest.raises(ConfigError, match=rf"(?s)a\.yaml: .*'a' comes twice.*line {line}, column"):
        read_yaml(written(tmp_path, text))


def test_a_merged_key_may_be_replaced(tmp_path: Path) -> None:
    text = "base: &base {a: 1, b: 2}\nfirst: {<<: *base, a: 3}\nsecond: {<<: *base, a: 4}\n"

    values = read_yaml(written(tmp_path, text))

    assert (values["first"], values["second"]) == ({"a": 3, "b": 2}, {"a": 4, "b": 2})


def test_a_file_that_is_not_there_is_named_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=rf"^{tmp_path}/no\.yaml: can't be read: No such file or directory$"):
        read_yaml(tmp_path / "no.yaml")


def test_what_is_no_yaml_is_told_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"(?s)a\.yaml: .*line 2, column"):
        read_yaml(written(tmp_path, "a: 1\nb: ]\n"))
