import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from r2med_ray.corpus.convert import convert_corpus, convert_documents, load_corpus
from r2med_ray.corpus.loading import read_shard
from r2med_ray.errors import DataError
from r2med_ray.types import Document
from tests.unit.corpus_files import DOCUMENTS, write_r2med


def convert(source, store, documents_per_shard=4, **options):
    return load_corpus(convert_corpus(source, store, documents_per_shard=documents_per_shard, **options))


def convert_in_memory(pairs, store, documents_per_shard=4, **options):
    documents = (Document(doc_id=doc_id, text=text) for doc_id, text in pairs)
    artifact = convert_documents(documents, store, name="mine", documents_per_shard=documents_per_shard, **options)
    return load_corpus(artifact)


def contents(corpus, store):
    """Return (row, id, text) of every document, shard by shard."""
    shards = [read_shard(store, shard) for shard in corpus.shards]
    return [
        [(row, document.doc_id, document.text) for row, document in zip(shard.rows, shard.documents, strict=True)]
        for shard in shards
    ]


def test_rows_are_cut_into_shards_in_file_order(tmp_path, store):
    corpus = convert(write_r2med(tmp_path / "a"), store)

    rows = [(row, doc_id, text) for row, (doc_id, text) in enumerate(DOCUMENTS.items())]
    assert contents(corpus, store) == [rows[:4], rows[4:]]
    assert [(shard.index, shard.start_row, shard.num_rows) for shard in corpus.shards] == [(0, 0, 4), (1, 4, 2)]


@pytest.mark.parametrize(
    ("shards", "sizes"),
    # Each shard has ceil(6 / shards) rows: 6, 3, 2, 2 (the fourth shard of 2 would be rows 7 and 8), 1.
    [(1, [6]), (2, [3, 3]), (3, [2, 2, 2]), (4, [2, 2, 2]), (9, [1] * 6)],
)
def test_a_number_of_shards_gives_equal_ones(tmp_path, store, shards, sizes):
    corpus = convert(write_r2med(tmp_path / "a"), store, shards=shards)

    assert [shard.num_rows for shard in corpus.shards] == sizes


def test_a_second_call_converts_nothing(tmp_path, store):
    source = write_r2med(tmp_path / "a")
    first = convert(source, store)

    assert convert(source, store) == first
    # There is one attempt, which the manifest names. A second conversion would have left a second one.
    assert len([path for path in (tmp_path / "store" / first.key).iterdir() if path.is_dir()]) == 1


def test_the_key_knows_the_bytes_and_not_the_folder(tmp_path, store):
    here, there = write_r2med(tmp_path / "a"), write_r2med(tmp_path / "b")
    key = convert(here, store).key

    assert convert(there, store).key == key
    assert str(tmp_path / "a") not in json.dumps(convert_corpus(here, store, documents_per_shard=4).inputs)
    assert convert(here, store, documents_per_shard=3).key != key
    assert convert(here, store, on_conflict="last").key != key
    (there.folder / "corpus.jsonl").write_text('{"id": "d1", "text": "x"}\n', encoding="utf-8")
    assert convert(there, store).key != key


def test_a_changed_text_changes_the_digest_of_its_shard_alone(tmp_path, store):
    before = convert(write_r2med(tmp_path / "a"), store)
    after = convert(write_r2med(tmp_path / "a", corpus=[*list(DOCUMENTS.items())[:5], ("d6", "new")]), store)

    assert after.shards[0].digest == before.shards[0].digest
    assert after.shards[1].digest != before.shards[1].digest
    assert after.digest != before.digest


def test_r08_swapped_lines_of_equal_length_keep_their_own_ids(tmp_path, store):
    pairs = [("a", "twenty characters, x"), ("b", "twenty characters, y")]
    before = convert(write_r2med(tmp_path / "a", corpus=pairs), store)
    after = convert(write_r2med(tmp_path / "a", corpus=pairs[::-1]), store)

    assert contents(after, store) == [[(0, "b", "twenty characters, y"), (1, "a", "twenty characters, x")]]
    assert after.shards[0].digest != before.shards[0].digest


def test_repeated_rows_are_stored_and_named(tmp_path, store):
    pairs = [*DOCUMENTS.items(), ("d1", DOCUMENTS["d1"])]
    corpus = convert(write_r2med(tmp_path / "a", corpus=pairs), store)

    assert corpus.duplicate_rows == (6,)
    assert (corpus.num_rows, corpus.num_documents) == (7, 6)
    assert [doc_id for _, doc_id, _ in contents(corpus, store)[1]] == ["d5", "d6", "d1"]
    assert read_shard(store, corpus.shards[1], skip_rows=corpus.duplicate_rows).rows.tolist() == [4, 5]


def test_two_texts_under_one_id_are_refused_with_both_lines_and_leave_nothing(tmp_path, store):
    source = write_r2med(tmp_path / "a", corpus=[*DOCUMENTS.items(), ("d1", "another")])
    path = source.folder / "corpus.jsonl"
    path.write_text("\n" + path.read_text(encoding="utf-8"), encoding="utf-8")  # lines and rows now differ by two

    with pytest.raises(DataError, match=rf"{path}:8: id 'd1' has another text than at {path}:2"):
        convert(source, store)

    assert store.names() == []


