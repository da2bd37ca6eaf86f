"""A submitted job keeps nothing in the working folder, which Ray deletes with the job."""

import json
from pathlib import Path

import pytest

from r2med_ray.errors import ConfigError
from r2med_ray.workbench.job_folders import SUBMITTED, default_base, lasting


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The working folder of a submitted job."""
    folder = tmp_path / "working"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setenv(SUBMITTED, json.dumps({"runtime_env": {"working_dir": "gcs://_ray_pkg_1.zip"}}))
    return folder


@pytest.mark.parametrize("place", ["out", "./a/b", "../working/out", "."])
def test_a_folder_inside_is_refused(submitted: Path, place: str) -> None:
    with pytest.raises(
        ConfigError, match=r"output '.*' is in the working folder of a submitted job, which Ray deletes"
    ):
        lasting("output", place)
    with pytest.raises(ConfigError, match=r"store '.*' is in the working folder"):
        lasting("store", str(submitted / place))


def test_a_folder_outside_and_a_uri_are_taken(submitted: Path, tmp_path: Path) -> None:
    assert lasting("output", tmp_path / "out") == tmp_path / "out"
    assert lasting("output", "../out") == "../out"
    assert lasting("output", "s3://bucket/out") == "s3://bucket/out"
    assert lasting("output", default_base() / "results") == Path.home() / "r2med_ray" / "results"


@pytest.mark.parametrize("settings", ["{}", '{"runtime_env": null}', '{"runtime_env": {"env_vars": {}}}'])
def test_a_job_without_a_working_folder_of_its_own_may_write_where_it_runs(
    monkeypatch: pytest.MonkeyPatch, settings: str
) -> None:
    monkeypatch.setenv(SUBMITTED, settings)

    assert lasting("output", "out") == "out"
