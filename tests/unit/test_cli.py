"""The command line. It runs in the process of the test, or in a new process to check which modules it imports."""

import gzip
import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from importlib.metadata import version
from pathlib import Path

import click
import pytest
from ray._private.utils import get_num_cpus
from typer.main import get_command
from typer.testing import CliRunner

from r2med_ray.chat import ChatPrompt
from r2med_ray.cli.main import app, exit_on_user_error
from r2med_ray.errors import ArtifactError, ConfigError
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import ArtifactKey
from r2med_ray.workbench.texts import Texts
from tests.fakes import ScriptedGenerator
from tests.http_services import Service, completions
from tests.unit.scripted_runner import ScriptedModel

RUN = "q1 Q0 d1 1 2.0 tag\nq1 Q0 a/b 2 1.0 tag\n"
QRELS = "q1 0 a/b 1\nq2 0 d1 1\n"


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """A run that answers one of two judged queries, with its positive at rank 2."""
    (tmp_path / "run.trec").write_text(RUN)
    (tmp_path / "qrels.txt").write_text(QRELS)
    return ["evaluate", "--run", str(tmp_path / "run.trec"), "--qrels", str(tmp_path / "qrels.txt")]


def test_a_run_from_anywhere_is_scored_as_json(files: list[str]) -> None:
    result = CliRunner().invoke(app, [*files, "--measures", "RR, R@100", "--format", "json", "--per-query"])
    report = json.loads(result.stdout)

    # q1 has 1/2 and 1; q2 is not answered and has 0 and 0.
    assert report["measures"] == {"RR": 0.25, "R@100": 0.5}
    assert report["counts"] == {"queries": 2, "unanswered": 1, "without_positives": 0, "unjudged": 0}
    assert report["per_query"]["q1"] == {"RR": 0.5, "R@100": 1.0}


def test_a_run_from_anywhere_is_scored_as_a_table(files: list[str]) -> None:
    lines = CliRunner().invoke(app, [*files, "--measures", "RR"]).stdout.splitlines()

    assert [line.split() for line in lines][:2] == [["RR", "all", "0.2500"], ["queries", "all", "2"]]


def test_every_measure_can_be_asked_for(files: list[str]) -> None:
    names = "AP,Judged@1,Bpref,RBP(p=0.5),RBP(p=0.5)@1,infAP,nDCG(dcg='exp-log2')@10"
    result = CliRunner().invoke(app, [*files, "--measures", names, "--format", "json", "--per-query"])

    # q1 ranks d1, which is not judged, and then its positive, so AP, RBP and infAP find a positive at rank 2
    assert json.loads(result.stdout)["per_query"]["q1"] == {
        "AP": 0.5,
        "Judged@1": 0.0,
        "Bpref": 1.0,
        "RBP(p=0.5)": 0.25,
        "RBP(p=0.5)@1": 0.0,
        "infAP": 0.5,
        "nDCG(dcg='exp-log2')@10": pytest.approx(1 / 1.5849625),
    }


@pytest.mark.parametrize(
    ("content", "cause"),
    [
        pytest.param(gzip.compress(RUN.encode())[:-9], "Compressed file ended before", id="truncated"),
        pytest.param(RUN.encode(), "Not a gzipped file", id="plain-text"),
        pytest.param(gzip.compress(RUN.encode())[:10] + b"\xff" * 20, "Error -3 while decompressing", id="corrupt"),
    ],
)
def test_a_damaged_gz_run_ends_with_one_line_and_exit_code_2(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, cause: str
) -> None:
    path = tmp_path / "run.trec.gz"
    path.write_bytes(content)

    with pytest.raises(SystemExit) as caught:
        exit_on_user_error(partial(app, ["evaluate", "--run", str(path), *files[3:]]))

    assert caught.value.code == 2
    message = capsys.readouterr().err
    assert message.startswith(f"error: {path}: the gzip file is damaged: {cause}")
    assert message.count("\n") == 1


