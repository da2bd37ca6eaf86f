"""Judgements mean the same to both commands: each file is given to `r2med evaluate` and to a task of `r2med run`."""

import gzip
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from r2med_ray.cli.main import app, exit_on_user_error
from r2med_ray.corpus.loading import load_task
from r2med_ray.corpus.sources import TaskSource
from r2med_ray.errors import DataError
from r2med_ray.evaluation.evaluate import evaluate
from r2med_ray.evaluation.measures import Measure
from r2med_ray.evaluation.trec import read_run
from r2med_ray.pipeline import measure
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.ids import IdReader
from r2med_ray.storage.qrels import read_judgements
from r2med_ray.types import Run, ScoredDoc
from tests.unit.corpus_files import write_jsonl

NDCG = Measure.parse("nDCG@10")
WORTH = pytest.approx(0.796708, abs=1e-6)
"""nDCG@10 of d1, d2 where d1 has grade 1 and d2 has grade 3: (1 + 3 / log2(3)) / (3 + 1 / log2(3))."""

Command: TypeAlias = Callable[[Path], float]


def by_evaluate(qrels: Path, doc_ids: tuple[str, str] = ("d1", "d2")) -> float:
    """Return what `r2med evaluate` prints for a run that ranks two documents for q1."""
    result = CliRunner().invoke(app, [*_arguments(qrels, doc_ids), "--measures", "nDCG@10", "--format", "json"])
    if result.exception is not None:
        raise result.exception
    value: float = json.loads(result.stdout)["measures"]["nDCG@10"]
    return value


def by_run(qrels: Path, doc_ids: tuple[str, str] = ("d1", "d2")) -> float:
    """Return what the task of a job, loaded from files, gives the same run."""
    folder = qrels.parent
    write_jsonl(folder / "corpus.jsonl", ({"_id": doc_id, "text": "x"} for doc_id in (*doc_ids, "d3")))
    (folder / "topics.tsv").write_text("q1\tfever\n")
    source = TaskSource(name="t", suite="t", folder=folder, layout="trec")
    task = load_task(source, ArtifactStore(str(folder / "store")), documents_per_shard=10)
    _arguments(qrels, doc_ids)
    return measure(read_run(folder / "run.trec"), task, [NDCG]).means["nDCG@10"]


def _arguments(qrels: Path, doc_ids: tuple[str, str]) -> list[str]:
    run = qrels.parent / "run.trec"
    run.write_text("".join(f"q1 Q0 {doc_id} 1 {-place}.0 t\n" for place, doc_id in enumerate(doc_ids)))
    return ["evaluate", "--run", str(run), "--qrels", str(qrels)]


both = pytest.mark.parametrize("command", [by_evaluate, by_run])


def refused(command: Command, qrels: Path) -> str:
    with pytest.raises(DataError) as caught:
        command(qrels)
    return str(caught.value)


def write(folder: Path, content: str, name: str = "qrels.txt") -> Path:
    path = folder / name
    path.write_bytes(content.encode())
    return path


@both
@pytest.mark.parametrize(
    "content",
    [
        pytest.param("q1 0 d1 1\nq1 0 d2 3\nq1 0 d3 0\n", id="trec"),
        pytest.param("q1\t0\td1\t1\nq1\t0\td2\t3\n", id="trec-with-tabs"),
        pytest.param("q1\t0 d1\t1\nq1\t0 d2\t3\n", id="a-tab-and-a-blank"),
        pytest.param("q1 Q0\td1 1\nq1\tQ0 d2\t3\n", id="a-blank-and-a-tab"),
        pytest.param("q1\t0\td1\t1\nq1 0 d2 3\n", id="tabs-and-then-blanks"),
        pytest.param("q1 0 d1 1\nq1\t0 d2\t3\n", id="blanks-and-then-a-tab"),
        pytest.param("  q1  0   d1 1  \r\n\nq1 0 d2 3", id="many-blanks"),
        pytest.param("q1\td1\t1\nq1\td2\t3\n", id="beir"),
        pytest.param("q1 d1 1\nq1 d2 3\n", id="three-columns-by-blanks"),
        pytest.param("query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td2\t3\n", id="beir-with-header"),
        pytest.param("query_id iteration doc_id relevance\nq1 0 d1 1\nq1 0 d2 3\n", id="trec-with-header"),
        pytest.param("topic id\tdocument id\tGrade\nq1\td1\t1\nq1\td2\t3\n", id="a-header-of-words"),
        pytest.param("q1 0 d1 1.0\nq1 0 d2 +3\n", id="grades-written-otherwise"),
        pytest.param("\ufeffq1 0 d1 1e0\nq1 0 d2 3.\n", id="byte-order-mark"),
        pytest.param(
            '{"q_id": "q1", "p_id": "d1", "score": 1}\n{"q_id": "q1", "p_id": "d2", "score": 3.0}\n', id="r2med"
        ),
        pytest.param(
            '{"q_id": "q1", "p_id": "d1", "score": "1"}\n{"q_id": "q1", "p_id": "d2", "score": "3.0"}\n',
            id="grades-as-json-text",
        ),
        pytest.param(
            '{"query-id": "q1", "corpus-id": "d1", "score": 1}\n{"query-id": "q1", "corpus-id": "d2", "score": 3}\n',
            id="mteb",
        ),
        pytest.param(
            '{"q_id": "q1", "p_id": ["d1"]}\n{"q_id": "q1", "p_id": ["d2"], "score": 3}\n', id="lists-of-documents"
        ),
    ],
)
def test_judgements_of_every_shape_mean_the_same(tmp_path: Path, command: Command, content: str) -> None:
    assert command(write(tmp_path, content)) == WORTH


