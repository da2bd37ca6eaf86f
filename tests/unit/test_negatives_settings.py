"""The settings of a generation are checked before anything starts."""

import shutil
from pathlib import Path

import pytest

from r2med_ray.errors import ConfigError
from r2med_ray.negatives.generation_settings import KINDS, GenerationConfig
from r2med_ray.negatives.material import Tools
from r2med_ray.negatives.prompt_files import PLACES, SHIPPED, load_prompts
from r2med_ray.settings.config_files import load_settings
from r2med_ray.systems import Names
from tests.scripted_writer import write_generation

URL = "http://127.0.0.1:1/v1"
JOB = Path(__file__).parents[2] / "jobs" / "generate_hard_negatives.yaml"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"perquery": 3}, r"perquery: unknown key\. Did you mean 'per_query'\?"),
        ({"judges": []}, r"judges: should name at least one"),
        ({"judges": ["script", "script"]}, r"judges names one twice: script, script"),
        ({"kinds": ["mimics"]}, r"kinds\.0: .*got 'mimics'\. Did you mean 'mimic'\?"),
        ({"filters": {"length": [1.5, 0.5]}}, r"filters: length should go from a smaller to a greater multiple"),
        ({"filters": {"cosin": 1}}, r"filters\.cosin: unknown key\. Did you mean 'cosine'\?"),
        ({"round": 0}, r"round: .* got 0"),
    ],
)
def test_a_wrong_setting_is_named_with_what_would_be_right(
    tmp_path: Path, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        load_settings(GenerationConfig, write_generation(tmp_path, URL, **changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"writer": "scrip"}, r"unknown language model 'scrip'\. Did you mean 'script'\?"),
        ({"judges": ["nobody"]}, r"unknown language model 'nobody'"),
        ({"margin": {"model": "maxsim-minilmm"}}, r"Did you mean 'maxsim-minilm'\?"),
        ({"filters": {"embedder": "bm25"}}, r"filters\.embedder: 'bm25' gives no cosines; name an encoder"),
        ({"filters": {"embedder": "contriever"}}, r"filters\.embedder: 'contriever' gives no cosines"),
        ({"prompts": "nowhere"}, r"prompts .*nowhere: there is no such folder"),
    ],
)
def test_a_wrong_name_is_refused(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    config = load_settings(GenerationConfig, write_generation(tmp_path, URL, **changes))

    with pytest.raises(ConfigError, match=message):
        Tools.of(config, Names.load(Path(str(config.models))))


def test_the_shipped_settings_are_right() -> None:
    config = load_settings(GenerationConfig, JOB, ["queries=1"])

    assert (config.queries, config.kinds) == (1, KINDS)


def test_every_shipped_prompt_is_used_and_has_a_version() -> None:
    prompts = load_prompts()

    assert {path.stem.replace("-", " ") for path in SHIPPED.glob("*")} == prompts.keys() == PLACES.keys()
    assert {prompt.version for prompt in prompts.values()} == {"1"}


def test_a_folder_of_the_users_own_needs_every_prompt(tmp_path: Path) -> None:
    folder = shutil.copytree(SHIPPED, tmp_path / "prompts")
    (folder / "mimic.txt").write_text("version: mine\n{query} {passage} {examples} {fewest} {most}")
    assert load_prompts(str(folder))["mimic"].version == "mine"

    (folder / "mimic.txt").write_text("version: mine\n{query} {passage} {examples} {fewest}")
    with pytest.raises(ConfigError, match=r"mimic\.txt: the prompt has no place \{most\}"):
        load_prompts(str(folder))
