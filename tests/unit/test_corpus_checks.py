import pytest

from r2med_ray.corpus.checks import compare, require_common_query, require_expected
from r2med_ray.errors import DataError
from r2med_ray.types import Query
from tests.unit.corpus_files import write_r2med


def findings(query_ids, qrels, corpus_ids):
    queries = [Query(query_id=query_id, text="x") for query_id in query_ids]
    return {finding.name: finding.sentences() for finding in compare(queries, qrels, corpus_ids) if finding.ids.count}


def test_files_that_fit_one_another_find_nothing():
    assert findings(["q1"], {"q1": {"d1": 1}}, {"d1"}) == {}


def test_da03_what_the_qrels_name_and_is_not_there_is_counted_with_three_examples():
    qrels = {"qX": {"d1": 1}, "q1": {"d2": 1, "d3": 1, "d4": 0, "d5": 1}}

    assert findings(["q1"], qrels, {"d1"}) == {
        "unknown_queries": ["1 queries of the qrels do not exist; they score 0, e.g. 'qX'"],
        "unknown_documents": [
            "4 documents of the qrels are not in the corpus; they can't be found, but count, e.g. 'd2', 'd3', 'd4'"
        ],
    }


def test_queries_that_can_not_score_are_counted():
    assert findings(["q1", "q2", "q3"], {"q1": {"d1": 0}, "q2": {"d1": -1}}, {"d1"}) == {
        "queries_without_qrels": ["1 queries have no qrels and are not evaluated, e.g. 'q3'"],
        "queries_without_positives": ["2 queries have qrels, but none above 0, e.g. 'q1', 'q2'"],
    }


def test_si01_an_id_of_a_query_and_a_document_is_counted():
    assert findings(["q1", "d1"], {"q1": {"d1": 1}}, {"d1"})["query_ids_in_corpus"] == [
        "1 ids stand for a query and for a document; see ignore_identical_ids, e.g. 'd1'"
    ]


def test_mt09_qrels_of_other_queries_are_refused_with_an_id_of_each_side(tmp_path):
    source = write_r2med(tmp_path)

    with pytest.raises(
        DataError, match=r"no query in common: .*query\.jsonl starts with '7', .*qrels\.jsonl with '007'"
    ):
        require_common_query(source, [Query(query_id="7", text="x")], {"007": {"d1": 1}})


def test_counts_other_than_the_expected_ones_are_refused_with_both_numbers(tmp_path):
    source = write_r2med(tmp_path, expected={"queries": 103, "rows": 6, "qrels": 374})

    with pytest.raises(
        DataError, match=r"task 'Tiny' in .*: 103 queries expected, 3 found; 374 qrels expected, 5 found"
    ):
        require_expected(source, {"queries": 3, "rows": 6, "qrels": 5, "documents": 6})