@both
@pytest.mark.parametrize("names", [("q_id", "p_id"), ("query-id", "corpus-id")])
def test_a_parquet_table_of_judgements_is_read(tmp_path: Path, command: Command, names: tuple[str, str]) -> None:
    columns = {names[0]: ["q1", "q1"], names[1]: ["d1", "d2"], "score": [1.0, 3.0]}
    pq.write_table(pa.table(columns), tmp_path / "qrels.parquet")

    assert command(tmp_path / "qrels.parquet") == WORTH


@both
@pytest.mark.parametrize("content", ["q1 0 d1 1\nq1 0 d2 3\n", '{"q_id": "q1", "p_id": ["d1", "d2"], "score": 1}\n'])
def test_packed_judgements_are_unpacked(tmp_path: Path, command: Command, content: str) -> None:
    (tmp_path / "qrels.txt.gz").write_bytes(gzip.compress(content.encode()))

    # two documents of the same grade in any order are ideal
    assert command(tmp_path / "qrels.txt.gz") == (1.0 if "{" in content else WORTH)


@pytest.mark.parametrize("command", [by_evaluate, by_run])
@pytest.mark.parametrize("space", ["\u00a0", "\u3000", "\u2009", "\x85"])
@pytest.mark.parametrize("layout", ["q1 0 {} {}\n", "q1\t{}\t{}\n", "q1\t0 {}\t{}\n"])
def test_a_space_that_is_not_ascii_is_part_of_an_id(
    tmp_path: Path, command: Callable[[Path, tuple[str, str]], float], space: str, layout: str
) -> None:
    doc_ids = (f"d{space}1", f"{space}d{space}2{space}")

    assert command(write(tmp_path, layout.format(doc_ids[0], 1) + layout.format(doc_ids[1], 3)), doc_ids) == WORTH


@both
@pytest.mark.parametrize(
    "grade",
    [
        *["1.5", "1_0", "٣", "x", "nan", "inf", "0x1", "-", str(2**31), str(2**63), "1e308", "1e999", "9" * 5000],
        *["1.00000000000000000000001", "1000000.00000000001", "1e-400"],  # whole once a float has rounded them
        *[str(-(2**31)), str(-(2**40)), "1e999999999", f"1e{'9' * 40}"],
    ],
)
def test_a_grade_that_is_no_whole_number_within_the_bounds_is_named_with_its_line(
    tmp_path: Path, command: Command, grade: str
) -> None:
    path = write(tmp_path, f"q1 0 d1 1\nq1 0 d2 {grade}\n")

    assert refused(command, path).startswith(
        f"{path}:2: grade {grade!r:.80} is no whole number from -1000000 to 1000000"
    )


@both
@pytest.mark.parametrize(
    "grade", ["1.5", "0.5", '"1.5"', '"1_0"', '"٣"', "true", "null", "[1]", str(2**63), "1e308", "NaN", "Infinity"]
)
def test_a_json_grade_that_is_no_whole_number_of_32_bits_is_named_with_its_line(
    tmp_path: Path, command: Command, grade: str
) -> None:
    record = '{{"q_id": "q1", "p_id": "d{}", "score": {}}}\n'
    path = write(tmp_path, record.format(1, 1) + record.format(2, grade))

    assert refused(command, path).startswith(f"{path}:2: grade {json.loads(grade)!r} is no whole number")


