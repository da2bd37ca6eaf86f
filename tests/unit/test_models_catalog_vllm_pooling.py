"""What vLLM's pooling runner can't compute is refused by the row, the value and what would be right, without vLLM."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from r2med_ray.errors import ConfigError, NotAtHand
from r2med_ray.models.at_hand import ModelsAtHand
from r2med_ray.models.catalog.devices import Share
from r2med_ray.models.catalog.encoders import EncoderRow
from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.models.catalog.rerankers import RerankerRow
from r2med_ray.models.catalog.vllm_pooling import Pooled, pooled_by_vllm, require_engine
from r2med_ray.models.networks.encoders import build_encoder
from r2med_ray.models.networks.pair_scorers import row_of_encoder
from r2med_ray.models.networks.pooling_engine import memory_of
from r2med_ray.settings.config_files import load_with
from r2med_ray.systems import resolve
from r2med_ray.workbench.bench import open_workbench
from r2med_ray.workbench.plan import make_plan
from tests.unit.corpus_files import write_r2med
from tests.unit.tiny_checkpoints import language_model, word_pieces

TRANSFORMER, POOLING = "sentence_transformers.models.Transformer", "sentence_transformers.models.Pooling"
NORMALIZE, DENSE = "sentence_transformers.models.Normalize", "sentence_transformers.models.Dense"
LAST = {"embedding_dimension": 32, "pooling_mode": "lasttoken", "include_prompt": True}


def row(folder: Path | str = "org/m", **values: Any) -> EncoderRow:
    given = {"name": "deep", "model": str(folder), "pooling": "last", "max_length": 99, "engine": "vllm"}
    return EncoderRow.model_validate(given | values)


def checkpoint(
    folder: Path,
    *,
    modules: tuple[str, ...] = (TRANSFORMER, POOLING),
    pooling: dict[str, Any] = LAST,
    settings: dict[str, Any] | None = None,
    config: dict[str, Any] | None = None,
) -> Path:
    """Write the files of a checkpoint of sentence-transformers that tell how it pools."""
    folder.mkdir(parents=True, exist_ok=True)
    listed = [
        {"path": f"{at}_{kind.rpartition('.')[2]}" if at else "", "type": kind} for at, kind in enumerate(modules)
    ]
    files = {"config.json": config or {}, "modules.json": listed, "sentence_bert_config.json": settings or {}}
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content))
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(pooling))
    return folder


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"class": "toys.Encoder"}, "`engine: vllm` can not be combined with `class: toys.Encoder`"),
        ({"document_model": "org/d"}, "combined with `document_model: org/d`; leave out one of them"),
        ({"attention": "bidirectional"}, "combined with `attention: bidirectional`"),
        ({"pooling": "mean", "exclude_prompt_from_pooling": True}, "`exclude_prompt_from_pooling: True`"),
        ({"document_as_pair": True}, "`document_as_pair: True`"),
        ({"autocast": True}, "`autocast: True`"),
        ({"trust_remote_code": True}, "`trust_remote_code: True`"),
        ({"dtype": "fastest"}, "needs `dtype` auto, float32, bfloat16 or float16, not 'fastest'"),
        ({"engine": "tei"}, "'sentence-transformers' or 'vllm'"),
    ],
)
def test_a_row_with_a_key_that_vllm_does_not_take_is_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        row(**values)


def test_a_row_without_the_key_is_computed_by_sentence_transformers_and_the_table_names_the_other_engine() -> None:
    plain = EncoderRow(name="m", model="org/m", pooling="last", max_length=9)

    assert (plain.engine, plain.how) == ("sentence-transformers", "last")
    assert row().how == "last, by vLLM"
    assert not [name for name, each in load_catalog().encoders.items() if each.engine != "sentence-transformers"]


@pytest.mark.parametrize(
    ("modules", "pooling", "settings", "expected"),
    [
        ((TRANSFORMER, POOLING), LAST, {}, Pooled("last", unit_length=False, max_length=None)),
        ((TRANSFORMER, POOLING, NORMALIZE), LAST, {"max_seq_length": 64, "do_lower_case": False}, ("last", True, 64)),
        ((TRANSFORMER, POOLING), {"pooling_mode": ["cls"]}, {}, ("cls", False, None)),
        # Files of earlier versions have a key for each pooling.
        (
            (TRANSFORMER, POOLING),
            {"pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True},
            {},
            ("mean", False, None),
        ),
        ((TRANSFORMER, POOLING), {"pooling_mode_lasttoken": True}, {}, ("last", False, None)),
    ],
)
def test_files_of_sentence_transformers_say_what_vllm_has_to_pool(
    tmp_path: Path,
    modules: tuple[str, ...],
    pooling: dict[str, Any],
    settings: dict[str, Any],
    expected: tuple[Any, ...],
) -> None:
    folder = checkpoint(tmp_path, modules=modules, pooling=pooling, settings=settings)

    assert pooled_by_vllm(row(folder, pooling="model"), folder) == expected


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"modules": ()}, r"knows the modules Transformer, Pooling and Normalize, in this order, and .* has \[\]"),
        ({"modules": ("sentence_transformers.models.StaticEmbedding",)}, r"has \['StaticEmbedding'\]; give"),
        ({"modules": (TRANSFORMER, POOLING, DENSE)}, r"no layer after pooling, and .*'Dense'"),
        ({"pooling": {"pooling_mode": "weightedmean"}}, "pools by mean, cls, lasttoken, and .* says weightedmean"),
        ({"pooling": {"pooling_mode": ["cls", "mean"]}}, "says cls, mean"),
        ({"pooling": LAST | {"include_prompt": False}}, "leaves those of the prompt out; leave `engine` out"),
        ({"settings": {"do_lower_case": True}}, "knows no {'do_lower_case': True} of .*sentence_bert_config.json"),
        ({"settings": {"modality_config": {"message": {}}}}, "knows no {'modality_config': {'message': {}}}"),
        ({"config": {"is_causal": False}}, "attention of the model's architecture, and .*config.json makes"),
    ],
)
def test_a_checkpoint_that_does_more_than_vllm_computes_is_refused_before_anything_starts(
    tmp_path: Path, files: dict[str, Any], words: str
) -> None:
    asked = row(checkpoint(tmp_path, **files), pooling="model")

    with pytest.raises(ConfigError, match=f"encoder 'deep': `engine: vllm` .*{words}"):
        require_engine(asked)
    require_engine(asked.model_copy(update={"engine": "sentence-transformers"}))


def test_a_layer_after_pooling_is_refused_for_a_row_that_says_itself_how_to_pool(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, modules=(TRANSFORMER, POOLING, DENSE))

    with pytest.raises(ConfigError, match="computes no layer after pooling"):
        require_engine(row(folder, pooling="last"))


def test_a_benchmark_file_can_not_have_the_dtype_of_vllm_measured(tmp_path: Path) -> None:
    models = tmp_path / "models.yaml"
    folder = language_model(tmp_path / "m", "Qwen3", word_pieces(template="$A [unused0]", end="[unused0]"))
    models.write_text(
        f"encoders: [{{name: deep, model: {folder}, pooling: last, max_length: 99, engine: vllm}}]", "utf-8"
    )
    with (
        open_workbench(tmp_path / "store", models=models) as bench,
        pytest.raises(ConfigError, match="encoder 'deep': `engine: vllm` takes no `dtype: fastest`"),
    ):
        bench.first_stage({"model": "deep", "dtype": "fastest"})


def test_vllm_is_needed_where_a_row_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = checkpoint(tmp_path / "m")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    at_hand = ModelsAtHand(load_catalog(), memory_gb=None, device="cpu", ask_hub=False)

    at_hand.require(row(folder, engine="sentence-transformers"))
    with pytest.raises(NotAtHand, match="encoder 'deep' has `engine: vllm`: install 'r2med-ray\\[llm\\]'") as failure:
        at_hand.require(row(folder))
    assert failure.value.what == "vLLM"


def test_a_plan_names_the_engine_and_misses_it_where_it_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint(tmp_path / "m")
    write_r2med(tmp_path / "tiny")
    encoder = {"name": "deep", "model": "./m", "pooling": "last", "max_length": 99, "engine": "vllm"}
    (tmp_path / "models.yaml").write_text(yaml.safe_dump({"encoders": [encoder]}))
    values = {"name": "planned", "tasks": [{"name": "Tiny", "path": "tiny"}], "models": "models.yaml"}
    values |= {"systems": [{"name": "one", "retriever": "deep"}]}
    (tmp_path / "planned.yaml").write_text(yaml.safe_dump(values))
    benchmark = load_with(resolve, tmp_path / "planned.yaml")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)

    with open_workbench(tmp_path / "store", names=benchmark.names, only_to_plan=True) as bench:
        plan = make_plan(benchmark, bench.store, bench.runner)

    [line] = plan.computing
    assert line.startswith("deep: float32 (by `auto`), at most 99 tokens, on a CPU, ")
    assert line.endswith(", by vLLM; for one")
    assert any("deep" in need and "vLLM" in need for need in plan.needs)


def test_a_worker_without_vllm_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = language_model(tmp_path, "Qwen3", word_pieces(template="$A [unused0]", end="[unused0]"))
    monkeypatch.setitem(sys.modules, "vllm", None)  # an import of it fails

    with pytest.raises(ConfigError, match=r"encoder 'deep': `engine: vllm` needs vLLM on every worker .*install"):
        build_encoder(row(folder), task="t", device="cpu")


def test_an_engine_takes_the_part_of_a_gpu_that_its_worker_has_and_a_stated_memory_of_a_cpu() -> None:
    # 0.9 of half a GPU; 2 GiB.
    assert memory_of("cuda", Share(gpus=0.5)) == {"gpu_memory_utilization": 0.45}
    assert memory_of("cuda", Share(gpus=2.0)) == {"gpu_memory_utilization": 0.9}
    assert memory_of("cpu", Share(kv_cache_gib=2)) == {"kv_cache_memory_bytes": 2_147_483_648, "enforce_eager": True}


def test_token_vectors_of_a_reranker_are_not_made_by_vllm(tmp_path: Path) -> None:
    models = tmp_path / "models.yaml"
    models.write_text("encoders: [{name: deep, model: ./m, pooling: last, max_length: 99, engine: vllm}]", "utf-8")
    maxsim = RerankerRow(name="r", kind="maxsim", encoder="deep")

    assert row_of_encoder(maxsim, load_catalog(models)).engine == "sentence-transformers"