def test_an_integer_and_its_digits_are_one_id(tmp_path, store):
    source = write_r2med(tmp_path / "a", corpus=[(7, "x"), ("7", "x")])
    artifact = convert_corpus(source, store, documents_per_shard=4)

    assert load_corpus(artifact).duplicate_rows == (1,)
    assert artifact.attributes["warnings"] == [
        "1 ids of corpus.jsonl are JSON integers and were read as text, e.g. '7'",
        "1 rows of the corpus repeat another row and are skipped, e.g. '7'",
    ]


def test_a_corpus_without_documents_is_refused_before_anything_is_written(tmp_path, store):
    source = write_r2med(tmp_path / "a", corpus=[])

    with pytest.raises(DataError, match=r"corpus\.jsonl: holds no documents"):
        convert(source, store)

    assert not (tmp_path / "store").exists()


def test_da13_ids_never_name_a_file(tmp_path, store):
    ids = ["a/b/../c.txt", "../x", "A", "a", "x" * 300, "🦴"]
    corpus = convert(write_r2med(tmp_path / "a", corpus=[(doc_id, "text") for doc_id in ids]), store)

    assert [doc_id for shard in contents(corpus, store) for _, doc_id, _ in shard] == ids
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "store"]


@pytest.mark.parametrize(
    "options", [{}, {"documents_per_shard": 5}, {"shards": 3}], ids=["4 each", "5 each", "3 shards"]
)
def test_documents_in_memory_become_the_shards_of_a_file_with_the_same_documents(tmp_path, store, options):
    of_file = convert(write_r2med(tmp_path / "a"), store, **options)
    in_memory = convert_in_memory(DOCUMENTS.items(), store, **options)

    assert [(shard.digest, shard.num_rows) for shard in in_memory.shards] == [
        (shard.digest, shard.num_rows) for shard in of_file.shards
    ]
    assert in_memory.digest == of_file.digest
    assert contents(in_memory, store) == contents(of_file, store)
    assert in_memory.duplicate_rows == ()


def test_a_corpus_in_memory_is_converted_once_and_named_by_its_documents(tmp_path, store):
    first = convert_in_memory(DOCUMENTS.items(), store)
    changed = convert_in_memory([*DOCUMENTS.items(), ("d7", "new")], store)

    assert convert_in_memory(DOCUMENTS.items(), store) == first
    assert len([path for path in (tmp_path / "store" / first.key).iterdir() if path.is_dir()]) == 1
    assert len({first.key, changed.key, convert_in_memory(DOCUMENTS.items(), store, shards=1).key}) == 3


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([], r"corpus 'mine': there are no documents"),
        ([("a", "x"), ("b", "y"), ("a", "z")], r"corpus 'mine', document 3: document 1 has the id 'a' too"),
        ([("a", "x"), ("", "y")], r"corpus 'mine', document 2: '' is no id"),
        ([("a", "x"), ("b c", "y")], r"corpus 'mine', document 2: 'b c' is no id"),
        ([("a", "x\ud800")], r"corpus 'mine', document 1, id 'a': character 1 is half of a surrogate pair"),
    ],
)
def test_documents_in_memory_that_no_run_could_name_are_refused_before_anything_is_written(
    tmp_path, store, pairs, message
):
    with pytest.raises(DataError, match=message):
        convert_in_memory(pairs, store)

    assert not (tmp_path / "store").exists()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads the peak of its memory from Linux's /proc")
def test_a_longer_corpus_takes_no_more_memory_than_its_longest_shard(tmp_path):
    # 15,000 documents of 3 kB are 45 MB. Kept are only 15,000 * 25 bytes = 0.4 MB more than of two shards. What Arrow
    # has read ahead on a busy machine comes on top.
    text = "fever and rash " * 200
    for name, num_documents in (("two shards", 1000), ("thirty shards", 15_000)):
        source = write_r2med(tmp_path / name)
        with (source.folder / "corpus.jsonl").open("w", encoding="utf-8") as stream:
            stream.writelines(f'{{"id": "d{row}", "text": "{row} {text}"}}\n' for row in range(num_documents))
    program = """
import re
from pathlib import Path
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.corpus.convert import convert_corpus, load_corpus
from r2med_ray.corpus.sources import TaskSource

for name in ("two shards", "thirty shards"):
    source = TaskSource(name=name, suite=name, folder=Path(name), layout="r2med")
    corpus = load_corpus(convert_corpus(source, ArtifactStore("store"), documents_per_shard=500))
    print(corpus.num_documents, re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1])
"""

    child = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=True,
    )

    (few, kb_of_few), (many, kb_of_many) = (map(int, line.split()) for line in child.stdout.splitlines())
    assert (few, many) == (1000, 15_000)
    assert kb_of_many - kb_of_few < 30_000