@both
def test_a_json_number_of_5000_digits_is_named_with_its_line(tmp_path: Path, command: Command) -> None:
    path = write(tmp_path, f'{{"q_id": "q1", "p_id": "d1", "score": {"9" * 5000}}}\n')

    assert refused(command, path) == f"{path}:1: a number has more than 4300 digits, which is too long"


@both
def test_the_bounds_of_a_grade_are_grades(tmp_path: Path, command: Command) -> None:
    # d2 has the only grade above 0 and is at rank 2: nDCG@10 is 1 / log2(3).
    path = write(tmp_path, "q1 0 d1 -1000000\nq1 0 d2 1000000.000\n")

    assert command(path) == pytest.approx(0.630930, abs=1e-6)


@both
@pytest.mark.parametrize("column", [[1.0, 1.5], [1, None], ["1", "x"], [1, 2**40]])
def test_a_bad_grade_of_a_table_is_named_with_its_row(tmp_path: Path, command: Command, column: list[object]) -> None:
    path = tmp_path / "qrels.parquet"
    pq.write_table(pa.table({"query-id": ["q1", "q1"], "corpus-id": ["d1", "d2"], "score": column}), path)

    assert refused(command, path).startswith(f"{path}:2: grade {column[1]!r} is no whole number")


@both
@pytest.mark.parametrize("name", ["q_id", "p_id"])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ('"\\ud800"', "character 0 is half of a surrogate pair"),
        ('"a b"', "'a b' is no id; expected a text that is not blank and holds no white space"),
        ('"\u3000"', "is no id"),
        ('""', "'' is no id"),
        ('"a\\u0000b"', "is no id"),
        ("1.5", "1.5 is no id"),
        ("true", "True is no id"),
        ("null", "None is no id"),
    ],
)
def test_what_is_no_id_is_named_with_its_line(
    tmp_path: Path, command: Command, name: str, value: str, message: str
) -> None:
    values = {"q_id": '"q1"', "p_id": '"d2"', name: value}
    path = write(
        tmp_path,
        '{"q_id": "q1", "p_id": "d1", "score": 1}\n'
        f'{{"q_id": {values["q_id"]}, "p_id": {values["p_id"]}, "score": 1}}\n',
    )

    found = refused(command, path)
    assert found.startswith(f"{path}:2: ")
    assert message in found


@both
@pytest.mark.parametrize(
    ("first", "line", "message"),
    [
        ("q1 0 d1 1", "q1 d2", "expected query id, 0, document id and grade, as in line 1; got 2 fields: 'q1 d2'"),
        ("q1 0 d1 1", "q1 d2 1", "as in line 1; got 3 fields"),
        ("q1 0 d1 1", "q1 0 d2 1 x", "as in line 1; got 5 fields"),
        ("q1\td1\t1", "q1\td 2\t1", "as in line 1; got 4 fields: 'q1\\td 2\\t1'. No id may hold white space"),
        ("q1\td1\t1", "q 1\td2\t1", "expected query id, document id and grade, as in line 1; got 4 fields"),
        ("q1\td1\t1", "q1\t\t1", "got 2 fields"),
        ("q1\td1\t1", "\td2\t1", "got 2 fields"),
        ("q1\td1\t1", "q1\t\td2\t1", "tabs and blanks don't separate the same fields"),
        ("q1 0 d1 1", "q1\tPMC 2\t1", "tabs and blanks don't separate the same fields"),
        ("q1 0 d1 1", "q1 0 a\0b 1", "is no id"),
    ],
)
def test_a_line_of_another_layout_is_named(
    tmp_path: Path, command: Command, first: str, line: str, message: str
) -> None:
    path = write(tmp_path, f"{first}\n{line}\n")

    found = refused(command, path)
    assert found.startswith(f"{path}:2: ")
    assert message in found


@both
@pytest.mark.parametrize(
    "line", ["q1\tPMC 1\t1", "PMC 1\td1\t1", "q1,d1,1", "q1 d1", "q1\t1 d1\t1", "q1 0 d 1 1", "score"]
)
def test_a_file_of_one_layout_that_is_none_of_ours_is_not_guessed_at(
    tmp_path: Path, command: Command, line: str
) -> None:
    path = write(tmp_path, f"{line}\n")

    assert refused(command, path).startswith(f"{path}:1: ")


@both
def test_a_first_line_with_a_bad_grade_is_no_header(tmp_path: Path, command: Command) -> None:
    path = write(tmp_path, "q1 0 d1 high\nq1 0 d2 3\n")

    assert refused(command, path).startswith(f"{path}:1: grade 'high' is no whole number")


