"""Hard negatives are mined by the rules of sentence-transformers, say where they come from, and fit a benchmark."""

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import datasets
import pyarrow.parquet as pq
import pytest
import torch
from sentence_transformers.util import cos_sim, mine_hard_negatives, pairwise_cos_sim

from r2med_ray.benchmark import run_benchmark
from r2med_ray.corpus.catalog import resolve_tasks
from r2med_ray.errors import ConfigError, DataError
from r2med_ray.negatives.mined_files import write_mined
from r2med_ray.negatives.mined_settings import MiningConfig
from r2med_ray.negatives.mining import CHOSEN, Mined, MinedQuery, mine
from r2med_ray.reporting.summary import summarise
from r2med_ray.settings.config_files import load_settings, parse_config
from r2med_ray.storage.jsonl import read_jsonl
from r2med_ray.systems import resolve
from r2med_ray.types import FloatMatrix
from r2med_ray.vectors import unit_length
from r2med_ray.workbench.bench import Workbench, open_workbench
from tests.unit.corpus_files import write_r2med
from tests.unit.toy_models import DrawnScores, DrawnVectors

WORDS = ("fever", "cough", "rash", "pain", "chill", "itch", "swelling", "fatigue")
NUM_DOCUMENTS, NUM_QUERIES = 40, 8
ALL = 100
"""More candidates than the corpus has documents."""


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """40 documents of three words and a number; 8 queries of two words with two positives each."""
    draw = random.Random(7)
    folder = tmp_path_factory.mktemp("task")
    corpus = [(f"d{number:02}", f"{' '.join(draw.sample(WORDS, 3))} {number}") for number in range(NUM_DOCUMENTS)]
    queries = [(f"q{number}", f"{' '.join(draw.sample(WORDS, 2))} {number}?") for number in range(NUM_QUERIES)]
    qrels = [(query_id, doc_id, 1) for query_id, _ in queries for doc_id, _ in draw.sample(corpus, 2)]
    write_r2med(folder, corpus=corpus, queries=queries, qrels=qrels)
    return {"path": str(folder), "layout": "r2med", "name": "Drawn"}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("models") / "models.yaml"
    file.write_text(
        "encoders:\n- {name: vectors, class: tests.unit.toy_models.DrawnVectors, similarity: cosine, max_length: 8}\n"
        "rerankers:\n- {name: drawn, class: tests.unit.toy_models.DrawnScores}\n"
        "- {name: letters, class: tests.unit.toy_models.SameLetters}\n"
    )
    return file


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory, models: Path) -> Iterator[Workbench]:
    with open_workbench(tmp_path_factory.mktemp("store"), models=models) as bench:
        yield bench


def config(task: Any, **changes: Any) -> MiningConfig:
    values = {"name": "x", "task": task, "retrievers": ["vectors"], "cross_encoder": "drawn", "range_max": ALL}
    return MiningConfig.model_validate({**values, **changes})


class OurModel:
    """The encoder of the tests as sentence-transformers calls a model."""

    device = torch.device("cpu")
    similarity = staticmethod(cos_sim)
    similarity_pairwise = staticmethod(pairwise_cos_sim)
    prompts: ClassVar[dict[str, str]] = {}

    def encode_document(self, texts: list[str], **_: Any) -> FloatMatrix:
        return unit_length(DrawnVectors.encode_plain(self, texts))  # type: ignore[arg-type]

    encode_query = encode_document


class OurScorer:
    """The scorer of the tests as sentence-transformers calls a cross-encoder."""

    def predict(self, pairs: list[tuple[str, str]], **_: Any) -> torch.Tensor:
        return torch.tensor(DrawnScores.score_pairs(self, pairs))  # type: ignore[arg-type]


