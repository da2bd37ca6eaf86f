import gzip
from pathlib import Path

import pytest

from r2med_ray.corpus.layouts import LAYOUTS
from r2med_ray.corpus.readers import read_documents, read_qrels, read_queries
from r2med_ray.errors import DataError
from r2med_ray.storage.ids import IdReader
from r2med_ray.types import Document
from tests.unit.corpus_files import write_jsonl


def documents(path, layout="r2med"):
    return list(read_documents(path, LAYOUTS[layout], IdReader(path)))


def queries(path, layout="r2med"):
    return {query.query_id: query.text for query in read_queries(path, LAYOUTS[layout], IdReader(path))}


def qrels(path):
    return read_qrels(path, LAYOUTS["r2med"], IdReader(path))


def write(path: Path, content: str) -> Path:
    path.write_bytes(content.encode())
    return path


@pytest.mark.parametrize("title", [{}, {"title": None}, {"title": ""}, {"title": "  "}])
def test_da01_a_document_without_a_title_is_exactly_its_text(tmp_path, title):
    path = write_jsonl(tmp_path / "corpus.jsonl", [{"_id": "d1", **title, "text": " the text "}])

    assert [document.content for document in documents(path, "beir")] == [" the text "]


def test_da01_a_title_is_kept_as_it_stands(tmp_path):
    path = write_jsonl(tmp_path / "corpus.jsonl", [{"_id": "d1", "title": "The title", "text": "the text"}])

    assert documents(path, "beir") == [Document(doc_id="d1", title="The title", text="the text")]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"id": "d2", "text": None}, "text is None"),
        ({"id": "d2", "text": ["a"]}, r"text is \['a'\]"),
        ({"id": "d2", "text": "a", "title": 7}, "title is 7"),
        ({"id": "d2", "text": "\ud800"}, "character 0 is half of a surrogate pair"),
        ({"id": "d2"}, "no field text; it has id"),
        ({"_id": "d2", "text": "a"}, "no field id; it has _id, text"),
        ({"id": 1.5, "text": "a"}, r"1\.5 is no id"),
    ],
)
def test_da01_mt09_a_bad_document_is_refused_with_file_and_line(tmp_path, record, message):
    path = write_jsonl(tmp_path / "corpus.jsonl", [{"id": "d1", "text": "a"}, record])

    with pytest.raises(DataError, match=rf"corpus\.jsonl:2: {message}"):
        documents(path)


def test_da09_only_id_text_and_title_are_read_whatever_else_varies(tmp_path):
    empty = [{"id": f"d{row}", "title": None, "text": "a", "metadata": {}} for row in range(1000)]
    path = write_jsonl(
        tmp_path / "corpus.jsonl", [*empty, {"id": "x", "title": "t", "text": "b", "metadata": {"url": [1]}}]
    )

    read = documents(path)

    assert len(read) == 1001
    assert read[999:] == [Document(doc_id="d999", text="a"), Document(doc_id="x", title="t", text="b")]


@pytest.mark.parametrize(("id_field", "text_field"), [("_id", "text"), ("id", "contents"), ("docno", "contents")])
def test_trec_corpora_use_the_field_names_of_their_tools(tmp_path, id_field, text_field):
    path = write_jsonl(tmp_path / "corpus.jsonl", [{id_field: "d1", text_field: "a"}])

    assert documents(path, "trec") == [Document(doc_id="d1", text="a")]


def test_queries_of_r2med_are_read_without_their_answers(tmp_path):
    path = write_jsonl(
        tmp_path / "query.jsonl",
        [{"id": "19", "text": "Why?", "doc_id": ["a/b.txt"], "answer": "<p>so</p>", "body_system": ""}],
    )

    assert queries(path) == {"19": "Why?"}


def test_da11_quotes_and_words_for_missing_values_are_text(tmp_path):
    path = write(tmp_path / "queries.tsv", '1\t"open quote\n2\tnan\nNA\ty"\nNULL\tNA\n')

    assert queries(path, "beir") == {"1": '"open quote', "2": "nan", "NA": 'y"', "NULL": "NA"}


@pytest.mark.parametrize("header", ["", "query-id\ttext\n", "qid\tquery\n"])
def test_da11_topics_are_read_with_and_without_a_header(tmp_path, header):
    path = write(tmp_path / "topics.tsv", f"{header}007\ta\tb\r\n7\tc\r\n")

    assert queries(path, "trec") == {"007": "a\tb", "7": "c"}


