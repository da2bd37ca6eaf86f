"""Whether a model can be used is found out without loading or downloading the model."""

import importlib
import json
import os
import stat
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tokenizers import Tokenizer
from tokenizers.models import BPE

from r2med_ray.errors import NotAtHand
from r2med_ray.indexing.bm25 import BM25_ROWS
from r2med_ray.models.at_hand import ModelsAtHand, gpu_memory_gb
from r2med_ray.models.catalog.language_models import LanguageModelRow
from r2med_ray.models.catalog.llm_rerankers import LlmRerankerRow
from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.models.catalog.services import ApiEncoderRow

CATALOG = load_catalog()
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


def models(memory_gb: float | None = None, device: str = "cpu") -> ModelsAtHand:
    return ModelsAtHand(CATALOG, memory_gb=memory_gb, device=device, ask_hub=False)


def test_a_checkpoint_that_is_not_cached_is_needed_by_name_and_commit():
    with pytest.raises(NotAtHand) as failure:
        models().require(CATALOG.encoders["bge-large-en-v1.5"])

    assert failure.value.what == "BAAI/bge-large-en-v1.5 at d4aa6901d3a4"
    assert "hf download BAAI/bge-large-en-v1.5" in str(failure.value)


def test_the_models_inside_the_package_and_bm25_need_nothing():
    models().require(CATALOG.encoders["all-MiniLM-L6-v2"])
    models().require(CATALOG.rerankers["maxsim-minilm"])
    models().require(BM25_ROWS["bm25"])
    models().require(None)


def test_both_checkpoints_of_a_model_are_needed(empty_cache: Path):
    row = CATALOG.encoders["medcpt"]
    (empty_cache / f"models--{row.model.replace('/', '--')}" / "snapshots" / str(row.revision)).mkdir(parents=True)

    with pytest.raises(NotAtHand) as failure:
        models().require(row)

    assert failure.value.what.startswith("ncbi/MedCPT-Article-Encoder at ")


def service(tokenizer: str, **changes: object) -> ApiEncoderRow:
    return CATALOG.api_encoders["text-embedding-3-large"].model_copy(update={"tokenizer": tokenizer, **changes})


def test_a_service_needs_its_key_and_its_tokenizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    row = service(str(tmp_path))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(NotAtHand) as no_key:
        models().require(row)
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    with pytest.raises(NotAtHand) as no_tokenizer:
        models().require(row)
    Tokenizer(BPE({"a": 0}, [])).save(str(tmp_path / "tokenizer.json"))
    models().require(row)

    assert no_key.value.what == "OPENAI_API_KEY"
    assert no_tokenizer.value.what == f"{tmp_path}/tokenizer.json"


def test_a_tokenizer_of_the_hub_needs_a_commit_and_is_looked_for_in_the_cache(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    with pytest.raises(NotAtHand, match="so it could change under the benchmark"):
        models().require(service("o/t", revision=None))
    with pytest.raises(NotAtHand) as failure:
        models().require(service("o/t", revision=COMMIT))
    snapshot = empty_cache / "models--o--t" / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    Tokenizer(BPE({"a": 0}, [])).save(str(snapshot / "tokenizer.json"))
    models().require(service("o/t", revision=COMMIT))

    assert failure.value.what == f"the tokenizer o/t at {COMMIT[:12]}"


@pytest.mark.parametrize(("device", "needs"), [("cuda", "a GPU with 0.5 GB"), ("cpu", "a GPU or a node with 0.5 GB")])
def test_a_model_needs_a_device_that_holds_it(device: str, needs: str):
    row = CATALOG.encoders["all-MiniLM-L6-v2"]
    assert row.memory_gb == 0.5
    models(0.5, device).require(row)
    with pytest.raises(NotAtHand) as failure:
        models(0.4, device).require(row)

    assert failure.value.what == needs


def language_model(folder: Path, **values: object) -> LanguageModelRow:
    (folder / "config.json").write_text("{}")
    return LanguageModelRow.model_validate({"name": "m", "model": str(folder), **values})


def test_a_language_model_that_is_to_be_served_needs_vllm_and_one_with_an_address_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    row = language_model(tmp_path)
    models().require(row.model_copy(update={"base_url": "http://127.0.0.1:1/v1"}))
    with pytest.raises(NotAtHand, match=r"r2med-ray\[llm\]") as failure:
        models().require(row)
    (tmp_path / "vllm.py").touch()
    importlib.invalidate_caches()
    models().require(row)

    assert failure.value.what == "vLLM"


def test_each_worker_holds_its_share_of_a_language_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "vllm.py").touch()
    row = language_model(tmp_path, memory_gb=180, engine={"tensor_parallel_size": 4})

    # each of 4 workers holds 180 / 4 = 45 GB
    models(45, "cuda").require(row)
    with pytest.raises(NotAtHand, match="45 GB on each of 4") as failure:
        models(44, "cuda").require(row)

    assert failure.value.what == "a GPU with 45 GB"


