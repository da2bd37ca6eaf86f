"""Scores are kept as files that a later run reads again. Their key depends on all that a reranker was shown."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from r2med_ray.cuts import Cuts
from r2med_ray.demands import Keep, Recall
from r2med_ray.protocols import Candidates
from r2med_ray.reranking.stored_scores import read_reranking, reranking_files, scores_key
from r2med_ray.storage.artifact import Artifact
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import ArtifactKey
from r2med_ray.types import Document, Expansion, Query, Repairs, Reranking
from tests.fakes import kept_in

QUERIES = (Query(query_id="q1", text="rash"), Query(query_id="q/2", text="zzz"))
DOCUMENTS = (Document(doc_id="d1", text="rash"), Document(doc_id="d2", text="fever", title="T"))
WORK = [Candidates(QUERIES[0], DOCUMENTS, (2.0, 1.0))]
KEY = ArtifactKey("rerank", {})


def kept(store: ArtifactStore, reranking: Reranking) -> Artifact:
    """Keep a reranking, and return the artefact that is recalled."""
    kept_in(store)[Keep](Keep(key=KEY, files=reranking_files(reranking)))
    [artifact] = kept_in(store)[Recall](Recall(keys=(KEY,)))
    assert isinstance(artifact, Artifact)
    return artifact


@pytest.mark.parametrize(
    ("work", "inputs"),
    [
        pytest.param(WORK, {"model": "n"}, id="inputs"),
        pytest.param([Candidates(QUERIES[1], DOCUMENTS, (2.0, 1.0))], {"model": "m"}, id="query"),
        pytest.param([Candidates(QUERIES[0], DOCUMENTS[::-1], (2.0, 1.0))], {"model": "m"}, id="order"),
        pytest.param(
            [Candidates(QUERIES[0], (DOCUMENTS[0], Document(doc_id="d2", text="fevers", title="T")), (2.0, 1.0))],
            {"model": "m"},
            id="a changed text",
        ),
    ],
)
def test_other_pairs_or_another_model_are_other_scores(work: Sequence[Candidates], inputs: dict[str, str]) -> None:
    assert scores_key(inputs, work) != scores_key({"model": "m"}, WORK)


def test_expansions_are_no_part_of_the_key() -> None:
    query = Query(query_id="q1", text="rash", expansions=(Expansion(text="h", method="hyde"),))

    assert scores_key({}, [WORK[0]._replace(query=query)]) == scores_key({}, WORK)


def test_what_was_read_of_a_pair_is_stored_with_the_scores_and_unknown_where_it_was_not(tmp_path: Path) -> None:
    pair = [{"tokens": 3, "limit": None, "remarks": [], "parts": []}]
    told, untold = Reranking(scores={"q1": [1.0, 2.0]}, example=pair), Reranking(scores={"q1": [1.0, 2.0]})

    assert read_reranking(kept(ArtifactStore(str(tmp_path / "told")), told)).example == pair
    assert read_reranking(kept(ArtifactStore(str(tmp_path / "untold")), untold)).example is None


@pytest.mark.parametrize("sees_scores", [False, True])
def test_other_scores_of_the_first_stage_matter_where_they_are_shown(sees_scores: bool) -> None:
    others = [WORK[0]._replace(scores=(3.0, 1.0))]

    keys = [scores_key({"model": "m"}, work, sees_scores=sees_scores) for work in (WORK, others)]

    assert (keys[0] != keys[1]) is sees_scores


@pytest.mark.parametrize(
    ("sees_scores", "name"),
    [(False, "rerank/f0bef46a4cfcc5e2ee7fd6f99c5fc46e"), (True, "rerank/143b684f001de8945bdb10d590ae9c50")],
)
def test_scores_that_were_kept_by_earlier_versions_are_found(sees_scores: bool, name: str) -> None:
    """The names come from commit f41411a."""
    assert scores_key({"model": "m"}, WORK, sees_scores=sees_scores).name == name


def test_scores_are_read_as_they_were_made(store: ArtifactStore) -> None:
    # 0.1 would be 0.10000000149011612 as float32, but scores are kept as float64
    made = Reranking(scores={"q1": [0.1, -2.0], "q/2": []})

    assert read_reranking(kept(store, made)) == made


def test_stored_scores_come_with_the_repairs_that_were_made_for_them(store: ArtifactStore) -> None:
    repairs = Repairs(rules={"q1": {"id missing": 2, "id repeated": 1}}, unreadable={"q/2": {"cut at limit": 3}})
    made = Reranking(scores={"q1": [1.0, 2.0], "q/2": [2.0, 1.0]}, repairs=repairs)

    assert read_reranking(kept(store, made)) == made


def test_where_nothing_was_repaired_the_scores_are_stored_alone(store: ArtifactStore) -> None:
    """Scores of pair scorers from before repairs were kept look the same, and are read in the same way."""
    artifact = kept(store, Reranking(scores={"q1": [1.0]}))

    assert [*artifact.files] == ["scores.parquet"]
    assert read_reranking(artifact).repairs == Repairs()


def test_the_file_is_the_one_that_a_store_writes_of_the_table(store: ArtifactStore) -> None:
    table = pa.table({"query_id": ["q1"], "scores": pa.array([[1.0, 0.5]], pa.list_(pa.float64()))})
    with store.create(ArtifactKey("rerank", {"by": "the writer"})) as writer:
        writer.write_table("scores.parquet", table)

    artifact = kept(store, Reranking(scores={"q1": [1.0, 0.5]}))

    assert artifact.files["scores.parquet"].sha256 == writer.files["scores.parquet"].sha256


def test_no_scores_at_all_are_scores(store: ArtifactStore) -> None:
    assert read_reranking(kept(store, Reranking(scores={}))) == Reranking(scores={})


def test_what_was_cut_is_kept_beside_the_scores(store: ArtifactStore) -> None:
    cuts = {"query": Cuts(texts=2), "document": Cuts(texts=2, cut=1, tokens=9, lost=3, lengths=(3, 6))}
    reranking = Reranking(scores={"q1": [2.0, 1.0]}, cuts=cuts)  # type: ignore[arg-type]

    assert read_reranking(kept(store, reranking)).cuts == cuts


def test_what_was_cut_for_scores_from_before_it_was_counted_is_unknown(store: ArtifactStore) -> None:
    assert read_reranking(kept(store, Reranking(scores={"q1": [2.0, 1.0]}))).cuts is None
