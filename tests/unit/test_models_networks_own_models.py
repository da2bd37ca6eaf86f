import sys
from pathlib import Path

import numpy as np
import pytest

from r2med_ray.cuts import Cuts
from r2med_ray.errors import ConfigError, DataError, NotAtHand, OwnCodeError
from r2med_ray.models.at_hand import ModelsAtHand
from r2med_ray.models.catalog.load import Catalog, load_catalog
from r2med_ray.models.catalog.table import models_table
from r2med_ray.models.networks.pair_scorers import build_pair_scorer, scoring_inputs
from r2med_ray.models.networks.task_encoders import TaskEncoders
from r2med_ray.protocols import taken_cuts
from r2med_ray.reranking.pair_reranking import score_counted
from r2med_ray.types import Document
from tests.unit import toy_models

TOYS = "tests.unit.toy_models"

PROMPTS = (
    'similarity: dot, query_prompt: "{instruction} ", document_prompt: "c", instructions: {default: a, Biology: bb}'
)
ENCODER = f"{{name: toy, class: {TOYS}.LetterCounts, max_length: 9, {PROMPTS}}}"
RERANKER = f"{{name: toy-scorer, class: {TOYS}.SameLetters}}"


def catalog(folder: Path, *, encoders: str = ENCODER, rerankers: str = RERANKER) -> Catalog:
    path = folder / "models.yaml"
    path.write_text(f"encoders: [{encoders}]\nrerankers: [{rerankers}]\n")
    return load_catalog(path)


def test_an_encoder_of_a_users_own_encodes_with_the_prompts_of_the_task(tmp_path: Path) -> None:
    models = TaskEncoders(catalog(tmp_path).encoders["toy"], device="cpu", token_budget=7)

    biology, other = (models.for_task(task) for task in ("Biology", "Chemistry"))

    # The query prompts are "bb " and "a ", the document prompt is "c".
    assert biology.encode_queries(["abc"]).tolist() == [[1, 3, 1]]
    assert other.encode_queries(["abc"]).tolist() == [[2, 1, 1]]
    assert biology.encode_documents([Document(doc_id="1", title="a", text="b")]).tolist() == [[1, 1, 1]]
    assert biology.encode_plain(["ab"]).tolist() == [[1, 1, 0]]
    assert biology.encode_plain([]).shape == (0, 3)
    assert (biology.dim, biology.encode_plain(["ab"]).dtype) == (3, np.float32)


def test_it_is_built_once_for_tasks_with_the_same_prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toy_models.LetterCounts, "built", [])
    models = TaskEncoders(catalog(tmp_path).encoders["toy"], device="cpu", token_budget=7)

    assert models.for_task("Chemistry") is models.for_task("Physics")
    assert toy_models.LetterCounts.built == [("cpu", 7)]


def test_its_vectors_get_unit_length_where_the_row_compares_by_cosine(tmp_path: Path) -> None:
    rows = catalog(tmp_path, encoders=f"{{name: toy, class: {TOYS}.LetterCounts, max_length: 9}}").encoders
    encoder = TaskEncoders(rows["toy"], device="cpu", token_budget=7).for_task("t")

    # The text has 3 times a and 4 times b, so its length is √(3² + 4²) = 5.
    assert encoder.encode_plain(["aaabbbb"]) == pytest.approx(np.array([[0.6, 0.8, 0]]))


def test_vectors_and_scores_must_be_as_many_as_the_texts(tmp_path: Path) -> None:
    models = catalog(
        tmp_path,
        encoders=f"{{name: toy, class: {TOYS}.OneVectorForAll, max_length: 9}}",
        rerankers=f"{{name: toy, class: {TOYS}.OneScoreForAll}}",
    )
    encoder = TaskEncoders(models.encoders["toy"], device="cpu", token_budget=7).for_task("t")
    scorer = build_pair_scorer(models.rerankers["toy"], models, device="cpu")

    with pytest.raises(
        DataError, match=r"toy: `encode_queries` of class .* returned shape \(1, 3\) for 2 texts; it "
    ):
        encoder.encode_queries(["a", "b"])
    with pytest.raises(DataError, match=r"toy: `score_pairs` of class .* returned 1 scores for 2 pairs"):
        scorer.score_pairs([("a", "b"), ("a", "c")])