def test_a_reranker_needs_its_language_model(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    row = LlmRerankerRow(name="r", strategy="listwise", language_model="gpt4")
    with pytest.raises(NotAtHand) as failure:
        models().require(row)

    assert failure.value.what == "OPENAI_API_KEY"


@pytest.mark.parametrize(
    ("section", "name", "others"),
    [
        ("rerankers", "maxsim-minilm", ["all-MiniLM-L6-v2"]),
        ("llm_rerankers", "listwise-qwen-7b", ["qwen-7b"]),
        ("rerankers", "bge-reranker-v2-m3", []),
        ("encoders", "medcpt", []),
    ],
)
def test_a_row_knows_the_rows_that_it_works_with(section: str, name: str, others: list[str]):
    row = CATALOG.section(section)[name]

    assert [each.name for each in row.rows_of(CATALOG)] == [name, *others]


def test_a_row_says_which_keys_it_needs_and_whether_it_has_to_be_started():
    rows = [
        CATALOG.api_encoders["voyage-3"],
        CATALOG.language_models["gpt4"],
        CATALOG.language_models["qwen-7b"],
        CATALOG.encoders["medcpt"],
    ]

    assert [(row.key_variables, row.is_served) for row in rows] == [
        (("VOYAGE_API_KEY",), False),
        (("OPENAI_API_KEY",), False),
        ((), True),
        ((), False),
    ]


def test_one_name_under_two_compats_is_checked_twice():
    row = CATALOG.encoders["all-MiniLM-L6-v2"].model_copy(update={"memory_gb": 20.0, "r2med": {"memory_gb": 36}})
    asked = models(memory_gb=24, device="cuda")

    asked.require(row.under("none"))
    with pytest.raises(NotAtHand, match="takes about 36 GB"):
        asked.require(row.under("r2med"))


def test_the_smallest_gpu_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpu_memory_gb() is None

    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 81559\necho 24576\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin")

    # the smaller GPU has 24,576 MiB
    assert gpu_memory_gb() == 24.0


class Hub(BaseHTTPRequestHandler):
    """A server that answers as the Hub does. It gives `open/model`; for `gated/model` a licence must be accepted."""

    def do_GET(self) -> None:
        found = (
            [{"type": "file", "path": "config.json", "size": 2, "oid": "0" * 40}] if "/tree/" in self.path else None
        )
        body = json.dumps(found).encode()
        self.send_response(200 if found else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_HEAD(self) -> None:
        gated = self.path.startswith("/gated/")
        self.send_response(403 if gated else 200)
        for name, value in (("ETag", '"0"'), ("X-Repo-Commit", COMMIT), ("Content-Length", "2")):
            self.send_header(name, value)
        if gated:
            self.send_header("X-Error-Code", "GatedRepo")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


def ask(endpoint: str, home: Path) -> str:
    """Return what a process prints about two models that are not cached, and about being told to be offline."""
    program = f"""
from huggingface_hub import constants
from r2med_ray.errors import NotAtHand
from r2med_ray.models.catalog.sources import hub_answers, require_at_hand
answers = hub_answers()
print(answers, constants.HF_HUB_OFFLINE)
for model in ("open/model", "gated/model"):
    try:
        require_at_hand(model, "{COMMIT}", ask_hub=answers)
    except NotAtHand as error:
        print("needs", error.what)
    else:
        print(model, "is given")
"""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    environment |= {"HF_ENDPOINT": endpoint, "HF_HOME": str(home)}
    return subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_the_hub_is_asked_whether_it_would_give_a_model_and_nothing_is_downloaded(tmp_path: Path):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    said = ask(f"http://127.0.0.1:{server.server_port}", tmp_path)
    server.shutdown()
    server.server_close()

    assert said.splitlines() == ["True False", "open/model is given", f"needs gated/model at {COMMIT[:12]}"]
    assert not list(tmp_path.rglob("config.json"))


def test_without_a_hub_the_process_looks_no_further_than_the_cache(tmp_path: Path):
    said = ask("http://127.0.0.1:9", tmp_path)

    assert said.splitlines()[:2] == ["False True", f"needs open/model at {COMMIT[:12]}"]
