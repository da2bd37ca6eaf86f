"""Every kind of network has the tensors that its code makes, and no weight that its files lack."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import peft
import pytest
import torch
import transformers
from safetensors.torch import load_file
from sentence_transformers.base.modules import Dense

from r2med_ray.errors import ConfigError, DataError, OwnCodeError
from r2med_ray.models.catalog.checkpoints import LateInteractionRow, SparseRow
from r2med_ray.models.catalog.encoders import EncoderRow
from r2med_ray.models.catalog.pickles import require_no_pickles
from r2med_ray.models.catalog.rerankers import RerankerRow
from r2med_ray.models.networks.cross_encoders import CrossEncoderScorer
from r2med_ray.models.networks.late_interaction import LateInteractionEncoder
from r2med_ray.models.networks.loading import load_whole, pickle_guard
from r2med_ray.models.networks.sparse_encoders import SparseEncoder
from r2med_ray.models.networks.task_encoders import TaskEncoders
from r2med_ray.models.networks.unread_tensors import left_by_transformers, rebuild_unread
from r2med_ray.models.networks.yes_no import YesNoScorer
from r2med_ray.types import Document
from tests.unit import tiny_checkpoints
from tests.unit.tiny_checkpoints import own_buffers, with_own_loading, with_pooling

TEXTS = ["acute renal failure", "rash"]
PAIRS = [("fever", "measles after travel"), ("fever", "rash")]


def settings(folder: Path, **changes: object) -> dict[str, object]:
    common = {"name": "own", "model": str(folder), "max_length": 64, "dtype": "float32", "trust_remote_code": True}
    allowed = {"allow_pickle": True} if (folder / "allowed").exists() else {}
    return common | allowed | changes


def vectors(folder: Path, pooling: str) -> Any:
    row = EncoderRow.model_validate(settings(folder, pooling=pooling))
    return TaskEncoders(row, device="cpu", token_budget=1000).for_task("t").encode_plain(TEXTS)


def token_vectors(folder: Path) -> Any:
    row = LateInteractionRow.model_validate(settings(folder, projection="none"))
    documents = [Document(doc_id=text, text=text) for text in TEXTS]
    return np.concatenate(LateInteractionEncoder(row, device="cpu", token_budget=1000).encode_documents(documents))


def sparse_vectors(folder: Path) -> Any:
    row = SparseRow.model_validate(settings(folder))
    return SparseEncoder(row, device="cpu", token_budget=1000).encode_queries(TEXTS).toarray()


def scores(folder: Path, kind: str) -> Any:
    row = RerankerRow.model_validate(settings(folder, kind=kind))
    scorer = (YesNoScorer if kind == "yes-no" else CrossEncoderScorer)(row, device="cpu")
    return np.array(scorer.score_pairs(PAIRS))


def adapted_scores(folder: Path) -> Any:
    row = RerankerRow.model_validate(settings(folder, kind="cross-encoder", adapter=f"{folder}-adapter"))
    return np.array(CrossEncoderScorer(row, device="cpu").score_pairs(PAIRS))


KINDS: dict[str, Callable[[Path], Any]] = {
    "backbone": lambda folder: vectors(folder, "mean"),
    "own encode": lambda folder: vectors(folder, "encode"),
    "sentence-transformers": lambda folder: vectors(folder, "model"),
    "late interaction": token_vectors,
    "sparse": sparse_vectors,
    "cross-encoder": lambda folder: scores(folder, "cross-encoder"),
    "adapter": adapted_scores,
    "yes-no": lambda folder: scores(folder, "yes-no"),
}


def saved(kind: str, folder: Path, **changes: Any) -> Path:
    """Save the checkpoint in the form that a kind of network reads."""
    own_buffers(folder, **changes)
    if kind == "adapter":
        torch.manual_seed(1)
        keys = {"target_modules": ["mix"], "modules_to_save": ["score"], "init_lora_weights": False}
        config = peft.LoraConfig(task_type="SEQ_CLS", r=2, **keys)
        whole = own_buffers(folder.with_name(f"{folder.name}-whole"))
        base = transformers.AutoModelForSequenceClassification.from_pretrained(whole, trust_remote_code=True)
        peft.get_peft_model(base, config).save_pretrained(f"{folder}-adapter")
    return with_pooling(folder, "mean_tokens", 8) if kind == "sentence-transformers" else folder


def by_formula(kind: str, folder: Path) -> Any:
    """Return what a kind of network gives, worked out from the weights in the files."""
    weights = load_file(folder / "model.safetensors")
    mix, score = weights["model.mix.weight"], weights["score.weight"]
    if kind == "adapter":
        adapter = {
            name.removeprefix("base_model.model."): value
            for name, value in load_file(f"{folder}-adapter/adapter_model.safetensors").items()
        }
        # LoRA adds B A, times lora_alpha / r = 8 / 2
        mix = mix + 4 * adapter["model.mix.lora_B.weight"] @ adapter["model.mix.lora_A.weight"]
        score = adapter["score.weight"]

    def states(ids: list[int]) -> torch.Tensor:
        places = torch.arange(len(ids), dtype=torch.float64)
        waves = torch.cos(torch.outer(places, 10 ** -(torch.arange(8, dtype=torch.float64) / 8)))
        mixed = (weights["model.table.weight"][ids].double() * (2 + waves)) @ mix.double().T
        return mixed.cumsum(0) / (places + 1).unsqueeze(1)

    tokens = tiny_checkpoints.tokenizer()
    texts = [states(tokens(text).input_ids) for text in TEXTS]
    if kind in ("backbone", "own encode", "sentence-transformers"):
        means = torch.stack([text.mean(dim=0) for text in texts])
        return (means / means.norm(dim=1, keepdim=True)).numpy()
    if kind == "late interaction":
        rows = torch.cat(texts)
        return (rows / rows.norm(dim=1, keepdim=True)).numpy()
    head = weights["lm_head.weight"].double()
    if kind == "sparse":
        return torch.stack([torch.log1p(torch.relu(text @ head.T)).amax(dim=0) for text in texts]).numpy()
    if kind == "yes-no":
        yes, no = tokens.convert_tokens_to_ids(["yes", "no"])
        pairs = [states(tokens(query + document, add_special_tokens=False).input_ids) for query, document in PAIRS]
        return np.array([float(pair[-1] @ (head[yes] - head[no])) for pair in pairs])
    return np.array([float(states(tokens(*pair).input_ids)[-1] @ score[0].double()) for pair in PAIRS])


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("own")
    return {kind: saved(kind, root / str(number)) for number, kind in enumerate(KINDS)}


@pytest.fixture(scope="module")
def of_another_process(folders: dict[str, Path]) -> dict[str, Any]:
    """What each kind gives in a process whose memory is not this one's."""
    script = (
        "import json, pathlib, sys, torch\n"
        "from tests.unit.test_models_networks_loading import KINDS\n"
        "used = [torch.full((size,), float('nan')) for size in (8, 64, 512, 4096) for _ in range(200)]\n"
        "del used\n"
        "folders = json.loads(sys.argv[1])\n"
        "found = {kind: KINDS[kind](pathlib.Path(folder)).tolist() for kind, folder in folders.items()}\n"
        "pathlib.Path(sys.argv[2]).write_text(json.dumps(found))\n"
    )
    target = folders["sparse"].with_name("found.json")
    named = json.dumps({kind: str(folder) for kind, folder in folders.items()})
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", script, named, str(target)], check=True, cwd=root)
    return {kind: np.array(values) for kind, values in json.loads(target.read_text()).items()}