def test_a_pair_scorer_of_a_users_own_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toy_models.SameLetters, "built", [])
    models = catalog(tmp_path)

    scorer = build_pair_scorer(models.rerankers["toy-scorer"], models, device="cpu", token_budget=7)

    # "rash" and "crash" share r, a, s, h; "rash" and "fever" share r.
    assert scorer.score_pairs([("rash", "crash"), ("rash", "fever")]) == [4.0, 1.0]
    assert scorer.score_pairs([]) == []
    assert toy_models.SameLetters.built == [("toy-scorer", "cpu", 7)]


def test_the_class_is_imported_when_the_model_is_built_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "toys_of_mine.py").write_text(f"from {TOYS} import LetterCounts\n")
    models = catalog(tmp_path, encoders=ENCODER.replace(TOYS, "toys_of_mine"))
    row = models.encoders["toy"]
    ModelsAtHand(models, memory_gb=None, device="cpu", ask_hub=False).require(row)
    row.encoding_inputs("Biology", device="cpu")
    models_table(models)
    before = "toys_of_mine" in sys.modules
    TaskEncoders(row, device="cpu", token_budget=7)

    assert not before
    assert "toys_of_mine" in sys.modules


def test_a_class_whose_module_is_not_on_this_machine_is_not_at_hand(tmp_path: Path) -> None:
    models = catalog(tmp_path, encoders=ENCODER.replace(TOYS, "no_such_module"))

    with pytest.raises(NotAtHand, match=r"toy: its class no_such_module\.LetterCounts .* PYTHONPATH") as failure:
        ModelsAtHand(models, memory_gb=None, device="cpu", ask_hub=False).require(models.encoders["toy"])

    assert failure.value.what == "the Python module no_such_module"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such.Toy", r"toy: class 'no_such\.Toy': there is no Python module 'no_such'"),
        (f"{TOYS}.LeterCounts", rf"module '{TOYS}' has no class 'LeterCounts'\. Did you mean 'LetterCounts'\?"),
        (f"{TOYS}.FUNCTION", "has no class 'FUNCTION'"),
        (
            f"{TOYS}.MisnamedMethod",
            r"MisnamedMethod has no method `encode_queries`\. It has `encode_query`: is that meant\? Needed are dim, "
            r"encode_queries, encode_documents, encode_plain; see `r2med_ray\.protocols\.Encoder`",
        ),
        (f"{TOYS}.NoSize", r"NoSize has no `dim`\. It has `dimension`: is that meant\?"),
        (f"{TOYS}.SameLetters", "SameLetters has no method `encode_queries`"),
    ],
)
def test_a_class_that_is_no_encoder_is_refused_with_what_it_lacks(tmp_path: Path, name: str, message: str) -> None:
    row = catalog(tmp_path, encoders=f"{{name: toy, class: {name}, max_length: 9}}").encoders["toy"]

    with pytest.raises(ConfigError, match=message):
        TaskEncoders(row, device="cpu", token_budget=7).for_task("Biology")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (f"{TOYS}.LetterCounts", "has no method `score_pairs`.* see `r2med_ray.protocols.PairScorer`"),
        (f"{TOYS}.NoSettings", r"NoSettings must take \(row, \*, device, token_budget\); it takes \(row"),
    ],
)
def test_a_class_that_is_no_pair_scorer_is_refused_with_what_it_lacks(
    tmp_path: Path, name: str, message: str
) -> None:
    models = catalog(tmp_path, rerankers=f"{{name: toy, class: {name}}}")

    with pytest.raises(ConfigError, match=message):
        build_pair_scorer(models.rerankers["toy"], models, device="cpu")


