"""A second query vector, of a prompt with the best candidates, through the whole flow in this process."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from r2med_ray.errors import ConfigError
from r2med_ray.first_stages.second_search import SecondSearch
from r2med_ray.first_stages.stored_vectors import document_vectors
from r2med_ray.first_stages.vectors import DenseFirstStage
from r2med_ray.models.networks.encoders import build_encoder
from r2med_ray.types import Run, Task
from r2med_ray.workbench.bench import Workbench, open_workbench

MINILM = "all-MiniLM-L6-v2"
MODELS = """
listwise_encoders:
  - name: again
    encoder: all-MiniLM-L6-v2
    shown: 2
    passage_words: 3
    prefix: "ask "
    suffix: " end"
    prompt: ./p.txt
"""
PROMPT = "version: 1\n{count} documents:\n{passages}\nSearch Query: {query}\n"
DOCUMENTS = {
    "d1": "rubella in pregnancy harms the heart",
    "d2": "asthma narrows the airways of children",
    "d3": "rubella is a viral rash [2]",
    "d4": "the heart pumps blood",
    "d5": "airways of the lung",
}


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workbench]:
    folder: Path = tmp_path_factory.mktemp("bench")
    (folder / "models.yaml").write_text(MODELS)
    (folder / "p.txt").write_text(PROMPT)
    with open_workbench(folder / "store", models=folder / "models.yaml") as opened:
        yield opened


@pytest.fixture(scope="module")
def task(bench: Workbench) -> Task:
    queries = {"q1": "Which rubella rash harms the heart?", "q2": "Airways of children?"}
    return bench.task("mine", documents=DOCUMENTS, queries=queries)


def test_candidates_are_ordered_by_their_vectors_and_that_of_a_prompt_with_the_best_of_them(
    bench: Workbench, task: Task
) -> None:
    first = bench.rank(task, {"retriever": "bm25"}, depth=4).run.rankings["q1"]
    ranked = bench.rank(task, {"retriever": "bm25", "reranker": {"model": "again", "depth": 4}}, depth=4)
    encoder = bench.first_stage(MINILM)
    assert isinstance(encoder, DenseFirstStage)
    vectors = document_vectors(bench.store, encoder, task, DOCUMENTS.keys(), bench.runner.device)
    # The prompt shows the first 2 of all candidates, with 3 words each, and the query as it is.
    shown = [" ".join(DOCUMENTS[hit.doc_id].split()[:3]) for hit in first[:2]]
    text = f"ask 2 documents:\n[1] {shown[0]}\n[2] {shown[1]}\nSearch Query: {task.queries[0].text} end"
    model = build_encoder(encoder.row, task="mine", device=bench.runner.device, token_budget=1000)
    [prompt_D] = model.encode_plain([text]).astype(np.float64)
    prompt_D /= np.linalg.norm(prompt_D)
    cosines = {hit.doc_id: vectors[hit.doc_id].astype(np.float64) @ prompt_D for hit in first}

    assert len(first) > 2
    assert dict(ranked.run.rankings["q1"]) == pytest.approx(cosines, abs=1e-6)
    assert [hit.doc_id for hit in ranked.run.rankings["q1"]] == sorted(cosines, key=lambda each: -cosines[each])


def test_documents_are_encoded_once_for_both_searches(bench: Workbench, task: Task) -> None:
    system = {"retriever": MINILM, "reranker": {"model": "again", "depth": 5}}
    bench.rank(task, system, depth=5)
    bench.rank(task, {"retriever": "bm25", "reranker": {"model": "again", "depth": 5}}, depth=5)

    # One shard of one corpus.
    assert len(bench.store.names_of("vectors")) == 1


def test_a_second_run_reads_what_was_found(bench: Workbench, task: Task) -> None:
    tmp_models = Path(bench.store.uri).parent / "models.yaml"
    system = {"retriever": "bm25", "reranker": {"model": "again", "depth": 3}}
    first = bench.rank(task, system, depth=5)

    with open_workbench(bench.store.uri, models=tmp_models) as again:
        assert again.rank(task, system, depth=5).run == first.run
        assert again.worklog.entries == ()


def test_the_words_cut_off_shown_passages_are_counted(bench: Workbench, task: Task) -> None:
    ranked = bench.rank(task, {"retriever": MINILM, "reranker": {"model": "again", "depth": 5}}, depth=5)

    [cuts] = [each for each in ranked.cuts if each.part == "again"]
    # 2 queries show 2 passages of more than 3 words each, whichever they are.
    assert cuts.document is not None
    assert (cuts.document.texts, cuts.document.cut) == (4, 4)


def test_the_prompt_has_no_end_token_and_the_documents_have_one(bench: Workbench) -> None:
    system = bench.system({"retriever": "bm25", "reranker": {"model": "e2rank-0.6b-listwise", "depth": 100}})
    [reranker] = system.rerankers
    second = reranker.second_search
    assert isinstance(second, SecondSearch)

    assert (second.documents.append_eos, second.row.append_eos) == (True, False)
    assert (second.documents.end_token, second.row.end_token) == ("<|endoftext|>", "")
    assert (second.row.query_prompt, second.row.query_max_length) == ("", 32768)
    assert second in system.searched_with
    assert system.describe() == "bm25 → e2rank-0.6b-listwise@100"


def test_a_second_search_has_no_unusable_answers_and_no_samples(bench: Workbench, task: Task) -> None:
    for setting in ({"max_unusable": 0.5}, {"samples": 2}):
        with pytest.raises(ConfigError, match=next(iter(setting))):
            bench.system({"retriever": "bm25", "reranker": {"model": "again", **setting}})
    with pytest.raises(ConfigError, match="scores no pairs"):
        bench.score("again", task, Run(tag="none", rankings={}))
