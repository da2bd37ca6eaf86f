"""Finds a task's files: in a folder, under `R2MED_DATA`, in the Hub's cache, or on the Hub; nowhere else."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from r2med_ray.corpus.layouts import TaskFiles, find_files
from r2med_ray.errors import NotAtHand

DATA_FOLDER = "R2MED_DATA"
"""Name of the environment variable that names the data folder, which has one folder per task."""

HUB_FILES = ("corpus.jsonl", "query.jsonl", "qrels.jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class HubFiles:
    """The files of a task in its repository. A repository holds one task, or several tasks as splits."""

    folder: str
    """Name of the task's folder under `$R2MED_DATA`."""

    needed: tuple[str, ...] = HUB_FILES
    fetched: str = "*.jsonl"
    """Glob of the files to fetch, with generated texts and ranked lists."""

    @classmethod
    def of_split(cls, repo: str, split: str) -> "HubFiles":
        """Return the files of one split of a repository in the layout `nano`."""
        needed = tuple(f"{config}/{split}*.parquet" for config in ("corpus", "queries", "qrels"))
        return cls(folder=repo.rpartition("/")[2], needed=needed, fetched=f"*/{split}*.parquet")


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSource:
    """A task whose folder is on this machine."""

    name: str
    suite: str
    folder: Path
    layout: str
    split: str = "test"
    revision: str | None = None
    """Commit on the Hub; None for a folder of the user's own, whose revision is made from its digest."""

    expected: Mapping[str, int] = field(default_factory=dict)
    """Counts that loading must find, e.g. `{"queries": 103}`."""

    @property
    def files(self) -> TaskFiles:
        return find_files(self.folder, self.layout, self.split)


def data_folder(name: str) -> Path:
    """Return `$R2MED_DATA/<name>`, which need not exist."""
    return Path(os.environ.get(DATA_FOLDER, "/path/to/data")).expanduser() / name


def is_cached(repo: str, revision: str, file: str) -> bool:
    """Say whether a file of a data set of the Hub is on this machine."""
    from huggingface_hub import try_to_load_from_cache  # see `_snapshot`

    return isinstance(try_to_load_from_cache(repo, file, revision=revision, repo_type="dataset"), str)


def hub_folder(
    name: str, repo: str, revision: str, *, files: HubFiles | None = None, download: bool = True
) -> tuple[Path, str | None]:
    """Return the folder of a Hub task, and its revision. The revision is None for a folder under `$R2MED_DATA`.

    Args:
        name: the task.
        repo: the task's data set on the Hub.
        revision: a commit; empty if none is known. The Hub is then not asked.
        files: which files of the repository are the task's; R2MED's three if left out.
        download: False looks on this machine only.

    Raises:
        NotAtHand: the task is neither under `$R2MED_DATA` nor in the cache, and the Hub does not give it; says which
            files to put where, or how to give a revision.
    """
    files = files or HubFiles(folder=name)
    if DATA_FOLDER in os.environ and data_folder(files.folder).is_dir():
        return data_folder(files.folder), None
    if not revision:
        raise NotAtHand(
            f"{repo} in ${DATA_FOLDER}/{files.folder}, or a revision of it",
            f"task {name!r}: there is no ${DATA_FOLDER}/{files.folder}, and no revision of {repo} is known here; the "
            f"Hub is not read without one. Name a commit behind the task, `tasks: [{name}@COMMIT]`, or "
            f"--set 'tasks=[{name}@COMMIT]' with the 40 hex digits of COMMIT",
        )
    missing = NotAtHand(
        f"{repo} at {revision[:12]}, from the Hub or in ${DATA_FOLDER}/{files.folder}",
        _how_to_get(name, repo, revision, files),
    )
    return _snapshot(repo, revision, files, download, missing), revision


def hub_commit(
    name: str, repo: str, revision: str, *, files: HubFiles | None = None, download: bool = True
) -> tuple[Path, str]:
    """Return the folder of a Hub task at a commit that the user named, and the commit.

    Folders under `$R2MED_DATA` have no commit, so they are not looked at. See `hub_folder` for the arguments.

    Raises:
        NotAtHand: the task is not in the cache, and the Hub does not give it.
    """
    files = files or HubFiles(folder=name)
    missing = NotAtHand(
        f"{repo} at {revision[:12]}, from the Hub",
        f"task {name!r}: the files of the commit that it names are not on this machine, and the Hub did not give "
        f"them. On a machine with a network, with the same HF_HOME:\n"
        f"      {_download(repo, revision, files)}\n"
        f"    ${DATA_FOLDER}/{files.folder} is of no known commit and is read where none is named",
    )
    return _snapshot(repo, revision, files, download, missing), revision


def hub_file(repo: str, revision: str, file: str, folder: Path) -> Path:
    """Return one file of a data set of the Hub, from the cache or from the Hub itself.

    Args:
        repo: the data set.
        revision: a commit.
        file: path of the file in the data set.
        folder: the task's folder, in which a file is looked for first; for the error.

    Raises:
        NotAtHand: neither the cache nor the Hub has the file; says which file to put where.
    """
    from huggingface_hub import hf_hub_download  # see `_snapshot`

    problem: OSError | None = None
    for local_files_only in (True, False):
        try:
            path = hf_hub_download(
                repo, file, repo_type="dataset", revision=revision, local_files_only=local_files_only
            )
        except OSError as error:
            problem = error
        else:
            return Path(path)
    raise NotAtHand(
        f"{file} of {repo} at {revision[:12]}",
        f"{file} is not on this machine, and the Hub did not give it. Either\n"
        f"      1. on a machine with a network, with the same HF_HOME:\n"
        f"         hf download {repo} {file} --repo-type dataset --revision {revision}\n"
        f"      2. or put https://huggingface.co/datasets/{repo}/resolve/{revision}/{file} here:\n"
        f"         {folder / file}",
    ) from problem


def _snapshot(repo: str, revision: str, files: HubFiles, download: bool, missing: NotAtHand) -> Path:
    from huggingface_hub import snapshot_download  # imported here, because the demo needs no Hub

    problem: OSError | None = None
    ways = [(list(files.needed), True), ([files.fetched], False)]
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
            if all(any(Path(folder).glob(pattern)) for pattern in files.needed):
                return Path(folder)
    raise missing from problem


def _how_to_get(name: str, repo: str, revision: str, files: HubFiles) -> str:
    data = data_folder("")
    needed = "\n".join(f"         {data}/{files.folder}/{file}" for file in files.needed)
    return (
        f"task {name!r}: its files are not on this machine, and the Hub did not give them. Either\n"
        f"      1. on a machine with a network, with the same HF_HOME:\n"
        f"         {_download(repo, revision, files)}\n"
        f"      2. or put these files of https://huggingface.co/datasets/{repo}/tree/{revision} here:\n{needed}\n"
        f"         and set {DATA_FOLDER}={data}; generated texts go beside them, "
        f"e.g. {data}/{files.folder}/hyde/gpt4/query_with_hydoc.jsonl"
    )


def _download(repo: str, revision: str, files: HubFiles) -> str:
    return f"hf download {repo} --repo-type dataset --revision {revision} --include '{files.fetched}'"