@pytest.mark.parametrize(
    "header",
    [
        "topic_id\ttopic_text",
        "topicid\ttopictitle",
        "query\tquery_text",
        "topic_id\tquestion_text",
        "#topic\tquery",
        "# Topic ID\tTopic Title",
        "Query-Number\tquestion text\tsource",
        "queryid\tcontents",
        "num\tsummary",
    ],
)
def test_a_first_line_of_header_words_is_no_query(tmp_path, header):
    path = write(tmp_path / "topics.tsv", f"{header}\n7\tfever\n")

    assert queries(path, "trec") == {"7": "fever"}


@pytest.mark.parametrize(
    ("query_id", "text"),
    [
        ("topic", "fever and rash"),
        ("query", "the text of a question"),
        ("topic_7", "query text"),
        ("#7", "query"),
        ("number", "numbness"),
        ("topic", "contentsx"),
    ],
)
def test_a_first_line_with_any_other_word_is_a_query(tmp_path, query_id, text):
    path = write(tmp_path / "topics.tsv", f"{query_id}\t{text}\n8\tcough\n")

    assert queries(path, "trec") == {query_id: text, "8": "cough"}


@pytest.mark.parametrize("header", ["", "query-id\tcorpus-id\tscore\n"])
def test_da11_qrels_of_beir_are_read_with_and_without_a_header(tmp_path, header):
    path = write(tmp_path / "test.tsv", f'{header}1\t"d1\t1\n2\tNA\t2\nnan\td"\t0\n')

    assert qrels(path) == ({"1": {'"d1': 1}, "2": {"NA": 2}, "nan": {'d"': 0}}, [])


def test_gzip_topics_are_read(tmp_path):
    path = tmp_path / "topics.tsv.gz"
    path.write_bytes(gzip.compress(b"1\tfever\n"))

    assert queries(path, "trec") == {"1": "fever"}


def test_r14_qrels_txt_may_hold_json_lines_or_four_columns(tmp_path):
    as_json = write_jsonl(tmp_path / "a.txt", [{"q_id": "19", "p_id": "a/b.txt", "score": 1}])
    as_trec = write(tmp_path / "b.txt", "19 0 a/b.txt 1\n")
    with_tabs = write(tmp_path / "c.txt", "19\t0\ta/b.txt\t1\n")

    assert qrels(as_json) == qrels(as_trec) == qrels(with_tabs) == ({"19": {"a/b.txt": 1}}, [])


def test_mteb_names_the_fields_of_its_qrels_otherwise(tmp_path):
    path = write_jsonl(tmp_path / "test.jsonl", [{"query-id": "1", "corpus-id": "d1", "score": 1.0}])

    assert qrels(path) == ({"1": {"d1": 1}}, [])


def test_mt11_a_hash_sign_is_part_of_an_id(tmp_path):
    path = write(tmp_path / "qrels.txt", "#q1 0 9#1 1\n#q1 0 #d1 1\n")

    assert qrels(path) == ({"#q1": {"9#1": 1, "#d1": 1}}, [])


def test_mt13_a_repeated_judgement_is_a_warning(tmp_path):
    path = write(tmp_path / "test.tsv", "q1\td1\t1\nq1\td2\t0\nq1\td1\t1\n")

    assert qrels(path) == (
        {"q1": {"d1": 1, "d2": 0}},
        ["1 lines of test.tsv repeat an earlier judgement, e.g. 'q1 d1 in lines 1 and 3'"],
    )


def test_mt17_a_grade_below_zero_is_kept(tmp_path):
    assert qrels(write(tmp_path / "qrels.txt", "q1 0 d1 -1\n")) == ({"q1": {"d1": -1}}, [])


def test_two_queries_with_one_id_are_refused_with_both_lines(tmp_path):
    path = write_jsonl(
        tmp_path / "query.jsonl", [{"id": 7, "text": "a"}, {"id": "8", "text": "b"}, {"id": "7", "text": "c"}]
    )

    with pytest.raises(DataError, match=r"query\.jsonl:3: query id '7' is in line 1 too"):
        queries(path)


@pytest.mark.parametrize("text", ["", " \n"])
def test_a_query_without_text_is_refused(tmp_path, text):
    path = write_jsonl(tmp_path / "query.jsonl", [{"id": "7", "text": text}])

    with pytest.raises(DataError, match=r"query\.jsonl:1: query '7' has no text"):
        queries(path)


def test_a_topic_line_without_a_tab_is_refused(tmp_path):
    with pytest.raises(DataError, match=r"topics\.tsv:1: expected id<TAB>text, got '7 fever'"):
        queries(write(tmp_path / "topics.tsv", "7 fever\n"), "trec")


@pytest.mark.parametrize(("read", "holds"), [(queries, "queries"), (qrels, "judgements")])
def test_r14_a_file_without_records_is_refused(tmp_path, read, holds):
    with pytest.raises(DataError, match=rf"empty\.jsonl: holds no {holds}"):
        read(write(tmp_path / "empty.jsonl", "\n\n"))