def oracle(mined: Mined, cross_encoder: OurScorer | None, **settings: Any) -> list[dict[str, str]]:
    """Return the rows that sentence-transformers mines from the queries, positives and corpus of a task."""
    rows = [
        {"anchor": query.query.text, "positive": mined.documents[doc_id].content}
        for query in mined.queries
        for doc_id in query.positives
    ]
    corpus = [record.values["text"] for record in read_jsonl(Path(mined.task.folder) / "corpus.jsonl")]
    model: Any = OurModel()
    found = mine_hard_negatives(
        datasets.Dataset.from_list(rows),
        model,
        corpus=corpus,
        cross_encoder=cross_encoder,  # type: ignore[arg-type]
        verbose=False,
        **settings,
    )
    return list(found)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"absolute_margin": 0.3, "num_negatives": 4}, id="absolute margin"),
        # Some positives have a negative score, of whose size the share is taken.
        pytest.param({"relative_margin": 0.25, "num_negatives": 4}, id="relative margin"),
        pytest.param({"max_score": 0.4, "min_score": -0.5, "num_negatives": 4}, id="least and greatest score"),
        pytest.param(
            {"absolute_margin": 0.1, "relative_margin": 0.05, "max_score": 0.1, "range_min": 3}, id="all together"
        ),
    ],
)
def test_the_training_files_have_the_rows_that_sentence_transformers_mines(
    bench: Workbench, task: Any, tmp_path: Path, settings: dict[str, Any]
) -> None:
    mined = mine(bench, config(task, **settings))
    write_mined(mined, tmp_path / "out")

    for name, output_format in (("triplets", "triplet"), ("n_tuples", "n-tuple")):
        expected = oracle(mined, OurScorer(), range_max=ALL, output_format=output_format, **settings)
        assert expected
        assert pq.read_table(tmp_path / "out" / f"{name}.parquet").to_pylist() == expected
        assert [record.values for record in read_jsonl(tmp_path / "out" / f"{name}.jsonl")] == expected
    assert len({"anchor", "positive", *expected[0]}) == 2 + mined.config.num_negatives


def test_the_candidates_of_a_retriever_are_its_first_documents_that_are_no_positives(
    bench: Workbench, task: Any
) -> None:
    mined = mine(bench, config(task, range_max=10, num_negatives=10))

    expected: dict[str, set[str]] = {}
    for row in oracle(mined, None, range_max=10, num_negatives=10):
        expected.setdefault(row["anchor"], set()).add(row["negative"])
    assert {
        query.query.text: {mined.documents[each.doc_id].content for each in query.candidates}
        for query in mined.queries
    } == expected


def test_a_candidate_says_which_retrievers_found_it_and_how_far_it_is_from_the_positives(
    bench: Workbench, task: Any
) -> None:
    mined = mine(bench, config(task, retrievers=["bm25", "vectors"], range_max=15, absolute_margin=0.0))
    runs = {name: bench.find(mined.task, name, k=40) for name in ("bm25", "vectors")}

    assert any(len(each.found) == 2 for query in mined.queries for each in query.candidates)
    for query in mined.queries:
        for each in query.candidates:
            assert each.margin == min(query.positives.values()) - each.score
            assert (each.margin < 0) == (each.verdict == "absolute_margin")
            for found in each.found:
                hit = runs[found.retriever].rankings[query.query.query_id][found.rank - 1]
                assert hit == (each.doc_id, found.score)
    assert mined.verdicts["positive"] == sum(query.refused.get("positive", 0) for query in mined.queries) > 0
    scored = sum(len(query.candidates) for query in mined.queries)
    assert sum(mined.verdicts.values()) == scored + mined.verdicts["positive"]


def test_a_random_choice_is_seeded_and_takes_from_all_that_pass(bench: Workbench, task: Any) -> None:
    settings: dict[str, Any] = {"relative_margin": 0.1, "sampling_strategy": "random"}
    one, same, other = (mine(bench, config(task, **settings, seed=seed)) for seed in (1, 1, 2))

    assert one.queries == same.queries
    assert [query.chosen for query in one.queries] != [query.chosen for query in other.queries]
    for query in one.queries:
        passing = [each for each in query.candidates if each.verdict in (CHOSEN, "num_negatives")]
        assert len(query.chosen) == min(3, len(passing))
        assert all(each.margin >= 0.1 * abs(min(query.positives.values())) for each in passing)