def test_a_run_of_three_columns_with_scores_is_refused_with_exit_code_2(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.trec").write_text("q1 d1 12.5\nq1 a/b 11.0\n")

    with pytest.raises(SystemExit) as caught:
        exit_on_user_error(partial(app, files))

    assert caught.value.code == 2
    assert "run.trec:1: query 'q1', document 'd1' has rank '12.5'; of three fields" in capsys.readouterr().err


def test_evaluate_loads_neither_ray_nor_torch_nor_faiss(files: list[str]) -> None:
    program = (
        "import sys\nfrom r2med_ray.cli.main import app\n"
        f"try: app({files!r})\n"
        "except SystemExit: print(sorted({'ray', 'torch', 'faiss', 'transformers', 'scipy'} & set(sys.modules)))"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert finished.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("command", "line"), [("tasks", "Biology"), ("models", "all-MiniLM-L6-v2"), ("models", "bm25")]
)
def test_the_tables_are_listed(command: str, line: str) -> None:
    result = CliRunner().invoke(app, [command])

    assert result.exit_code == 0
    assert any(shown.startswith(f"{line} ") for shown in result.stdout.splitlines())


def test_what_is_at_hand_beside_a_task_is_texts_for_r2med_and_lists_for_nano_sets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("R2MED_DATA", str(tmp_path))
    for file in ("Biology/hyde/gpt4/query_with_hydoc.jsonl", "NanoR2MED/bm25/NanoR2MEDBiology.parquet"):
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).touch()

    lines = CliRunner().invoke(app, ["tasks", "--generations"]).stdout.splitlines()
    shown = [" ".join(line.split()) for line in lines]

    assert "Biology 1 of 20 texts at hand hyde/gpt4" in shown
    assert "NanoR2MEDBiology 1 of 3 lists at hand bm25" in shown
    assert "NanoR2MEDBioinformatics 0 of 3 lists at hand" in shown
    assert not any(line.startswith("Demo") for line in shown)


def test_a_changed_byte_is_found_and_removed_by_hand(tmp_path: Path) -> None:
    store, key = ArtifactStore(str(tmp_path)), ArtifactKey("run", {"k": 1})
    with store.create(key) as writer:
        writer.write("run", b"123")
    assert key.name in CliRunner().invoke(app, ["artifacts", "ls", "--store", str(tmp_path)]).stdout
    assert CliRunner().invoke(app, ["artifacts", "verify", "--store", str(tmp_path)]).exit_code == 0

    Path(store.get(key).path("run")).write_bytes(b"124")

    verified = CliRunner().invoke(app, ["artifacts", "verify", "--store", str(tmp_path)])
    assert verified.exit_code == 1
    assert key.name in verified.stdout
    assert CliRunner().invoke(app, ["artifacts", "gc", "--damaged", "--store", str(tmp_path)]).exit_code == 0
    assert store.names() == []


@pytest.mark.parametrize("command", ["ls", "verify", "gc"])
def test_a_store_that_is_not_there_is_an_error_and_no_empty_list(command: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["artifacts", command, "--store", str(tmp_path / "stor")])

    assert isinstance(result.exception, ArtifactError)
    assert str(result.exception) == f"store '{tmp_path / 'stor'}': there is no such folder"
    assert not (tmp_path / "stor").exists()


def test_a_generated_text_is_listed_with_its_model_and_what_it_is_about(tmp_path: Path) -> None:
    asked = ChatPrompt(unit="Demo-Posts, query 'q7'", messages=({"role": "user", "content": "a"},), seed=1)
    texts, model = Texts(ArtifactStore(str(tmp_path))), ScriptedModel("qwen-7b")
    [key] = texts.keys(model, [asked])
    texts.write(model, ScriptedGenerator({"a": "b"}), {key.digest: (key, asked)})

    listed = CliRunner().invoke(app, ["artifacts", "ls", "--store", str(tmp_path)]).stdout
    assert "  qwen-7b, Demo-Posts, query 'q7'\n" in listed


