"""Which documents of a corpus have the same text, and which have none."""

import pytest

from r2med_ray.corpus.convert import convert_corpus, load_corpus
from r2med_ray.corpus.loading import load_task
from r2med_ray.corpus.text_survey import TextSurvey, survey_texts
from tests.unit.corpus_files import write_jsonl, write_r2med

CORPUS = [("a", "cat"), ("b", "dog"), ("c", ""), ("d", "cat"), ("e", " \n"), ("f", "cow"), ("g", "dog"), ("h", "cat")]


@pytest.mark.parametrize("documents_per_shard", [1, 3, 100])
def test_a_survey_is_the_same_for_all_shards(tmp_path, store, documents_per_shard):
    source = write_r2med(tmp_path / "a", corpus=CORPUS)
    corpus = load_corpus(convert_corpus(source, store, documents_per_shard=documents_per_shard))
    survey = survey_texts(store, corpus)

    assert sorted(survey.same_texts) == [("a", "d", "h"), ("b", "g")]
    assert survey.copied_rows == (0, 1, 3, 6, 7)
    assert survey.blank == ("c", "e")


def test_a_survey_is_made_once(tmp_path, store):
    corpus = load_corpus(convert_corpus(write_r2med(tmp_path / "a", corpus=CORPUS), store, documents_per_shard=3))
    first = survey_texts(store, corpus)
    before = store.names()

    assert survey_texts(store, corpus) == first
    assert store.names() == before


def test_rows_that_are_skipped_are_not_surveyed(tmp_path, store):
    source = write_r2med(tmp_path / "a", corpus=[("a", "cat"), ("a", "cat"), ("b", ""), ("b", "")])

    assert survey_texts(store, load_corpus(convert_corpus(source, store, documents_per_shard=3))) == TextSurvey(
        same_texts=(), copied_rows=(), blank=("b",)
    )


def test_a_title_is_part_of_the_text_as_it_is_in_an_index(tmp_path, store):
    source = write_r2med(tmp_path / "a")
    write_jsonl(
        source.folder / "corpus.jsonl",
        [
            {"id": "a", "title": "A", "text": "cat"},
            {"id": "b", "text": "A cat"},
            {"id": "c", "text": "cat"},
            {"id": "d", "title": "only a title", "text": ""},
        ],
    )
    survey = survey_texts(store, load_corpus(convert_corpus(source, store, documents_per_shard=9)))

    assert survey == TextSurvey(same_texts=(("a", "b"),), copied_rows=(0, 1), blank=())


def test_a_task_counts_blank_documents_and_those_with_the_text_of_a_judged_one(tmp_path, store):
    # "cat" is judged under one of three ids, "dog" under both of its ids, and nobody judged a blank text.
    qrels = [("q1", "d", 1), ("q1", "b", 0), ("q2", "g", 1), ("q3", "f", 1)]
    task = load_task(write_r2med(tmp_path / "a", corpus=CORPUS, qrels=qrels), store, documents_per_shard=3)

    assert (task.counts["blank_documents"], task.counts["same_text_as_judged"]) == (2, 4)
    assert sorted(task.same_texts) == [("a", "d", "h"), ("b", "g")]
    assert task.corpus.copied_rows == (0, 1, 3, 6, 7)
    assert task.warnings == (
        "2 documents are blank: they have neither a title nor a text, e.g. 'c', 'e'",
        "4 documents have the same text as a judged document with another id, e.g. 'a', 'h', 'b'",
    )
