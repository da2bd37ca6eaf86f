"""Where a task's files are: in a folder, under `R2MED_DATA`, in the Hub's cache, or on the Hub; nowhere else."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from r2med_ray.corpus.layouts import TaskFiles, find_files
from r2med_ray.errors import DataError

DATA_FOLDER = "R2MED_DATA"
"""Environment variable: a folder with one folder per task."""

HUB_FILES = ("corpus.jsonl", "query.jsonl", "qrels.jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSource:
    """A task whose folder is on this machine."""

    name: str
    suite: str
    folder: Path
    layout: str
    split: str = "test"
    revision: str | None = None
    """Commit on the Hub; None for a folder of one's own, which is then named by its digest."""

    expected: Mapping[str, int] = field(default_factory=dict)
    """Counts that loading must find, e.g. `{"queries": 103}`."""

    @property
    def files(self) -> TaskFiles:
        return find_files(self.folder, self.layout, self.split)


def hub_folder(name: str, repo: str, revision: str, *, download: bool = True) -> tuple[Path, str | None]:
    """Return the folder of a Hub task and its revision, which is None for `$R2MED_DATA/<name>`.

    Raises:
        DataError: it is neither there nor in the cache, and the Hub does not give it; says which files to put where.
    """
    if DATA_FOLDER in os.environ:
        folder = Path(os.environ[DATA_FOLDER]).expanduser() / name
        if folder.is_dir():
            return folder, None
    return _snapshot(name, repo, revision, download), revision


def _snapshot(name: str, repo: str, revision: str, download: bool) -> Path:
    from huggingface_hub import snapshot_download  # loaded where it is needed: the demo needs no Hub

    problem: OSError | None = None
    ways = [(list(HUB_FILES), True), (["*.jsonl"], False)]
    for patterns, local_files_only in ways if download else ways[:1]:
        try:
            folder = snapshot_download(
                repo,
                repo_type="dataset",
                revision=revision,
                allow_patterns=patterns,
                local_files_only=local_files_only,
            )
        except OSError as error:
            problem = error
        else:
            if all((Path(folder) / file).is_file() for file in HUB_FILES):
                return Path(folder)
    raise DataError(_how_to_get(name, repo, revision)) from problem


def _how_to_get(name: str, repo: str, revision: str) -> str:
    data = os.environ.get(DATA_FOLDER, "/path/to/data")
    files = "\n".join(f"         {data}/{name}/{file}" for file in HUB_FILES)
    return (
        f"task {name!r}: its files are not on this machine, and the Hub did not give them. Either\n"
        f"      1. on a machine with a network, with the same HF_HOME:\n"
        f"         hf download {repo} --repo-type dataset --revision {revision} --include '*.jsonl'\n"
        f"      2. or put these files of https://huggingface.co/datasets/{repo}/tree/{revision} here:\n{files}\n"
        f"         and set {DATA_FOLDER}={data}; generated texts go beside them, "
        f"e.g. {data}/{name}/hyde/gpt4/query_with_hydoc.jsonl"
    )