@pytest.fixture
def copies(tmp_path: Path) -> dict[str, str]:
    """A task whose document d3 has the text of the positive d1, and d5 that of d4."""
    texts = {"d1": "abc", "d2": "ab x", "d3": "abc", "d4": "a y", "d5": "a y"}
    write_r2med(tmp_path / "task", corpus=texts.items(), queries=[("q1", "abc")], qrels=[("q1", "d1", 1)])
    return {"path": str(tmp_path / "task"), "layout": "r2med", "name": "Copies"}


def test_a_copy_of_a_positive_and_a_second_copy_are_refused_and_counted(
    bench: Workbench, copies: dict[str, str]
) -> None:
    [query] = mine(bench, config(copies, cross_encoder="letters")).queries

    # Shared letters with `abc`: `ab x` has a and b, `a y` has a.
    assert [(each.doc_id, each.score, each.margin) for each in query.candidates] == [("d2", 2, 1), ("d4", 1, 2)]
    assert query.refused == {"positive": 1, "text of a positive": 1, "text of another candidate": 1}


def chosen_as(mined: Mined, doc_id: str) -> Mined:
    """Return what was mined with one negative, for the first query."""
    first = mined.queries[0]
    [candidate, *_] = first.chosen
    changed = (candidate._replace(doc_id=doc_id),)
    return replace(mined, queries=(replace(first, candidates=changed),))


def test_a_negative_that_is_a_positive_is_refused_and_nothing_is_written(
    bench: Workbench, task: Any, tmp_path: Path
) -> None:
    mined = mine(bench, config(task))
    query: MinedQuery = mined.queries[0]
    positive = min(query.positives)

    message = (
        rf"labels.parquet:1: query '{query.query.query_id}', passage '{positive}': a hard negative can't be a pos"
    )
    with pytest.raises(DataError, match=message):
        write_mined(chosen_as(mined, positive), tmp_path / "out")

    assert not (tmp_path / "out").exists()