@both
@pytest.mark.parametrize("content", ["", "\n \n", "query-id\tcorpus-id\tscore\n", '{"q_id": "q1", "p_id": []}\n'])
def test_a_file_without_judgements_is_refused(tmp_path: Path, command: Command, content: str) -> None:
    path = write(tmp_path, content)

    assert refused(command, path) == f"{path}: holds no judgements"


@both
def test_a_record_without_a_field_is_named(tmp_path: Path, command: Command) -> None:
    path = write(tmp_path, '{"q_id": "q1", "p_id": "d1"}\n')

    assert refused(command, path) == f"{path}:1: no field score; it has q_id, p_id"


@both
def test_mt13_two_grades_for_one_document_are_refused_with_both_lines(tmp_path: Path, command: Command) -> None:
    path = write(tmp_path, "q1 0 d1 1\nq1 0 d2 1\nq1 0 d1 0\n")

    assert refused(command, path) == f"{path}:3: query 'q1', document 'd1' has grade 0, but 1 in line 1"


@both
@pytest.mark.parametrize(
    "damage", [lambda raw: raw[:-9], lambda _: b"q1 0 d1 1\n", lambda raw: raw[:10] + b"\xff\xff"]
)
def test_a_damaged_gz_of_judgements_is_refused_with_its_cause(
    tmp_path: Path, command: Command, damage: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "qrels.txt.gz"
    path.write_bytes(damage(gzip.compress(b"q1 0 d1 1\nq1 0 d2 3\n")))

    assert refused(command, path).startswith(f"{path}: the gzip file is damaged: ")


@both
@pytest.mark.parametrize("damage", [lambda raw: raw[:-9], lambda _: b"q1 0 d1 1\n", lambda raw: raw[:4] + raw[40:]])
def test_a_damaged_table_of_judgements_is_refused_with_its_cause(
    tmp_path: Path, command: Command, damage: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "qrels.parquet"
    pq.write_table(pa.table({"q_id": ["q1"], "p_id": ["d1"], "score": [1]}), path)
    path.write_bytes(damage(path.read_bytes()))

    assert refused(command, path).startswith(f"{path}: ")


def test_the_exit_code_of_a_bad_file_is_2_and_its_error_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path, "q1 0 d1 1.5\n")

    with pytest.raises(SystemExit) as caught:
        exit_on_user_error(partial(app, _arguments(path, ("d1", "d2"))))

    assert caught.value.code == 2
    assert capsys.readouterr().err == f"error: {path}:1: grade '1.5' is no whole number from -1000000 to 1000000\n"


def test_mt09_mt13_what_was_converted_and_repeated_is_counted(tmp_path: Path) -> None:
    path = write(tmp_path, '{"q_id": 7, "p_id": "d1", "score": 1}\n{"q_id": "7", "p_id": "d1", "score": 1}\n')
    ids = IdReader(path)

    assert read_judgements(path, ids) == (
        {"7": {"d1": 1}},
        ["1 lines of qrels.txt repeat an earlier judgement, e.g. '7 d1 in lines 1 and 2'"],
    )
    assert ids.warnings() == ["1 ids of qrels.txt are JSON integers and were read as text, e.g. '7'"]


@pytest.mark.parametrize(
    "grade", [1.5, float("nan"), True, None, "x", 2**31, 2**63, pytest.param(10**5000, id="5001-digits"), 1e308]
)
def test_a_grade_in_memory_that_is_no_whole_number_is_refused_and_not_cut(grade: object) -> None:
    run = Run(tag="t", rankings={"q1": (ScoredDoc("d1", 1.0),)})

    with pytest.raises(DataError, match=r"evaluate: query 'q1', document 'd1': grade .* is no whole number from"):
        evaluate(run, {"q1": {"d2": 1, "d1": grade}}, [NDCG])  # type: ignore[dict-item]


@pytest.mark.parametrize("grade", [1, 1.0, "1"])
def test_a_grade_in_memory_may_be_written_otherwise(grade: int) -> None:
    run = Run(tag="t", rankings={"q1": (ScoredDoc("d1", 1.0), ScoredDoc("d2", 0.5))})

    # d1 has grade 1 and d2 has grade 3
    assert evaluate(run, {"q1": {"d1": grade, "d2": 3}}, [NDCG]).means["nDCG@10"] == WORTH


def test_an_id_in_memory_that_no_file_can_hold_is_named() -> None:
    run = Run(tag="t", rankings={"q1": (ScoredDoc("\ud800", 1.0),)})

    with pytest.raises(DataError, match=r"id '\\ud800' holds half of a surrogate pair"):
        evaluate(run, {"q1": {"d1": 1}}, [NDCG])