def test_late_interaction_over_a_class_is_refused(tmp_path: Path) -> None:
    models = catalog(tmp_path, rerankers="{name: late, kind: maxsim, encoder: toy}")

    with pytest.raises(ConfigError, match=r"'toy': class .*LetterCounts gives vectors of whole texts only"):
        build_pair_scorer(models.rerankers["late"], models, device="cpu")


@pytest.mark.parametrize(
    "change", [{"class_": f"{TOYS}.NoSize"}, {"version": "2"}, {"max_length": 8}, {"document_prompt": "b"}]
)
def test_en11_whatever_changes_the_vectors_of_a_class_changes_their_key(
    tmp_path: Path, change: dict[str, object]
) -> None:
    row = catalog(tmp_path).encoders["toy"]

    assert row.model_copy(update=change).encoding_inputs("t") != row.encoding_inputs("t")
    assert row.model_copy(update={"license": "mit"}).encoding_inputs("t") == row.encoding_inputs("t")


@pytest.mark.parametrize("change", [{"class_": f"{TOYS}.NoSettings"}, {"version": "2"}, {"query_prompt": "q"}])
def test_en11_whatever_changes_the_scores_of_a_class_changes_their_key(
    tmp_path: Path, change: dict[str, object]
) -> None:
    models = catalog(tmp_path)
    row = models.rerankers["toy-scorer"]

    assert scoring_inputs(row.model_copy(update=change), models) != scoring_inputs(row, models)
    assert scoring_inputs(row.model_copy(update={"license": "mit"}), models) == scoring_inputs(row, models)


def test_weights_that_a_class_loads_are_part_of_its_key_and_must_be_at_hand(tmp_path: Path) -> None:
    weights = tmp_path / "weights"
    weights.mkdir()
    models = catalog(tmp_path, encoders=ENCODER.replace("name: toy", "name: toy, model: ./weights"))
    row = models.encoders["toy"]
    with pytest.raises(ConfigError, match="holds no checkpoint"):
        ModelsAtHand(models, memory_gb=None, device="cpu", ask_hub=False).require(row)
    (weights / "config.json").write_text("{}")
    before = row.encoding_inputs("t")
    (weights / "config.json").write_text("{ }")

    assert row.encoding_inputs("t") != before


def test_the_table_of_models_names_the_class(tmp_path: Path) -> None:
    [line] = [line for line in models_table(catalog(tmp_path)).splitlines() if "| toy |" in line]

    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[:6] == ["encoder", "toy", "", f"class {TOYS}.LetterCounts", "9", "query, document"]