def test_a_job_that_chose_nothing_is_refused(bench: Workbench, task: Any, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the pack of Drawn holds no passage"):
        write_mined(mine(bench, config(task, max_score=-2)), tmp_path / "out")


def test_beirs_reader_takes_the_negatives_of_its_file(bench: Workbench, task: Any, tmp_path: Path) -> None:
    mined = mine(bench, config(task, retrievers=["bm25", "vectors"], absolute_margin=0.2))
    write_mined(mined, tmp_path / "out")

    # As BEIR's example of training on MS MARCO reads it, with our margin.
    for line, query in zip(
        (tmp_path / "out" / "hard_negatives.jsonl").read_text().splitlines(), mined.queries, strict=True
    ):
        data = json.loads(line)
        threshold = min(item["ce-score"] for item in data["pos"]) - 0.2
        taken = {
            item["pid"] for of_system in data["neg"].values() for item in of_system if item["ce-score"] <= threshold
        }
        assert data["qid"] == query.query.query_id
        assert {item["pid"] for item in data["pos"]} == query.positives.keys()
        assert taken == {each.doc_id for each in query.chosen}


def test_a_benchmark_reads_the_pack_and_measures_systems_with_it(bench: Workbench, task: Any, tmp_path: Path) -> None:
    mined = mine(bench, config(task, relative_margin=0.05))
    write_mined(mined, tmp_path / "out")
    labels = pq.read_table(tmp_path / "out" / "pack" / "labels.parquet").to_pylist()
    assert {(label["query_id"], label["doc_id"], label["cross_encoder_score"]) for label in labels} == {
        (query.query.query_id, each.doc_id, each.score) for query in mined.queries for each in query.chosen
    }
    assert all(label["found"][0]["retriever"] == "vectors" for label in labels)

    pack = {"task": "Drawn", "packs": [str(tmp_path / "out" / "pack")], "conditions": ["own", "pairs"]}
    values = {
        "name": "x",
        "tasks": [task],
        "systems": [{"name": "words", "retriever": "bm25"}],
        "hard_negatives": [pack],
    }
    benchmark = resolve(parse_config(values))
    with open_workbench(tmp_path / "store", names=benchmark.names, resources=benchmark.config.resources) as other:
        base, own, pairs = summarise(run_benchmark(benchmark, other)).hard_negatives

    # The corpus has the negatives already, so nothing is added to it.
    assert own.score == base.score
    assert own.values["hn_recall@10"] > 0
    assert (list(pairs.by_kind), 0 < pairs.values["pair_acc"] < 1) == (["mined"], True)


def test_the_manifest_counts_each_verdict(bench: Workbench, task: Any, tmp_path: Path) -> None:
    mined = mine(bench, config(task, relative_margin=0.05))
    write_mined(mined, tmp_path / "out")

    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    candidates = pq.read_table(tmp_path / "out" / "candidates.parquet").to_pylist()
    assert manifest["verdicts"]["chosen"] == sum(row["verdict"] == "chosen" for row in candidates) > 0
    assert sum(manifest["verdicts"].values()) == len(candidates) + manifest["verdicts"]["positive"]
    assert manifest["counts"]["queries"] == NUM_QUERIES
    assert manifest["cross_encoder"] == {"name": "drawn", "class": "tests.unit.toy_models.DrawnScores"}


def test_the_settings_of_the_job_are_right(bench: Workbench) -> None:
    shipped = load_settings(MiningConfig, Path(__file__).parents[2] / "jobs" / "mine_hard_negatives.yaml")

    assert bench.scorer(shipped.cross_encoder).name == "maxsim-minilm"
    assert [resolve_tasks([shipped.task])[0].name, shipped.relative_margin] == ["Demo-Evidence", 0.05]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("range_maxx: 3", r"range_maxx: unknown key. Did you mean 'range_max'\?"),
        ("num_negatives: 0", "num_negatives: .*greater than or equal to 1, got 0"),
        (
            "{range_min: 98, num_negatives: 3}",
            "range_min 98 and range_max 100 leave 2 candidates for num_negatives 3",
        ),
        ("sampling_strategy: best", "sampling_strategy: .*'top' or 'random'"),
        ("[]", "expected keys like `name:`, got list"),
    ],
)
def test_settings_that_do_not_fit_are_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "mine.yaml"
    needed = "name: x, task: Demo-Evidence, retrievers: [bm25], cross_encoder: maxsim-minilm"
    inner = text.strip("{}")
    file.write_text(text if text == "[]" else f"{{{needed}, {inner}}}")

    with pytest.raises(ConfigError, match=message):
        load_settings(MiningConfig, file)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "Demo-Evidenc"}, "Did you mean 'Demo-Evidence'"),
        ({"retrievers": ["bm26"]}, "Did you mean 'bm25'"),
        ({"cross_encoder": "maxsim-minilmm"}, "Did you mean 'maxsim-minilm'"),
        ({"cross_encoder": "groupwise-qwen3-32b"}, "scores no pairs"),
    ],
)
def test_names_that_are_unknown_are_refused(
    bench: Workbench, task: Any, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        mine(bench, config(**{"task": "Demo-Evidence"} | changes))


def test_two_retrievers_of_one_name_are_refused_as_neither_could_be_told_from_the_other(
    bench: Workbench, task: Any
) -> None:
    with pytest.raises(ConfigError, match="retrievers: two of vectors, vectors have one name"):
        mine(bench, config(task, retrievers=["vectors", "vectors"]))