def test_libraries_log_what_the_user_has_to_know_and_no_more() -> None:
    program = """
import logging, sys
from r2med_ray.cli.main import exit_on_user_error
from r2med_ray.models.services.chat import ChatModel
from r2med_ray.models.catalog.language_models import LanguageModelRow
from r2med_ray.chat import ChatPrompt

def command():
    import faiss
    row = LanguageModelRow(name="m", kind="openai", model="m", base_url=sys.argv[1])
    ChatModel(row).generate([ChatPrompt(unit="u", messages=({"role": "user", "content": "a"},), seed=1)])
    logging.getLogger("r2med_ray.benchmark").info("ours")
    logging.getLogger("faiss").warning("theirs")

exit_on_user_error(command)
"""
    with Service(completions(str.upper)) as service:
        finished = subprocess.run(
            [sys.executable, "-c", program, service.url], capture_output=True, text=True, check=True
        )
        assert len(service.requests) == 1

    assert finished.stderr.splitlines() == ["ours", "theirs"]


def test_what_the_user_can_mend_is_said_without_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        raise ConfigError("unknown task 'x'")

    with pytest.raises(SystemExit) as exit_code:
        exit_on_user_error(fail)

    assert exit_code.value.code == 2
    assert capsys.readouterr().err == "error: unknown task 'x'\n"


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command below a group, and the words that call it."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


@pytest.mark.parametrize(
    ("path", "command"), [pytest.param(*item, id=" ".join(item[0])) for item in commands(get_command(app))]
)
def test_r01_every_command_shows_its_help_with_every_word_of_it(
    path: tuple[str, ...], command: click.Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is in brackets in a help text may be taken for markup and vanish.
    monkeypatch.setenv("COLUMNS", "400")
    shown = CliRunner().invoke(app, [*path, "--help"])

    assert shown.exit_code == 0
    for parameter in command.params:
        assert (getattr(parameter, "help", None) or "") in shown.stdout


def test_a_plan_starts_no_cluster_and_counts_what_one_here_would_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(*_: object, **__: object) -> None:
        raise AssertionError("a plan started Ray")

    monkeypatch.setattr("ray.init", started)
    demo = str(Path(__file__).parents[2] / "jobs" / "full_benchmark.yaml")
    planned = CliRunner().invoke(app, ["plan", demo, "--store", str(tmp_path), "--address", "local"])

    assert planned.exit_code == 0, planned.exception
    assert f"cluster: 1 node(s), {get_num_cpus()} CPUs" in planned.stdout
    assert not list(tmp_path.iterdir())


def test_the_version_is_that_of_the_package() -> None:
    assert CliRunner().invoke(app, ["--version"]).stdout == f"r2med_ray {version('r2med-ray')}\n"


@pytest.mark.parametrize(
    ("qrels", "warned"),
    [
        pytest.param("q1 0 d1 1\nq2 0 d1 1\n", False, id="half"),
        pytest.param("q1 0 d1 1\nq2 0 d1 1\nq3 0 d1 1\n", True, id="a-third"),
    ],
)
def test_a_run_that_shares_few_queries_with_the_qrels_is_warned_of(
    qrels: str, warned: bool, files: list[str], tmp_path: Path
) -> None:
    (tmp_path / "qrels.txt").write_text(qrels)
    result = CliRunner().invoke(app, [*files, "--format", "json"])

    told = "run and qrels share few queries: 1 of the 3 queries with a positive judgement are answered"
    assert (told in result.stderr) == warned
    assert json.loads(result.stdout)["counts"]["queries"] == len(qrels.splitlines())


def test_a_run_of_another_split_that_shares_a_query_is_warned_of(files: list[str], tmp_path: Path) -> None:
    (tmp_path / "run.trec").write_text(RUN + "".join(f"x{number} Q0 d1 1 1.0 tag\n" for number in range(9)))

    assert "and 9 queries of the run are not in the qrels" in CliRunner().invoke(app, files).stderr