def test_what_r2med_does_otherwise_keeps_the_class(tmp_path: Path) -> None:
    row = catalog(tmp_path, encoders=ENCODER.replace("max_length: 9", "max_length: 9, r2med: {max_length: 4}"))
    changed = row.encoders["toy"].under("r2med")

    assert (changed.class_, changed.max_length) == (f"{TOYS}.LetterCounts", 4)


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        ("{name: m, max_length: 9}", "an encoder needs `model` and `pooling`, or a `class`"),
        ("{name: m, model: o/m, max_length: 9}", "an encoder needs `pooling`, or a `class`"),
        ("{name: m, class: Toy, max_length: 9}", "m: class: .*got 'Toy'"),
        ("{name: m, class: toys:Toy, max_length: 9}", "m: class: .*got 'toys:Toy'"),
        (
            "{name: m, model: o/m, pooling: cls, max_length: 9, version: 2}",
            "`version` is the version of a row's `class`",
        ),
        ("{name: m, clas: a.B, max_length: 9}", "unknown key 'clas'. Did you mean 'class'"),
    ],
)
def test_an_encoders_row_that_nobody_could_build_is_refused(tmp_path: Path, encoder: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        catalog(tmp_path, encoders=encoder)


@pytest.mark.parametrize(
    ("reranker", "message"),
    [
        ("{name: r, model: o/m}", r"a reranker needs a `kind` \(cross-encoder, yes-no, maxsim\), or a `class`"),
        ("{name: r, class: a.B, kind: yes-no, model: o/m}", "takes neither `kind` nor `encoder`"),
        ("{name: r, class: a.B, encoder: bge-small}", "takes neither `kind` nor `encoder`"),
    ],
)
def test_a_rerankers_row_that_nobody_could_build_is_refused(tmp_path: Path, reranker: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        catalog(tmp_path, rerankers=reranker)


def test_what_a_class_raises_is_told_with_row_class_method_and_line(tmp_path: Path) -> None:
    models = catalog(
        tmp_path,
        encoders=f"{{name: toy, class: {TOYS}.RaisingEncoder, max_length: 9}}",
        rerankers=f"{{name: toy-scorer, class: {TOYS}.RaisingScorer}}",
    )
    encoder = TaskEncoders(models.encoders["toy"], device="cpu", token_budget=7).for_task("t")
    scorer = build_pair_scorer(models.rerankers["toy-scorer"], models, device="cpu", token_budget=7)

    line = r"ValueError: boom \(.*toy_models\.py:\d+\)"
    with pytest.raises(
        OwnCodeError, match=rf"^toy: `encode_documents` of class {TOYS}\.RaisingEncoder raised {line}"
    ):
        encoder.encode_documents([Document(doc_id="1", text="a")])
    with pytest.raises(
        OwnCodeError, match=rf"^toy-scorer: `score_pairs` of class {TOYS}\.RaisingScorer raised {line}"
    ):
        scorer.score_pairs([("a", "b")])


@pytest.mark.parametrize("counted", [None, {"query": Cuts(texts=2, cut=1, tokens=9, lost=4, lengths=(3,))}])
def test_a_class_may_say_what_it_cut(counted: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toy_models.FirstLetters, "counted", counted)
    row = catalog(tmp_path, encoders=f"{{name: toy, class: {TOYS}.FirstLetters, max_length: 3}}").encoders["toy"]

    assert taken_cuts(TaskEncoders(row, device="cpu", token_budget=7).for_task("t")) == counted


def test_what_a_class_without_the_method_cuts_is_unknown(tmp_path: Path) -> None:
    models = catalog(tmp_path)

    assert taken_cuts(TaskEncoders(models.encoders["toy"], device="cpu", token_budget=7).for_task("t")) is None
    scorer = build_pair_scorer(models.rerankers["toy-scorer"], models, device="cpu")
    scored = score_counted(scorer, [("rash", "crash")])
    assert (scored.scores, scored.cuts) == ([4.0], None)


def test_a_pair_scorer_of_a_users_own_may_say_what_it_cut(tmp_path: Path) -> None:
    models = catalog(tmp_path, rerankers=f"{{name: toy, class: {TOYS}.FirstLettersScorer}}")
    scorer = build_pair_scorer(models.rerankers["toy"], models, device="cpu")

    cuts = score_counted(scorer, [("rash", "crash")]).cuts
    assert cuts == {"query": Cuts(texts=1), "document": Cuts(texts=1, cut=1, tokens=9, lost=6, lengths=(3,))}


@pytest.mark.parametrize("counted", [3, {"queries": Cuts()}, {"query": 3}])
def test_what_it_says_must_be_counts_of_the_sides(
    counted: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toy_models.FirstLetters, "counted", counted)
    row = catalog(tmp_path, encoders=f"{{name: toy, class: {TOYS}.FirstLetters, max_length: 3}}").encoders["toy"]

    with pytest.raises(OwnCodeError, match=r"^toy: `take_cuts` of class .*FirstLetters returned .*; it must be None"):
        taken_cuts(TaskEncoders(row, device="cpu", token_budget=7).for_task("t"))
