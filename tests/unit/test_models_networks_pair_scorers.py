import pytest

from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.models.networks.cross_encoders import CrossEncoderScorer
from r2med_ray.models.networks.maxsim import MaxSimScorer
from r2med_ray.models.networks.pair_scorers import build_pair_scorer, scoring_inputs
from tests.unit import tiny_checkpoints

ROWS = """
encoders:
  - {name: tokens, model: ./bert, pooling: mean, max_length: 64, document_prompt: "passage: "}
rerankers:
  - {name: late, kind: maxsim, encoder: tokens, dtype: float32}
  - {name: cross, kind: cross-encoder, model: ./classifier, max_length: 64, dtype: float32}
"""


@pytest.fixture(scope="module")
def catalog(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    tiny_checkpoints.bert(folder / "bert")
    tiny_checkpoints.classifier(folder / "classifier")
    (folder / "models.yaml").write_text(ROWS)
    return load_catalog(folder / "models.yaml")


def test_the_row_chooses_the_scorer(catalog):
    late = build_pair_scorer(catalog.rerankers["late"], catalog, device="cpu")
    cross = build_pair_scorer(catalog.rerankers["cross"], catalog, device="cpu")

    assert isinstance(late, MaxSimScorer)
    assert isinstance(cross, CrossEncoderScorer)
    # The maximum is 1 per query token. A document equal to the query without the query's prompt can't reach it.
    assert 0 < late.score_pairs([("fever", "fever")])[0] < 3.001
    assert len(cross.score_pairs([("fever", "rash"), ("fever", "")])) == 2


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("late", {"dtype": "bfloat16"}),
        ("late", {"encoder": "all-MiniLM-L6-v2"}),
        ("cross", {"dtype": "bfloat16"}),
        ("cross", {"max_length": 32}),
        ("cross", {"score_class": 0}),
    ],
)
def test_en11_whatever_changes_a_score_changes_its_key(catalog, name, change):
    row = catalog.rerankers[name]

    assert scoring_inputs(row.model_copy(update=change), catalog) != scoring_inputs(row, catalog)
    assert scoring_inputs(row.model_copy(update={"license": "mit"}), catalog) == scoring_inputs(row, catalog)
