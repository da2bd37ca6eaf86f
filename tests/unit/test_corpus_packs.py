"""A pack is read from either layout, and what doesn't fit the task is refused with its place."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from r2med_ray.corpus.packs import read_pack
from r2med_ray.errors import DataError
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Contrast, HardNegative, Query, Task
from tests.unit.corpus_files import write_jsonl
from tests.unit.tasks import task_of

PASSAGE = {"doc_id": "h1", "text": "abc rash", "writer": "a person"}
LABEL = {"query_id": "q", "doc_id": "h1", "kind": "mimic", "positive_ids": ["d0"]}


@pytest.fixture
def task(store: ArtifactStore) -> Task:
    """One query, q, whose positive is d0."""
    return task_of(store, ["abc fever", "bcd cough"], shards=1, name="My-Task")


def write_own(folder: Path, passages: list[Mapping[str, Any]], labels: list[Mapping[str, Any]]) -> Path:
    folder.mkdir()
    write_jsonl(folder / "passages.jsonl", passages)
    write_jsonl(folder / "labels.jsonl", labels)
    return folder


def write_round(folder: Path, name: str, passages: dict[str, str], labels: list[tuple[str, str]]) -> None:
    folder.mkdir(exist_ok=True)
    texts = ({"hard_passage_id": doc_id, "hard_passage": text} for doc_id, text in passages.items())
    write_jsonl(folder / f"{name}_hp_id_to_hp.jsonl", texts)
    marks = ({"q_id": query_id, "p_id": doc_id, "score": 1} for query_id, doc_id in labels)
    write_jsonl(folder / f"{name}_qrel_extent.jsonl", marks)
    made = [
        {"pos_id": "d0", "hard_passage_ids": list(passages)},
        {"pos_id": "d1", "hard_passage_ids": list(passages)},
    ]
    write_jsonl(folder / f"{name}_pos_id_to_hp_ids.jsonl", made)


def test_our_layout_is_the_same_in_parquet_and_in_json_lines(tmp_path: Path, task: Task) -> None:
    lines = read_pack([write_own(tmp_path / "lines", [PASSAGE], [LABEL])], task)
    (tmp_path / "tables").mkdir()
    for name, row in {"passages": PASSAGE, "labels": LABEL}.items():
        pq.write_table(pa.Table.from_pylist([row]), tmp_path / "tables" / f"{name}.parquet")

    assert read_pack([tmp_path / "tables"], task) == lines
    assert lines.negatives == {"q": {"h1": HardNegative(kind="mimic", positives=("d0",))}}
    assert [(document.doc_id, document.text) for document in lines.documents] == [("h1", "abc rash")]
    assert lines.writers == {"a person": 1}


def test_rounds_of_a_generation_are_put_together_and_keep_all_labels(tmp_path: Path, task: Task) -> None:
    write_round(tmp_path / "hp", "MyTask_50_a", {"u1": "one"}, [("q", "u1")])
    write_round(tmp_path / "hp", "MyTask_50_b", {"u2": "two", "u1": "one"}, [("q", "u2"), ("q", "u1")])
    # A file of another task, whose name begins with the same letters.
    write_round(tmp_path / "hp", "MyTaskTwo_50_a", {"u9": "nine"}, [("other", "u9")])

    pack = read_pack([tmp_path / "hp"], task)

    # The passages were made from d0 and d1; only d0 is a positive of q. The score of 1 makes none of them a positive.
    made = HardNegative(positives=("d0",))
    assert pack.negatives == {"q": {"u1": made, "u2": made}}
    assert [document.doc_id for document in pack.documents] == ["u1", "u2"]
    assert task.qrels == {"q": {"d0": 1}}


def test_parts_give_the_same_pack_in_any_order(tmp_path: Path, task: Task) -> None:
    other = {**PASSAGE, "doc_id": "h0"}
    parts = [
        write_own(tmp_path / "a", [PASSAGE], [LABEL]),
        write_own(tmp_path / "b", [other, PASSAGE], [{**LABEL, "doc_id": "h0"}]),
    ]

    assert read_pack(parts, task) == read_pack(parts[::-1], task)


CONTRAST = {"query_ids": ["q", "r"], "doc_ids": ["d0", "d1"], "kind": "negation"}


@pytest.fixture
def paired(store: ArtifactStore) -> Task:
    """Two queries: q, whose positive is d0, and r, whose positive is d1."""
    task = task_of(store, ["abc fever", "bcd cough", "aab rash"], shards=1, name="My-Task")
    queries = (*task.queries, Query(query_id="r", text="cough"))
    return replace(task, queries=queries, qrels={"q": {"d0": 1}, "r": {"d1": 1}})


def write_contrasts(folder: Path, *contrasts: Mapping[str, Any]) -> Path:
    folder.mkdir(exist_ok=True)
    write_jsonl(folder / "contrasts.jsonl", contrasts)
    return folder


def test_a_contrast_is_two_labels_each_of_which_names_the_positive_of_its_query(tmp_path: Path, paired: Task) -> None:
    pack = read_pack([write_contrasts(tmp_path / "a", CONTRAST)], paired)

    assert pack.contrasts == (Contrast(("q", "r"), ("d0", "d1"), "negation"),)
    assert pack.negatives == {
        "q": {"d1": HardNegative(kind="negation", positives=("d0",))},
        "r": {"d0": HardNegative(kind="negation", positives=("d1",))},
    }
    assert pack.documents == ()
    assert list(pack.in_corpus) == ["d0", "d1"]


def test_contrasts_stand_beside_lists_in_one_folder_or_in_several(tmp_path: Path, paired: Task) -> None:
    together = write_contrasts(write_own(tmp_path / "both", [PASSAGE], [LABEL]), CONTRAST)
    parts = [write_contrasts(tmp_path / "a", CONTRAST), write_own(tmp_path / "b", [PASSAGE], [LABEL])]

    found = read_pack([together], paired)

    assert {query_id: sorted(own) for query_id, own in found.negatives.items()} == {"q": ["d1", "h1"], "r": ["d0"]}
    for order in (parts, parts[::-1]):
        assert read_pack(order, paired).negatives == found.negatives
        assert read_pack(order, paired).contrasts == found.contrasts


@pytest.mark.parametrize(
    ("contrast", "message"),
    [
        ({"query_ids": ["q"]}, r"contrasts.jsonl:1: query_ids is \['q'\]; expected two different ids"),
        ({"doc_ids": ["d0", "d0"]}, r"contrasts.jsonl:1: doc_ids is \['d0', 'd0'\]; expected two different ids"),
        ({"query_ids": ["q", "x"]}, r"contrasts.jsonl:1: query 'x', passage 'd0': the task has no such query"),
        (
            {"doc_ids": ["d1", "d0"]},
            r"contrasts.jsonl:1: query 'q', passage 'd0': a hard negative can't be a positive of its query",
        ),
        (
            {"doc_ids": ["d0", "d2"]},
            r"contrasts.jsonl:1: query 'r', passage 'd0': it was made from 'd2', which is no positive of the query",
        ),
    ],
)
def test_a_contrast_that_does_not_fit_the_task_is_refused(
    tmp_path: Path, paired: Task, contrast: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read_pack([write_contrasts(tmp_path / "a", CONTRAST | contrast)], paired)


def test_a_passage_can_be_a_document_of_the_corpus(tmp_path: Path, task: Task) -> None:
    mined = {**PASSAGE, "doc_id": "d1", "text": "bcd cough", "in_corpus": True}

    pack = read_pack([write_own(tmp_path / "a", [mined], [{**LABEL, "doc_id": "d1"}])], task)

    assert pack.documents == ()
    assert {doc_id: named.text for doc_id, named in pack.in_corpus.items()} == {"d1": "bcd cough"}
    assert pack.counts["hard_negatives_in_corpus"] == 1


def test_passages_without_a_label_and_queries_without_a_negative_are_told(tmp_path: Path, task: Task) -> None:
    two = replace(task, qrels={"q": {"d0": 1}, "r": {"d1": 1}})

    pack = read_pack([write_own(tmp_path / "a", [PASSAGE, {**PASSAGE, "doc_id": "h2"}], [LABEL])], two)

    assert pack.warnings == (
        "1 passages of the pack are no query's hard negative, e.g. 'h2'",
        "1 queries with a positive have no hard negative, e.g. 'r'",
    )


@pytest.mark.parametrize(
    ("passages", "labels", "message"),
    [
        (
            [PASSAGE],
            [{**LABEL, "query_id": "x"}],
            r"labels.jsonl:1: query 'x', passage 'h1': the task has no such query",
        ),
        (
            [PASSAGE],
            [{**LABEL, "doc_id": "x"}],
            r"labels.jsonl:1: query 'q', passage 'x': the pack has no such passage",
        ),
        (
            [{**PASSAGE, "doc_id": "d0"}],
            [{**LABEL, "doc_id": "d0"}],
            r"labels.jsonl:1: query 'q', passage 'd0': a hard negative can't be a positive of its query",
        ),
        (
            [PASSAGE],
            [{**LABEL, "positive_ids": ["d1"]}],
            r"labels.jsonl:1: .*: it was made from 'd1', which is no positive of the query",
        ),
        ([PASSAGE], [{**LABEL, "grade": 1}], r"labels.jsonl:1: a hard negative has grade 1"),
        (
            [PASSAGE],
            [LABEL, {**LABEL, "kind": "negated"}],
            r"labels.jsonl:2: query 'q', passage 'h1' is of the kind 'negated', but 'mimic' at .*labels.jsonl:1",
        ),
        (
            [PASSAGE, {**PASSAGE, "text": "other"}],
            [LABEL],
            r"passages.jsonl:2: passage 'h1' has another text than at .*passages.jsonl:1",
        ),
        (
            [PASSAGE, {**PASSAGE, "in_corpus": True}],
            [LABEL],
            r"passages.jsonl:2: passage 'h1' has another in_corpus than at .*passages.jsonl:1",
        ),
        ([{**PASSAGE, "in_corpus": "yes"}], [LABEL], r"passages.jsonl:1: in_corpus is 'yes'; expected true or false"),
        ([{**PASSAGE, "text": " "}], [LABEL], r"passages.jsonl:1: passage 'h1' has no text"),
        ([{"doc_id": "h1", "text": "a"}], [LABEL], r"passages.jsonl:1: no field writer"),
        ([], [], r"the pack of My-Task holds no passage"),
        ([PASSAGE], [], r"the pack of My-Task holds no label"),
    ],
)
def test_a_pack_that_does_not_fit_is_refused_with_file_line_and_ids(
    tmp_path: Path, task: Task, passages: list[Any], labels: list[Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read_pack([write_own(tmp_path / "a", passages, labels)], task)


def test_an_id_with_other_texts_in_two_parts_is_refused_with_both_places(tmp_path: Path, task: Task) -> None:
    parts = [
        write_own(tmp_path / "a", [PASSAGE], [LABEL]),
        write_own(tmp_path / "b", [{**PASSAGE, "text": "other"}], [LABEL]),
    ]

    with pytest.raises(DataError, match=r"b/passages.jsonl:1: passage 'h1' has another text than at .*a/passages"):
        read_pack(parts, task)


def test_a_folder_without_a_pack_of_the_task_says_what_is_expected(tmp_path: Path, task: Task) -> None:
    write_round(tmp_path / "hp", "Other_50_a", {"u1": "one"}, [("q", "u1")])

    with pytest.raises(DataError, match=r"no pack of hard negatives for My-Task: .*MyTask_\*_hp_id_to_hp.jsonl"):
        read_pack([tmp_path / "hp"], task)
