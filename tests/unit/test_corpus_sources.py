import os
import subprocess
import sys

import pytest

from r2med_ray.corpus.catalog import TASKS, resolve_tasks
from r2med_ray.corpus.sources import HUB_FILES, hub_folder
from r2med_ray.errors import DataError

BIOLOGY = TASKS["Biology"]
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_r2med_data_comes_before_the_hub(tmp_path, monkeypatch):
    (tmp_path / "Biology").mkdir()
    monkeypatch.setenv("R2MED_DATA", str(tmp_path))

    source = BIOLOGY.locate()

    assert source.folder == tmp_path / "Biology"
    assert source.revision is None  # nobody checked that the files are those of the pinned commit
    assert source.expected == {"queries": 103, "rows": 57359, "documents": 57359, "qrels": 374}


@pytest.mark.parametrize(
    ("entry", "data", "repo", "files"),
    [
        ("Biology", "Biology", "R2MED--Biology", HUB_FILES),
        (
            "NanoR2MEDBiology",
            "NanoR2MED",
            "hakari-bench--NanoR2MED",
            [f"{config}/NanoR2MEDBiology.parquet" for config in ("corpus", "queries", "qrels")],
        ),
    ],
)
def test_a_commit_that_an_entry_names_is_the_hubs_and_never_the_folder_of_no_known_commit(
    tmp_path, monkeypatch, entry, data, repo, files
):
    monkeypatch.setenv("R2MED_DATA", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    (tmp_path / data).mkdir()

    with pytest.raises(DataError, match=rf"R2MED_DATA/{data} is of no known commit and is read where none is named"):
        resolve_tasks([f"{entry}@{COMMIT}"], download=False)

    snapshot = tmp_path / "hub" / f"datasets--{repo}" / "snapshots" / COMMIT
    for file in files:
        (snapshot / file).parent.mkdir(parents=True, exist_ok=True)
        (snapshot / file).touch()
    [named], [unnamed] = (resolve_tasks([name], download=False) for name in (f"{entry}@{COMMIT}", entry))
    assert (named.folder, named.revision) == (snapshot, COMMIT)
    assert (unnamed.folder, unnamed.revision) == (tmp_path / data, None)


def test_a_task_that_is_nowhere_is_refused_with_the_files_and_where_to_put_them(tmp_path, monkeypatch):
    monkeypatch.setenv("R2MED_DATA", str(tmp_path))

    with pytest.raises(DataError) as failure:
        hub_folder("Nowhere", "R2MED/Nowhere", "0" * 40)

    message = str(failure.value)
    assert f"hf download R2MED/Nowhere --repo-type dataset --revision {'0' * 40} --include '*.jsonl'" in message
    for file in HUB_FILES:
        assert f"{tmp_path}/Nowhere/{file}" in message


def test_the_cache_of_the_hub_serves_without_a_network_if_the_files_are_all_there(tmp_path):
    whole, half = (
        tmp_path / "hub" / f"datasets--R2MED--{name}" / "snapshots" / TASKS[name].revision
        for name in ("Biology", "Bioinformatics")
    )
    for folder, files in ((whole, HUB_FILES), (half, HUB_FILES[:2])):
        folder.mkdir(parents=True)
        for file in files:
            (folder / file).touch()
    program = """
from r2med_ray.corpus.catalog import TASKS, resolve_tasks
print(TASKS["Biology"].locate())
TASKS["Bioinformatics"].locate()
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "R2MED_"))}

    child = subprocess.run(
        [sys.executable, "-c", program],
        env={**environment, "HF_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert str(whole) in child.stdout
    assert f"revision='{BIOLOGY.revision}'" in child.stdout
    assert "NotAtHand: task 'Bioinformatics': its files are not on this machine" in child.stderr
