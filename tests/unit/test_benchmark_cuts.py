"""What was cut is counted per system and task, is kept with what was made, and is told by a second run too."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from r2med_ray.cuts import Cuts, PartCuts
from r2med_ray.reporting.notes import warnings
from r2med_ray.reporting.record import BenchmarkRecord
from r2med_ray.reporting.summary import summarise
from r2med_ray.reporting.write import load_results, write_report
from r2med_ray.settings.config_files import load_config
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.systems import resolve
from tests.unit.corpus_files import write_r2med
from tests.unit.tasks import run_in

OPENING = "fever and cough in winter " * 5
"""25 tokens."""

QUERIES = [("q1", OPENING + "heart"), ("q2", OPENING + "rash"), ("q3", "rash")]
CORPUS = [("d1", "heart"), ("d2", "rash " * 40)]
SYSTEMS = """
  - {name: dense, retriever: {model: all-MiniLM-L6-v2, max_length: 16}}
  - {name: words, retriever: bm25}
  - {name: both, retrievers: [bm25, minilm-tokens], fusion: {method: rrf}, reranker: {model: maxsim-minilm, depth: 2}}
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cuts")
    write_r2med(folder / "tiny", corpus=CORPUS, queries=QUERIES, qrels=[(q, "d1", 1) for q, _ in QUERIES])
    return folder


def run(folder: Path, systems: str = SYSTEMS) -> BenchmarkRecord:
    path = folder / "cuts.yaml"
    path.write_text(f"name: cuts\ntasks: [{{name: Tiny, path: {folder / 'tiny'}}}]\nsystems:{systems}")
    return run_in(folder, resolve(load_config(path)))


@pytest.fixture(scope="module")
def record(folder: Path) -> BenchmarkRecord:
    return run(folder)


def cuts_of(record: BenchmarkRecord) -> dict[str, tuple[PartCuts, ...]]:
    return {result.system: result.cuts for result in record.results}


def test_every_part_that_reads_texts_with_a_model_says_what_it_cut(record: BenchmarkRecord) -> None:
    # With two special tokens each, the queries have 28, 28 and 3 tokens, the documents 3 and 42. All texts are read
    # in pairs of a query and one of 2 documents, so each query counts twice and each document three times.
    # The row of minilm-tokens gives documents 256 tokens, and queries all 512 that the checkpoint has positions for.
    queries, documents = Cuts(texts=3, tokens=59, lengths=(512,)), Cuts(texts=2, tokens=45, lengths=(256,))
    assert cuts_of(record) == {
        "dense": (
            PartCuts(
                part="all-MiniLM-L6-v2",
                of="texts",
                query=Cuts(texts=3, cut=2, tokens=59, lost=24, lengths=(16,)),
                document=Cuts(texts=2, cut=1, tokens=45, lost=26, lengths=(16,)),
                queries=3,
                same=2,
            ),
        ),
        "words": (),
        "both": (
            PartCuts(part="minilm-tokens", of="texts", query=queries, document=documents, queries=3, same=0),
            PartCuts(
                part="maxsim-minilm",
                of="pairs",
                query=Cuts(texts=6, tokens=118, lengths=(256,)),
                document=Cuts(texts=6, tokens=135, lengths=(256,)),
            ),
        ),
    }


def test_a_second_run_tells_the_same_out_of_the_store(record: BenchmarkRecord, folder: Path) -> None:
    again = run(folder)

    assert all(stage.reused for stage in again.stages if stage.stage != "rerank")
    assert cuts_of(again) == cuts_of(record)


def test_an_encoder_with_two_indexes_is_told_of_once_and_the_check_of_an_index_counts_no_text_again(
    folder: Path,
) -> None:
    model = "model: all-MiniLM-L6-v2, max_length: 16"
    systems = f"""
  - {{name: dense, retriever: {{{model}}}}}
  - {{name: near, retriever: {{{model}, index: "IVF1,Flat;nprobe=1"}}}}
"""
    found = run(folder, systems)
    exact, near = cuts_of(found)["dense"], cuts_of(found)["near"]

    assert near == (replace(exact[0], part="all-MiniLM-L6-v2[IVF1,Flat;nprobe=1]", encoder="all-MiniLM-L6-v2"),)
    # 24 of 59 tokens of 2 of 3 queries, 26 of 45 tokens of 1 of 2 documents, and q1 and q2 begin alike.
    assert [warning for warning in warnings(found) if "MiniLM" in warning] == [
        "all-MiniLM-L6-v2 reads at most 16 tokens of a query. Cut were 2 of 3 queries (40.68% of all tokens lost) on "
        "Tiny.",
        "all-MiniLM-L6-v2 reads at most 16 tokens of a document. Cut were 1 of 2 documents (57.78% of all tokens "
        "lost) on Tiny.",
        "all-MiniLM-L6-v2 has the same vector for different queries: 2 of 3 queries on Tiny.",
    ]
    assert load_results(write_report(summarise(found), folder / "near")).results[1].cuts == near


def test_the_counts_stand_with_the_artefact_and_are_no_part_of_its_key(record: BenchmarkRecord, folder: Path) -> None:
    stored = list(ArtifactStore(str(folder / "store")).all())
    vectors = [artifact for artifact in stored if artifact.name.partition("/")[0] in ("vectors", "query-vectors")]

    assert sorted(artifact.attributes["cuts"]["cut"] for artifact in vectors) == [1, 2]
    assert [a.attributes["same_vectors"] for a in vectors if a.name.startswith("query-")] == [2]
    assert not [artifact.name for artifact in stored if "cuts" in artifact.inputs]


def test_what_was_made_before_cuts_were_counted_is_unknown(record: BenchmarkRecord, folder: Path) -> None:
    store = folder / "store"
    manifests = [*store.glob("run/*/manifest.json"), *store.glob("rerank/*/manifest.json")]
    whole = {path: path.read_text() for path in manifests}
    for path, text in whole.items():
        old = json.loads(text)
        old["attributes"] = {}
        del old["digest"]  # which manifests of then lacked
        old["files"].pop("cuts.json", None)
        path.write_text(json.dumps(old))

    try:
        again = cuts_of(run(folder))
    finally:
        for path, text in whole.items():
            path.write_text(text)

    unknown = {"query": None, "document": None, "same": None}
    assert again == {
        system: tuple(replace(part, **unknown) for part in parts) for system, parts in cuts_of(record).items()
    }


def test_the_manifest_of_a_report_has_the_counts(record: BenchmarkRecord, tmp_path: Path) -> None:
    report = write_report(summarise(record), tmp_path / "report")

    manifest = json.loads((report / "manifest.json").read_text())
    assert manifest["results"][0]["cuts"][0]["query"] == {
        "texts": 3, "cut": 2, "tokens": 59, "lost": 24, "lengths": [16], "unit": "tokens"
    }  # fmt: skip
    assert cuts_of(load_results(report)) == cuts_of(record)
