"""Run files: fields and lines are recognised, and mistakes are named."""

import gzip

import pytest

from r2med_ray.errors import DataError
from r2med_ray.evaluation.run_lines import BLOCK_BYTES, read_tables


def rows(path):
    """Return (query id, document id, score, line number) of every line."""
    return [tuple(row.values()) for table in read_tables(path) for row in table.to_pylist()]


@pytest.fixture
def run_file(tmp_path):
    def write(content):
        path = tmp_path / "run.trec"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("q1 Q0 d1 1 2.5 tag\nq1 Q0 d2 2 -1e-3 tag\n", id="plain"),
        pytest.param("q1 Q0 d1 1 2.5 tag\nq1 Q0 d2 2 -1e-3 tag", id="no-newline-at-the-end"),
        pytest.param("q1\tQ0\td1\t1\t2.5\ttag\nq1\tQ0\td2\t2\t-1e-3\ttag\n", id="tabs"),
        pytest.param("  q1   Q0 \t d1 1 +2.5 tag  \nq1 Q0 d2 2 -.001 tag\n", id="many-blanks"),
        pytest.param("q1 Q0 d1 1 2.5 tag\r\nq1 Q0 d2 2 -1e-3 tag\r\n", id="carriage-returns"),
        pytest.param("\ufeffq1 Q0 d1 1 2.5 tag\nq1 Q0 d2 2 -1e-3 tag\n", id="byte-order-mark"),
    ],
)
def test_fields_are_between_blanks_and_tabs(run_file, content):
    assert rows(run_file(content)) == [("q1", "d1", 2.5, 1), ("q1", "d2", -0.001, 2)]


def test_only_the_first_byte_order_mark_is_no_data(run_file):
    # The file begins with two marks, and the second block with one.
    lines = [
        "\ufeff\ufeffq1 Q0 d1 1 2.5 tag\n",
        "q1 Q0 d2 2 1 " + "t" * BLOCK_BYTES + "\n",
        "\ufeffq2 Q0 d1 1 1 tag\n",
    ]

    assert rows(run_file("".join(lines))) == [
        ("\ufeffq1", "d1", 2.5, 1),
        ("q1", "d2", 1.0, 2),
        ("\ufeffq2", "d1", 1.0, 3),
    ]


def test_blank_lines_are_passed_over_and_counted(run_file):
    assert rows(run_file("\n \nq Q0 d 1 1 t\n\nq Q0 e 2 0 t\n\n")) == [("q", "d", 1.0, 3), ("q", "e", 0.0, 5)]


@pytest.mark.parametrize(
    "doc_id",
    [
        "9#1",
        "#d1",
        "a\u2028b",
        "a\x85b",
        "a\u00a0b",
        "a\x01b",
        "a\x1cb",
        "neanderthals_diet/Neanderthal_0_43.txt",
        "../x",
        '"q"',
        'q"r',
        "NA",
        "null",
        "007",
        "🫀",
    ],
)
def test_mt11_da13_only_blanks_and_newlines_end_an_id(run_file, doc_id):
    assert rows(run_file(f"#q Q0 {doc_id} 1 1 t\n")) == [("#q", doc_id, 1.0, 1)]


def test_mt17_a_rank_only_file_is_scored_by_minus_the_rank(run_file):
    expected = [("q", "d1", -1.0, 1), ("q", "d2", -2.0, 2)]

    assert rows(run_file("q\td1\t1\nq\td2\t2\n")) == expected
    assert rows(run_file("q  d1 1\nq  d2 2\n")) == expected


@pytest.mark.parametrize("rank", ["1", "007", "16777216"])
@pytest.mark.parametrize("blank", [" ", "  "])  # read in columns, and line by line
def test_a_whole_number_from_one_on_is_a_rank(run_file, rank, blank):
    assert rows(run_file(f"q{blank}d1{blank}{rank}\n")) == [("q", "d1", -float(rank), 1)]


@pytest.mark.parametrize(
    "text",
    ["12.5", "1.0", "0", "-1", "+1", "1e1", "0x1", "1_0", "٣", "nan", "inf", "high", "16777217", "9" * 400, "0" * 9],
)
@pytest.mark.parametrize("blank", [" ", "\t", "  "])
def test_what_is_no_rank_is_refused_in_a_run_of_three_columns(run_file, text, blank):
    path = run_file(f"q{blank}x{blank}1\nq{blank}d{blank}{text}\n")

    with pytest.raises(DataError) as caught:
        rows(path)

    assert str(caught.value) == (
        f"{path}:2: query 'q', document 'd' has rank {text!r}; of three fields the last is a rank, a whole number "
        "from 1 on; scores need six fields"
    )


def test_a_packed_file_is_unpacked(tmp_path):
    path = tmp_path / "run.trec.gz"
    path.write_bytes(gzip.compress(b"q Q0 d 1 1 t\n"))

    assert rows(path) == [("q", "d", 1.0, 1)]


