"""A packed file that is damaged is refused by every reader with its name and the cause."""

import gzip
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from r2med_ray.corpus.layouts import LAYOUTS
from r2med_ray.corpus.readers import read_documents, read_queries
from r2med_ray.errors import DataError
from r2med_ray.evaluation.run_columns import read_pieces, read_rows
from r2med_ray.evaluation.trec import read_qrels, read_run
from r2med_ray.rewriting.generation_files import read_generations
from r2med_ray.storage.ids import IdReader
from r2med_ray.storage.jsonl import read_jsonl
from r2med_ray.types import Query

TREC = LAYOUTS["trec"]

READERS: dict[str, tuple[Callable[[Path], object], Callable[[int], str]]] = {
    "run": (read_run, lambda n: f"q Q0 d{n} 1 {n} t\n"),
    "run, whole": (read_rows, lambda n: f"q Q0 d{n} 1 {n} t\n"),
    "run, in pieces": (lambda path: list(read_pieces(path)), lambda n: f"q{n} Q0 d 1 1 t\n"),
    "ranks": (read_run, lambda n: f"q\td{n}\t{n + 1}\n"),
    "qrels": (read_qrels, lambda n: f"q 0 d{n} 1\n"),
    "qrels as records": (read_qrels, lambda n: f'{{"q_id": "q", "p_id": "d{n}", "score": 1}}\n'),
    "records": (lambda path: list(read_jsonl(path)), lambda n: f'{{"id": {n}}}\n'),
    "corpus": (
        lambda path: list(read_documents(path, TREC, IdReader(path))),
        lambda n: f'{{"id": "{n}", "text": "a"}}\n',
    ),
    "topics": (
        lambda path: read_queries(path, TREC, IdReader(path)),
        lambda n: f"<top><num>{n}<title>fever</top>\n",
    ),
    "queries": (lambda path: read_queries(path, TREC, IdReader(path)), lambda n: f"{n}\tfever\n"),
    "generations": (
        partial(read_generations, queries=[Query(query_id=str(n), text="x") for n in range(300)]),
        lambda n: f'{{"id": "{n}", "hy_doc": "a"}}\n',
    ),
}

DAMAGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "truncated": (lambda raw: raw[: len(raw) // 2], "Compressed file ended before the end-of-stream marker"),
    "without its end": (lambda raw: raw[:-4], "Compressed file ended before the end-of-stream marker"),
    "plain text": (gzip.decompress, "Not a gzipped file"),
    "corrupt": (lambda raw: raw[:20] + bytes(20) + raw[40:], "Error -3 while decompressing data"),
    "changed": (lambda raw: raw[:-8] + bytes(4) + raw[-4:], "CRC check failed"),
    "empty": (lambda _: b"\x1f\x8b", "Compressed file ended before the end-of-stream marker"),
}


def packed(line: Callable[[int], str]) -> bytes:
    return gzip.compress("".join(line(n) for n in range(300)).encode())


@pytest.mark.parametrize("reader", READERS)
def test_a_whole_file_is_read(tmp_path: Path, reader: str) -> None:
    read, line = READERS[reader]
    (tmp_path / "file.gz").write_bytes(packed(line))

    assert read(tmp_path / "file.gz")


@pytest.mark.parametrize("reader", READERS)
def test_a_packed_file_may_say_so_in_capital_letters(tmp_path: Path, reader: str) -> None:
    read, line = READERS[reader]
    (tmp_path / "file.GZ").write_bytes(packed(line))

    assert read(tmp_path / "file.GZ")


@pytest.mark.parametrize("reader", READERS)
def test_a_packed_file_with_the_name_of_a_text_is_refused_with_its_packing(tmp_path: Path, reader: str) -> None:
    read, line = READERS[reader]
    path = tmp_path / "run.txt"
    path.write_bytes(packed(line))

    with pytest.raises(DataError) as caught:
        read(path)

    assert str(caught.value) == f"{path}:1: packed by gzip; unpack it, or let its name end in `.gz`"


@pytest.mark.parametrize("encoding", ["UTF-16-LE", "UTF-16-BE", "UTF-32-LE", "UTF-32-BE"])
@pytest.mark.parametrize("name", ["run.txt", "run.txt.gz"])
@pytest.mark.parametrize("reader", READERS)
def test_a_file_of_another_encoding_is_refused_with_its_encoding(
    tmp_path: Path, reader: str, name: str, encoding: str
) -> None:
    read, line = READERS[reader]
    path = tmp_path / name
    content = ("\ufeff" + line(1)).encode(encoding)
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)

    with pytest.raises(DataError) as caught:
        read(path)

    assert str(caught.value) == (
        f"{path}:1: not UTF-8 but {encoding[:6]}, by its byte order mark; convert it to UTF-8"
    )


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("reader", READERS)
def test_a_damaged_file_is_refused_with_its_name_and_the_cause(tmp_path: Path, reader: str, damage: str) -> None:
    read, line = READERS[reader]
    spoil, cause = DAMAGES[damage]
    path = tmp_path / "file.gz"
    path.write_bytes(spoil(packed(line)))

    with pytest.raises(DataError) as caught:
        read(path)

    assert str(caught.value).startswith(f"{path}: the gzip file is damaged: {cause}")


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", ["missing", "missing.gz", "folder"])
def test_a_file_that_is_not_there_is_refused_with_its_name(tmp_path: Path, reader: str, name: str) -> None:
    read, _ = READERS[reader]
    (tmp_path / "folder").mkdir()

    with pytest.raises(DataError, match=rf"{name}: can't be read: (No such file|Is a directory)"):
        read(tmp_path / name)
