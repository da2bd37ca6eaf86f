from pathlib import Path

import pytest

from r2med_ray.errors import ConfigError
from r2med_ray.settings.templates import Template, load_template


def written(folder: Path, text: str) -> Path:
    path = folder / "prompt.txt"
    path.write_text(text)
    return path


def test_places_are_filled_literally(tmp_path: Path) -> None:
    template = load_template(written(tmp_path, "version: 2\nQ {query} {{x}}\nP {passages}\n"), ("query", "passages"))

    assert template.version == "2"
    assert template.fill(query="a {passages} {0} {{", passages="%s") == "Q a {passages} {0} {{ {x}\nP %s"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Q {query}", r":1: expected `version: NAME`.*got 'Q \{query\}'"),
        ("version: 1\nQ\n{qurey}", r":3: unknown place 'qurey'. Did you mean 'query'\? Known: \{query\}"),
        ("version: 1\nQ", r"no place \{query\}"),
    ],
)
def test_a_wrong_prompt_is_named_with_file_and_line(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, text)

    with pytest.raises(ConfigError, match=f"{path}.*{message}"):
        load_template(path, ("query",))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.txt: No such file"):
        load_template(tmp_path / "absent.txt", ())


def test_version_and_text_are_the_digest() -> None:
    one = Template(version="1", text="{query}")

    assert one.digest == Template(version="1", text="{query}").digest
    assert one.digest not in {Template(version="2", text="{query}").digest, Template(version="1", text="").digest}