@pytest.mark.parametrize(
    ("damage", "cause"),
    [
        pytest.param(lambda raw: raw[:-9], "Compressed file ended before", id="truncated"),
        pytest.param(lambda _: b"q Q0 d 1 1 t\n", "Not a gzipped file", id="plain-text"),
        pytest.param(lambda raw: raw[:10] + b"\xff\xff" + raw[12:], "Error -3 while decompressing", id="corrupt"),
        pytest.param(lambda raw: raw + b"rest", "Not a gzipped file", id="something-behind-it"),
    ],
)
def test_a_damaged_gz_is_refused_with_its_cause(tmp_path, damage, cause):
    path = tmp_path / "run.trec.gz"
    path.write_bytes(damage(gzip.compress("".join(f"q Q0 d{i} 1 {i} t\n" for i in range(100)).encode())))

    with pytest.raises(DataError) as caught:
        rows(path)

    assert str(caught.value).startswith(f"{path}: the gzip file is damaged: {cause}")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        pytest.param("q Q0 d 1 1.0", "expected 6 fields (query_id q0 doc_id rank score tag)", id="a-field-too-few"),
        pytest.param("q Q0 d 1 1.0 t u", "expected 6 fields", id="a-field-too-many"),
        pytest.param("q Q0 d 1  t", "expected 6 fields", id="a-score-that-is-missing"),
        pytest.param("q Q0 d  1.0 t", "expected 6 fields", id="a-rank-that-is-missing"),
        pytest.param("q Q0 a\x01b 1 1.0", "expected 6 fields", id="a-control-character-is-no-blank"),
        pytest.param("q Q0 d 1 1.0\nt q Q0 e 2 0.5 t", "expected 6 fields", id="a-newline-in-the-wrong-place"),
        pytest.param("q Q0 d 1 high t", "query 'q', document 'd' has score 'high'", id="no-number"),
        pytest.param("q Q0 d 1 1_0 t", "has score '1_0'", id="a-number-for-python-alone"),
        pytest.param("q Q0 d 1 NA t", "has score 'NA'", id="no-number-for-a-csv-reader"),
        pytest.param("q Q0 d 1 nan t", "has score 'nan'; scores must be finite", id="mt05-nan"),
        pytest.param("q Q0 d 1 -inf t", "has score '-inf'", id="mt05-infinity"),
        pytest.param("q Q0 d 1 1e39 t", "has score '1e39'", id="mt05-too-large-for-32-bits"),
        pytest.param("q Q0 a\0b 1 1 t", "no NUL", id="mt19-nul"),
    ],
)
def test_a_malformed_line_is_named_with_its_value(run_file, line, message):
    path = run_file(f"q Q0 x 1 1.0 t\nq Q0 y 1 1.0 t\n{line}\nq Q0 z 2 0.5 t\n")

    with pytest.raises(DataError) as caught:
        rows(path)

    assert str(caught.value).startswith(f"{path}:3: ")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        b"q Q0 d 1 2 t\rq Q0 e 2 1 t\r",
        b"# ours\rq Q0 d 1 2 t\rq Q0 e 2 1 t\r",
        b"q 11 1\rq 12 2\r",  # between blanks there are six fields
        b"q Q0 d 1 2 t\r" * 1000,
    ],
)
def test_carriage_returns_alone_are_named_as_what_is_wrong(run_file, content):
    path = run_file(content)

    with pytest.raises(DataError) as caught:
        rows(path)

    assert str(caught.value).startswith(f"{path}:1: expected ")
    assert str(caught.value).endswith("; only a line feed ends a line, and here are carriage returns")
    assert len(str(caught.value)) < 600


def test_an_id_that_is_no_utf8_is_named(run_file):
    path = run_file(b"q Q0 x 1 1.0 t\nq Q0 \xff 1 1.0 t\n")

    with pytest.raises(DataError, match=r":2: an id is no UTF-8: b'q Q0 \\xff"):
        rows(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "expected a ranking, got an empty file"),
        (" \n\n", "expected a ranking, got an empty file"),
        ("\nq d\n", ":2: expected 6 fields (query_id q0 doc_id rank score tag) or 3 fields (query_id doc_id rank)"),
    ],
)
def test_a_file_that_is_no_run_is_refused(run_file, content, message):
    with pytest.raises(DataError) as caught:
        rows(run_file(content))

    assert message in str(caught.value)


def test_lines_and_their_numbers_survive_block_boundaries(run_file):
    num_lines = 3 * BLOCK_BYTES // 400
    tag = 360 * "t"
    long_id = "x" * (2 * BLOCK_BYTES)
    lines = [f"query-{i // 100} Q0 document/{i:09d} {i} {-i} {tag}" for i in range(num_lines)]
    lines[num_lines // 2] = f"query Q0 {long_id} 1 0.5 tag"

    found = rows(run_file("\n".join(["", *lines, "q Q0 d  1 1 t", ""])))  # unusual lines at both ends

    assert len(found) == num_lines + 1
    assert [line for *_, line in found] == list(range(2, num_lines + 3))
    assert found[num_lines // 2][1] == long_id
    assert found[-2][:3] == (f"query-{(num_lines - 1) // 100}", f"document/{num_lines - 1:09d}", float(1 - num_lines))
