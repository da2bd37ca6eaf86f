"""Parquet rows are read from all parts in order, and a file that is no table is refused."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from r2med_ray.errors import DataError
from r2med_ray.storage.parquet import count_rows, parts, read_rows


def write_parts(folder: Path, *columns: list[int]) -> list[Path]:
    paths = [folder / f"x-{index:05d}-of-{len(columns):05d}.parquet" for index in range(len(columns))]
    for path, values in zip(paths, columns, strict=True):
        pq.write_table(pa.table({"n": values}), path)
    return paths


def test_parts_are_read_in_their_order_and_rows_are_numbered_within_each(tmp_path: Path) -> None:
    paths = write_parts(tmp_path, [5, 3], [], [9])

    assert [(row.values["n"], row.where) for row in read_rows(paths[0])] == [
        (5, f"{paths[0]}:1"),
        (3, f"{paths[0]}:2"),
        (9, f"{paths[2]}:1"),
    ]
    assert count_rows(paths[0]) == 3


def test_numbers_go_on_over_the_batches_of_a_part(tmp_path: Path) -> None:
    [path] = write_parts(tmp_path, list(range(3000)))

    assert [row.line for row in read_rows(path)] == list(range(1, 3001))


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    first, second, _ = write_parts(tmp_path, [1], [2], [3])
    second.unlink()

    with pytest.raises(DataError, match=r"x-00001-of-00003\.parquet: this part of 3 is missing"):
        parts(first)


def test_what_is_no_parquet_is_refused_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_text("no table")

    with pytest.raises(DataError, match=r"x\.parquet: no Parquet file"):
        list(read_rows(tmp_path / "x.parquet"))


def test_changed_bytes_inside_a_table_are_refused_with_its_name(tmp_path: Path) -> None:
    [path] = write_parts(tmp_path, list(range(1000)))
    raw = path.read_bytes()
    path.write_bytes(raw[:4] + bytes(len(raw) // 2) + raw[4 + len(raw) // 2 :])  # the footer stays whole

    with pytest.raises(DataError, match=r"x-00000-of-00001\.parquet: "):
        list(read_rows(path))


def test_a_text_that_is_no_utf8_is_refused_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    bad = pa.StringArray.from_buffers(1, pa.py_buffer(b"\0\0\0\0\1\0\0\0"), pa.py_buffer(b"\xff"))
    pq.write_table(pa.table({"text": bad}), path)

    with pytest.raises(DataError, match=r"x\.parquet: can't be read: 'utf-8' codec can't decode"):
        list(read_rows(path))
