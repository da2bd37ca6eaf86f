"""Queries with the same vector are found in every kind of table; equal questions are no loss."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

from r2med_ray.first_stages.stored_cuts import same_vectors
from r2med_ray.indexing import late_interaction, sparse
from r2med_ray.indexing.embedding import vectors_table
from r2med_ray.types import Expansion, Query

TEXTS = ("a rash", "a fever", "a cough", "a rash")
QUERIES = [Query(query_id=f"q{number}", text=text) for number, text in enumerate(TEXTS)]
IDS = [query.query_id for query in QUERIES]


def dense(*rows: float) -> pa.Table:
    return vectors_table(range(len(rows)), IDS, np.array([[row, 1] for row in rows], np.float32))


def weights(*rows: float) -> pa.Table:
    return sparse.query_table(IDS, [[csr_array(np.array([[row, 0, 1]], np.float32))] for row in rows])


def tokens(*rows: float) -> pa.Table:
    return late_interaction.query_table(IDS, [[np.array([[row, 1]] * 3, np.float16)] for row in rows])


def words(*rows: float) -> pa.Table:
    """A kind of one's own, whose rows are of any length."""
    return pa.table({"doc_id": IDS, "words": [["rash"] * int(row) for row in rows]})


@pytest.mark.parametrize("table", [dense, weights, tokens, words])
def test_queries_with_other_texts_and_the_same_vector_are_counted(table) -> None:  # type: ignore[no-untyped-def]
    # q0 and q1 have one vector. q3 has that of q0 because it is the same question, and shares it with q1 as well.
    assert same_vectors(QUERIES, {"vectors": table(1, 1, 2, 1)}) == 3
    # Only q0 and q3 share a vector, and they are one question.
    assert same_vectors(QUERIES, {"vectors": table(1, 2, 3, 1)}) == 0


def test_a_generated_text_makes_another_question_of_the_same_words() -> None:
    written = Query(query_id="q3", text="a rash", expansions=(Expansion(text="measles", method="hyde"),))

    assert same_vectors([*QUERIES[:3], written], {"vectors": dense(1, 2, 3, 1)}) == 2


def test_tables_without_one_row_per_query_say_nothing() -> None:
    assert same_vectors(QUERIES, {}) is None
    assert same_vectors(QUERIES[:2], {"vectors": dense(1, 1, 2, 1)}) is None
