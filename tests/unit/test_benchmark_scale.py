"""Slopes of costs are what they say, and a corpus of any size is written and searched as the benchmarks claim."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.benchmarks.gpu_search import BLOCK, GROUP, nearest, random_vectors
from tests.benchmarks.scale import slopes
from tests.benchmarks.scale_job import NoTime, write


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        # log(10) / log(10) = 1
        pytest.param({100: 1.0, 1_000: 10.0}, [1.0], id="each-document-costs-the-same"),
        # log10(100) / log10(10) = 2
        pytest.param({100: 1.0, 1_000: 100.0}, [2.0], id="quadratic"),
        # log10(12.589) = 1.1, and log10(125.89 / 12.589) = 1
        pytest.param({10: 1.0, 100: 12.589, 1_000: 125.89}, [1.1, 1.0], id="two-steps"),
        # log(4) / log(16) = 0.5
        pytest.param({1: 1.0, 16: 4.0}, [0.5], id="a-step-of-another-size"),
    ],
)
def test_a_slope_is_that_of_the_logarithms(seconds: dict[int, float], expected: list[float]) -> None:
    assert slopes(seconds) == pytest.approx(expected, abs=1e-4)


def test_a_corpus_of_a_size_is_written_whole_and_with_the_lengths_of_r2med(tmp_path: Path) -> None:
    write(tmp_path, 5_100)  # a whole piece, and the beginning of another

    documents = [json.loads(line) for line in (tmp_path / "corpus.jsonl").read_text().splitlines()]
    assert [document["id"] for document in documents] == [f"d{number}" for number in range(5_100)]
    lengths = [len(document["text"].split()) for document in documents]
    # R2MED's eight means are 83.6 ... 1,273.0, and their mean is 324.2. Lengths above 2,048 are cut.
    assert 250 < np.mean(lengths) < 324.2
    assert max(lengths) == 2_048
    # 5,100 // 100 queries of 100 lines each
    assert len((tmp_path / "run.trec").read_text().splitlines()) == 5_100


def test_the_encoder_that_takes_no_time_gives_each_text_a_vector_of_its_own() -> None:
    encoder = NoTime(None, device="cpu", token_budget=1)
    vectors = encoder.encode_queries(["fever", "rash", "fever"])

    assert vectors.shape == (3, encoder.dim)
    assert vectors.dtype == np.float32
    assert (vectors[0] == vectors[2]).all()
    assert (vectors[0] != vectors[1]).any()


@pytest.mark.parametrize("count", [3, GROUP, 1_000, 3 * GROUP * 64])
def test_the_search_by_groups_finds_what_a_whole_product_has(count: int) -> None:
    documents_ND, queries_QD = random_vectors(count, 16, "cpu", 1), random_vectors(5, 16, "cpu", 2)
    scores_QK, positions_QK = nearest(documents_ND, queries_QD, 20)
    product_QN = queries_QD @ documents_ND.T

    assert torch.equal(scores_QK, product_QN.topk(min(20, count)).values)
    assert torch.equal(product_QN.gather(1, positions_QK), scores_QK)


def test_the_search_by_groups_puts_blocks_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.benchmarks.gpu_search.BLOCK", 100)
    documents_ND, queries_QD = random_vectors(1_050, 16, "cpu", 1), random_vectors(5, 16, "cpu", 2)

    assert 100 < len(documents_ND) < BLOCK
    _, positions_QK = nearest(documents_ND, queries_QD, 30)
    product_QN = queries_QD @ documents_ND.T
    assert torch.equal(product_QN.gather(1, positions_QK), product_QN.topk(30).values)
