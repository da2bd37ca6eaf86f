import re

import pytest

from r2med_ray.corpora import Corpus
from r2med_ray.corpus.catalog import TASKS, fetcher, resolve_tasks, select_tasks
from r2med_ray.errors import ConfigError
from r2med_ray.settings.config import TaskConfig
from r2med_ray.types import Task

R2MED = [
    "Biology",
    "Bioinformatics",
    "Medical-Sciences",
    "MedXpertQA-Exam",
    "MedQA-Diag",
    "PMC-Treatment",
    "PMC-Clinical",
    "IIYi-Clinical",
]
NANO = [f"NanoR2MED{name.replace('-', '')}" for name in R2MED]
DEMO = ["Demo-Posts", "Demo-Evidence", "Demo-Cases"]


def names(*entries):
    return [task.name for task in select_tasks(entries)]


def test_the_catalogue_has_the_eight_tasks_in_their_order_their_nano_sets_and_the_demo():
    assert list(TASKS) == R2MED + NANO + DEMO


def test_the_totals_are_those_of_the_paper():
    # R2MED's README and abstract give 876 queries and 357,080 lines of corpora. 221 lines repeat an id: 2 + 18 + 56 +
    # 145.
    counts = [TASKS[name].counts for name in R2MED]

    assert sum(count.queries for count in counts) == 876
    assert sum(count.rows for count in counts) == 357_080
    assert sum(count.rows - count.documents for count in counts) == 2 + 18 + 56 + 145
    assert sum(count.qrels for count in counts) == 2679


@pytest.mark.parametrize("name", R2MED)
def test_every_task_of_the_hub_is_pinned_to_a_commit(name):
    assert TASKS[name].hub == f"R2MED/{name}"
    assert re.fullmatch(r"[0-9a-f]{40}", TASKS[name].revision)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Stack-Biology", "Biology"),
        ("Stack-Bioinformatics", "Bioinformatics"),
        ("Stack-Medical", "Medical-Sciences"),
        ("PMC-Treat", "PMC-Treatment"),
        ("PMCPatients", "PMC-Clinical"),
        ("IIYiPatients-EN", "IIYi-Clinical"),
    ],
)
def test_r02_old_names_are_aliases(old, new):
    assert names(old) == [new]


def test_r02_an_alias_is_known_in_its_own_suite_only():
    assert names("R2MED/Stack-Biology") == ["Biology"]
    with pytest.raises(ConfigError, match=r"unknown task of NanoR2MED 'Biology'\. Did you mean 'NanoR2MEDBiology'"):
        names("NanoR2MED/Biology")


@pytest.mark.parametrize(
    ("name", "suite", "has_files"),
    [
        ("Biology", "R2MED", True),
        ("Mine", "Mine", False),
        # a user's own collection that has the name of a task, or its old name
        ("Biology", "Biology", False),
        ("Stack-Biology", "Stack-Biology", False),
        ("NanoR2MEDBiology", "NanoR2MED", False),
        ("Demo-Posts", "Demo", False),
    ],
)
def test_further_files_come_from_the_repository_of_a_task_of_r2med_only(name, suite, has_files):
    corpus = Corpus(key="", digest="", shards=())
    task = Task(name=name, suite=suite, revision="content-0", corpus=corpus, queries=(), qrels={}, folder="x")

    assert (fetcher(task) is not None) is has_files


def test_r02_an_unknown_name_gets_the_nearest_and_the_list():
    with pytest.raises(ConfigError, match=r"unknown task 'Biolgy'\. Did you mean 'Biology'\? Known: .*PMC-Clinical"):
        names("Biolgy")


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("Demo-*", DEMO),
        ("Demo/*", DEMO),
        ("R2MED/*", R2MED),
        ("R2MED/PMC-*", ["PMC-Treatment", "PMC-Clinical"]),
        ("R2MED/PMC-Treat", ["PMC-Treatment"]),
        ("NanoR2MED/*", NANO),
        ("*-Clinical", ["PMC-Clinical", "IIYi-Clinical"]),
    ],
)
def test_globs_and_suites_give_tasks_in_table_order(entry, expected):
    assert names(entry) == expected


def test_entries_keep_their_order():
    assert names("IIYi-Clinical", "Biology") == ["IIYi-Clinical", "Biology"]


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        (["Biology", "Stack-Biology"], "'Biology' comes twice"),
        (["Demo-*", "Demo-Cases"], "'Demo-Cases' comes twice"),
        (["Biology", TaskConfig(path="mine", name="Biology")], "'Biology' comes twice"),
        (["R2MED/Demo-*"], "no task of R2MED matches 'Demo-\\*'"),
        (["R2MET/*"], "unknown suite 'R2MET'. Did you mean 'R2MED'"),
        (["Micro*"], "no task matches"),
        (["NanoR2MED/*@main"], "'main' is no commit; expected its 40 hex digits"),
        ([f"Demo-*@{'0' * 40}"], "Demo-Posts comes with this package and has no commit; leave out @0000"),
        ([TaskConfig(path="mine", name="Mine", layout="bier")], "unknown layout 'bier'. Did you mean 'beir'"),
    ],
)
def test_wrong_entries_are_refused(entries, message):
    with pytest.raises(ConfigError, match=message):
        select_tasks(entries)


def test_a_folder_of_ones_own_is_a_suite_of_its_own(tmp_path):
    (source,) = resolve_tasks([TaskConfig(path=str(tmp_path), name="Mine", layout="beir", split="dev")])

    assert (source.name, source.suite, source.folder) == ("Mine", "Mine", tmp_path)
    assert (source.layout, source.split, source.revision, source.expected) == ("beir", "dev", None, {})


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=f"task 'Mine': {tmp_path}/missing is no folder"):
        resolve_tasks([TaskConfig(path=f"{tmp_path}/missing", name="Mine")])


def test_the_demo_lies_inside_the_package():
    sources = resolve_tasks(["Demo/*"])

    assert [source.name for source in sources] == DEMO
    assert all(source.files.corpus.is_file() for source in sources)
    assert all(source.expected["documents"] == 80 for source in sources)