@pytest.mark.parametrize("kind", KINDS)
def test_tensors_that_no_file_holds_are_those_of_the_code_in_every_process(
    kind: str, folders: dict[str, Path], of_another_process: dict[str, Any]
) -> None:
    expected = by_formula(kind, folders[kind])
    tolerance = 1e-3 if kind == "late interaction" else 1e-5  # float16, float32

    assert KINDS[kind](folders[kind]) == pytest.approx(expected, abs=tolerance, rel=1e-5)
    assert of_another_process[kind] == pytest.approx(expected, abs=tolerance, rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_tensor_that_is_another_one_in_each_construction_is_refused_by_name(kind: str, tmp_path: Path) -> None:
    folder = saved(kind, tmp_path / "own", noise=True)

    with pytest.raises(DataError, match=r"'own': Wave\w+ has a tensor '(model\.)?noise' that is in no file"):
        KINDS[kind](folder)


@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_makes_up_a_weight_that_its_files_lack(kind: str, tmp_path: Path) -> None:
    folder = saved(kind, tmp_path / "own", without="model.mix.weight")

    with pytest.raises(
        DataError, match=r"'own': 1 weights of Wave\w+ are not in .*own, e\.g\. '(model\.)?mix\.weight'"
    ):
        KINDS[kind](folder)


@pytest.mark.parametrize(("kind", "head"), [("cross-encoder", "score"), ("sparse", "lm_head"), ("yes-no", "lm_head")])
def test_no_kind_makes_up_its_last_layer(kind: str, head: str, tmp_path: Path) -> None:
    folder = saved(kind, tmp_path / "own", without=f"{head}.weight")

    with pytest.raises(DataError, match=f"'own': 1 weights of .*'{head}.weight'"):
        KINDS[kind](folder)


@pytest.mark.parametrize("kind", KINDS)
def test_what_code_of_a_checkpoint_loads_by_itself_is_checked_as_well(kind: str, tmp_path: Path) -> None:
    folder = with_own_loading(saved(kind, tmp_path / "own"))
    tolerance = 1e-3 if kind == "late interaction" else 1e-5  # float16, float32

    assert KINDS[kind](folder) == pytest.approx(by_formula(kind, folder), abs=tolerance, rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_code_of_a_checkpoint_makes_up_no_weight_that_its_files_lack(kind: str, tmp_path: Path) -> None:
    folder = with_own_loading(saved(kind, tmp_path / "own", without="model.mix.weight"))

    said = r"'own': Wave\w+ is loaded by code .* to read 1 of its weights .* e\.g\. '(model\.)?mix\.weight'"
    with pytest.raises(DataError, match=said):
        KINDS[kind](folder)


@pytest.mark.parametrize(
    ("read", "lacking"),
    [
        ("[weight.data.copy_(weights[name]) for name, weight in model.named_parameters()]", "table.weight"),
        ("model.load_state_dict(weights, strict=False); model.more = nn.Linear(2, 2)", "more.weight"),
        ("model = super().from_pretrained(folder, config=config); model.more = nn.Linear(2, 2)", "more.weight"),
    ],
)
def test_weights_that_were_not_seen_to_be_read_are_refused_by_name(read: str, lacking: str, tmp_path: Path) -> None:
    folder = with_own_loading(saved("backbone", tmp_path / "own"), read)

    with pytest.raises(DataError, match=rf"'own': WaveModel is loaded by code of its own, .* e\.g\. '{lacking}'"):
        vectors(folder, "mean")


def test_a_weight_without_memory_is_refused_by_name(tmp_path: Path) -> None:
    read = "model.load_state_dict(weights, strict=False); model.to('meta')"
    folder = with_own_loading(saved("backbone", tmp_path / "own"), read)

    with pytest.raises(DataError, match=r"'own': .*'table\.weight' has no memory after its network was loaded"):
        vectors(folder, "mean")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("architecture", ["Llama", "Qwen3", "Gemma", "GPTNeoX", "ModernBert", "Roberta", "MPNet"])
def test_networks_of_transformers_keep_the_tensors_that_they_have(
    architecture: str, dtype: str, tmp_path: Path
) -> None:
    heads = {"num_key_value_heads": 2, "head_dim": 16} if architecture in ("Llama", "Qwen3", "Gemma") else {}
    config = getattr(transformers, f"{architecture}Config")(**tiny_checkpoints.SMALL, **heads, pad_token_id=0)
    tiny_checkpoints.save(tmp_path, f"{architecture}Model", config, tiny_checkpoints.tokenizer())
    model = transformers.AutoModel.from_pretrained(tmp_path, dtype=dtype)
    before = {name: value.clone() for name, value in model.named_buffers()}

    rebuild_unread("encoder 'm'", model, list(left_by_transformers(model)), model.config.dtype)

    assert before
    assert all(torch.equal(before[name], value) for name, value in model.named_buffers())


def test_code_that_can_not_build_the_network_is_named(tmp_path: Path) -> None:
    folder = own_buffers(tmp_path / "own")
    code = folder / "modeling_wave.py"
    once = "        if torch.tensor(0).device.type == 'cpu':\n            raise RuntimeError('no flash attention')\n"
    code.write_text(code.read_text().replace("        self.post_init()\n", once + "        self.post_init()\n", 1))

    with pytest.raises(OwnCodeError, match="'own': building WaveModel on the CPU raised RuntimeError: no flash"):
        vectors(folder, "mean")


def test_transformers_loads_as_before_outside_the_block(tmp_path: Path) -> None:
    before = transformers.PreTrainedModel.__dict__["from_pretrained"], torch.nn.Module.load_state_dict

    with pytest.raises(OSError, match=r"no file named model\.safetensors"):
        load_whole("encoder 'm'", lambda: transformers.BertModel.from_pretrained(tmp_path))

    assert (transformers.PreTrainedModel.__dict__["from_pretrained"], torch.nn.Module.load_state_dict) == before


def in_pickles(folder: Path) -> list[Path]:
    """Turn every file of safetensors below a folder into the pickle that was published before there were any."""
    files = []
    for path in sorted(folder.rglob("*.safetensors")):
        name = path.name.replace("adapter_model.safetensors", "adapter_model.bin")
        files.append(path.with_name(name.replace("model.safetensors", "pytorch_model.bin")))
        torch.save(load_file(path), files[-1])
        path.unlink()
    return files


@pytest.mark.parametrize("kind", KINDS)
def test_weights_in_a_pickle_are_refused_by_name_with_what_to_set(kind: str, tmp_path: Path) -> None:
    folder = saved(kind, tmp_path / "own")
    pickles = in_pickles(tmp_path / "own-adapter" if kind == "adapter" else folder)

    with pytest.raises(ConfigError, match=r"a pickle, .* set `allow_pickle: true` in the row") as raised:
        KINDS[kind](folder)

    assert str(pickles[0]) in str(raised.value)
    assert "'own'" in str(raised.value)


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_may_allow_a_pickle_which_gives_the_same_result(kind: str, tmp_path: Path) -> None:
    folder = saved(kind, tmp_path / "own")
    expected = KINDS[kind](folder)
    assert in_pickles(tmp_path)
    (folder / "allowed").touch()

    np.testing.assert_array_equal(KINDS[kind](folder), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_an_allowed_pickle_runs_no_code(kind: str, tmp_path: Path) -> None:
    folder = saved(kind, tmp_path / "own")
    for path in in_pickles(tmp_path / "own-adapter" if kind == "adapter" else folder):
        torch.save({"weight": MakesAFile(tmp_path / "ran")}, path)
    (folder / "allowed").touch()

    with pytest.raises(DataError, match=r"'own': the pickle .* holds more than tensors"):
        KINDS[kind](folder)

    assert not (tmp_path / "ran").exists()


class MakesAFile:
    """A value whose pickle makes a file when it is read."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, str]]:
        return open, (str(self.path), "w")


def test_a_pickle_of_a_module_of_sentence_transformers_is_refused(tmp_path: Path) -> None:
    folder = with_dense_layer(tmp_path / "own")
    [pickle] = in_pickles(folder / "2_Dense")

    with pytest.raises(ConfigError, match=r"2_Dense/pytorch_model\.bin, a pickle"):
        vectors(folder, "model")
    with pytest.raises(ConfigError, match=r"2_Dense/pytorch_model\.bin, a pickle"):
        require_no_pickles("model 'own'", folder)

    (folder / "allowed").touch()
    assert vectors(folder, "model").shape == (2, 3)
    assert pickle.is_file()


def with_dense_layer(folder: Path) -> Path:
    """Save a checkpoint whose vectors go through a layer from 8 to 3 numbers."""
    with_pooling(own_buffers(folder), "mean_tokens", 8)
    (folder / "2_Dense").mkdir()
    Dense(8, 3).save(str(folder / "2_Dense"))
    modules = json.loads((folder / "modules.json").read_text())
    modules.append({"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.base.modules.Dense"})
    (folder / "modules.json").write_text(json.dumps(modules))
    return folder


def test_torch_reads_pickles_as_before_outside_the_block(tmp_path: Path) -> None:
    before = torch.load
    with pytest.raises(ConfigError), pickle_guard("m", allowed=False):
        torch.load(tmp_path / "x.bin")

    assert torch.load is before
