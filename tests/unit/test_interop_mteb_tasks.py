"""The rows that mteb passes on become our documents and queries. These tests don't need mteb."""

import subprocess
import sys

import pytest

from r2med_ray.errors import DataError
from r2med_ray.interop.mteb_tasks import our_name, read_corpus, read_queries
from r2med_ray.types import Document, Query


def test_a_document_is_title_blank_text_without_white_space_around() -> None:
    rows = [
        {"id": "a", "title": "T", "text": "text\n"},
        {"id": "b", "title": "", "text": "  text  "},
        {"id": "c", "text": "no title"},
        {"id": "d", "title": None, "text": "null"},
    ]

    assert [document.content for document in read_corpus(rows)] == ["T text", "text", "no title", "null"]
    assert {document.title for document in read_corpus(rows)} == {""}


def test_the_last_text_of_an_id_stands_at_the_first_ones_place() -> None:
    rows = [{"id": "a", "text": "old"}, {"id": "b", "text": "b"}, {"id": "a", "text": "new"}]

    assert read_corpus(rows) == [Document(doc_id="a", text="new"), Document(doc_id="b", text="b")]


def test_a_query_is_taken_as_it_is_and_its_instruction_follows() -> None:
    rows = [{"id": "1", "text": " why? "}, {"id": "2", "text": "why", "instruction": "find"}]

    assert read_queries(rows) == [Query(query_id="1", text=" why? "), Query(query_id="2", text="why find")]


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(DataError, match="document 'a': expected a text, got NoneType"):
        read_corpus([{"id": "a", "image": b""}])
    with pytest.raises(DataError, match="query 'q': expected a text, got list"):
        read_queries([{"id": "q", "text": ["first turn", "second turn"]}])


def test_tasks_of_r2med_have_our_name_and_others_their_own() -> None:
    assert our_name("R2MEDMedXpertQAExamRetrieval") == "MedXpertQA-Exam"
    assert our_name("NFCorpus") == "NFCorpus"


def test_importing_the_room_loads_neither_mteb_nor_ray_nor_torch() -> None:
    program = (
        "import sys, r2med_ray.interop.mteb_run, r2med_ray.interop.mteb_encoder, r2med_ray.interop.mteb_table\n"
        "print(sorted({'mteb', 'datasets', 'ray', 'torch', 'transformers'} & set(sys.modules)))"
    )
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"
    )
