"""A shard is cut into pieces of about the same amount of text, by its own text alone."""

from collections.abc import Sequence

import pytest

from r2med_ray.corpora import CorpusShard
from r2med_ray.corpus.pieces import PIECE_BYTES, PIECE_ROWS, num_pieces, piece_of, text_bytes
from r2med_ray.corpus.shards import from_table, to_table
from r2med_ray.types import Document


def documents_of(lengths: Sequence[int]) -> list[Document]:
    return [Document(doc_id=f"d{number}", text="x" * length) for number, length in enumerate(lengths)]


def pieces_of(lengths: Sequence[int], pieces: int) -> list[list[int]]:
    """Return the lengths of the texts of each piece."""
    table = to_table(documents_of(lengths), start_row=7)
    found = [from_table(piece_of(table, piece, pieces)) for piece in range(pieces)]
    assert [document for piece in found for document in piece] == documents_of(lengths)
    return [[len(document.text) for document in piece] for piece in found]


@pytest.mark.parametrize(
    ("rows", "size", "expected"),
    [
        pytest.param(25_000, 32_000_000, 40, id="40 times the bytes of a piece"),
        pytest.param(25_000, 0, 13, id="bytes that were not noted"),
        pytest.param(10, PIECE_BYTES, 1, id="one piece"),
        pytest.param(10, PIECE_BYTES + 1, 2, id="a byte too many"),
        pytest.param(PIECE_ROWS + 1, 0, 2, id="a row too many"),
        pytest.param(3, 100 * PIECE_BYTES, 3, id="no more pieces than rows"),
    ],
)
def test_bytes_and_rows_of_a_shard_decide_how_many_pieces_it_has(rows: int, size: int, expected: int):
    shard = CorpusShard(index=0, path="", start_row=0, num_rows=rows, digest="", text_bytes=size)

    assert num_pieces(shard) == expected


def test_pieces_have_the_same_share_of_the_text_and_not_of_the_rows():
    # 2 × 960 bytes and 10 × 152 of text, each with 40 for its row: 2,000 and 1,920, so half is reached at row 2.
    assert pieces_of([960, 960, *[152] * 10], 2) == [[960, 960], [152] * 10]


def test_every_piece_has_a_row_wherever_a_huge_text_stands():
    assert pieces_of([10_000, 1, 1, 1], 4) == [[10_000], [1], [1], [1]]
    assert pieces_of([1, 1, 1, 10_000], 4) == [[1], [1], [1], [10_000]]
    assert pieces_of([1, 1, 10_000, 1, 1], 3) == [[1, 1, 10_000], [1], [1]]
    assert pieces_of([0, 0, 0], 3) == [[0], [0], [0]]


def test_bytes_are_those_of_titles_and_texts_in_utf8():
    table = to_table([Document(doc_id="d", text="é", title="ab"), Document(doc_id="e", text="")], start_row=0)

    assert text_bytes(table) == 4  # é has two bytes
