import pytest

from r2med_ray.corpus.layouts import LAYOUTS, find_files
from r2med_ray.errors import ConfigError, DataError


def touch(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).touch()


@pytest.mark.parametrize(
    ("layout", "corpus", "queries", "qrels"),
    [
        ("r2med", "corpus.jsonl", "query.jsonl", "qrels.jsonl"),
        ("r2med", "corpus.jsonl.gz", "query.jsonl", "qrels.txt"),
        ("beir", "corpus.jsonl", "queries.jsonl", "qrels/dev.tsv"),
        ("beir", "corpus.jsonl.gz", "queries.tsv", "qrels/dev.tsv.gz"),
        ("trec", "corpus.jsonl", "topics.txt", "qrels.txt"),
        ("bright", "documents/dev-00000-of-00001.parquet", "examples/dev.parquet", "examples/dev.parquet"),
        ("bright-long", "long_documents/dev.jsonl", "examples/dev.jsonl", "examples/dev.jsonl"),
        ("trec", "corpus.jsonl", "topics.beir-v1.0.0-nfcorpus.test.tsv.gz", "test.2-1-0.qrel"),
    ],
)
def test_r14_the_files_of_each_layout_are_found(tmp_path, layout, corpus, queries, qrels):
    touch(tmp_path, corpus, queries, qrels)

    files = find_files(tmp_path, layout, "dev")

    assert (files.corpus, files.queries, files.qrels) == (tmp_path / corpus, tmp_path / queries, tmp_path / qrels)


def test_r14_the_file_that_the_published_code_reads_comes_before_the_one_of_its_readme(tmp_path):
    touch(tmp_path, "corpus.jsonl", "query.jsonl", "qrels.txt", "qrels.jsonl")

    assert find_files(tmp_path, "r2med", "test").qrels == tmp_path / "qrels.jsonl"


def test_a_missing_file_is_named_with_the_folder_and_the_layout(tmp_path):
    touch(tmp_path, "corpus.jsonl", "queries.jsonl", "qrels/train.tsv")

    with pytest.raises(DataError, match=rf"{tmp_path}: no qrels/test\.tsv or .*which the layout 'beir' needs"):
        find_files(tmp_path, "beir", "test")


def test_two_files_that_could_be_meant_are_refused(tmp_path):
    touch(tmp_path, "corpus.jsonl", "topics.a.tsv", "topics.b.tsv", "qrels.txt")

    with pytest.raises(DataError, match=r"topics\.a\.tsv, topics\.b\.tsv; keep one of them"):
        find_files(tmp_path, "trec", "test")


def test_only_beir_has_splits():
    assert [name for name, layout in LAYOUTS.items() if layout.has_splits] == ["beir"]


def test_an_unknown_layout_gets_the_nearest_name(tmp_path):
    with pytest.raises(ConfigError, match=r"unknown layout 'beer'\. Did you mean 'beir'"):
        find_files(tmp_path, "beer", "test")
