"""Nothing that the product keeps is a pickle, because reading a pickle may run code."""

import ast
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import r2med_ray
from r2med_ray.corpus.catalog import resolve_tasks
from r2med_ray.corpus.loading import load_task
from r2med_ray.first_stage import Computing
from r2med_ray.first_stages.lexical import LexicalFirstStage
from r2med_ray.first_stages.vectors import DenseFirstStage
from r2med_ray.indexing.bm25 import BM25_ROWS
from r2med_ray.models.catalog.language_models import LanguageModelRow
from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.serving.engines import engine_of
from r2med_ray.settings.compat import Rules
from r2med_ray.settings.pools import Pool
from r2med_ray.settings.resources import LanguageModelResources
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.workbench.in_process import InProcess

ROOT = Path(r2med_ray.__file__).parent
GUARD = "models/networks/loading.py"
"""The one module that knows `torch.load` and pickle's error, in order to guard them."""

WRITERS = {"pickle", "cPickle", "cloudpickle", "dill", "joblib", "shelve", "marshal"}


def is_known_format(content: bytes) -> bool:
    """Return whether a file is JSON or Parquet, as its own reader says."""
    if content.startswith(b"PAR1"):
        return pq.ParquetFile(pa.BufferReader(content)).metadata is not None
    json.loads(content)
    return True


def test_every_file_of_a_store_is_json_or_parquet(store: ArtifactStore) -> None:
    [source] = resolve_tasks(["Demo-Cases"])
    task = load_task(source, store, documents_per_shard=27)
    work = InProcess(store, Computing())
    minilm = load_catalog().encoders["all-MiniLM-L6-v2"].model_copy(update={"dtype": "float32"})
    dense = DenseFirstStage(row=minilm, rules=Rules())
    work.prepare_shards([(task, LexicalFirstStage(row=BM25_ROWS["bm25"], rules=Rules())), (task, dense)])
    work.prepare_queries([(task, dense, task.queries)])

    files = [path for path in Path(store.root).rglob("*") if path.is_file()]
    assert len(files) > 20  # three shards of documents, terms and vectors, each with its manifest, and more
    assert {path.suffix for path in files} == {".json", ".parquet"}
    assert all(is_known_format(path.read_bytes()) for path in files)


def test_no_module_writes_or_reads_pickles() -> None:
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            modules += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            if any(module.partition(".")[0] in WRITERS for module in modules):
                found.append(f"{name}:{node.lineno} imports a pickler")
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Attribute) and ast.unparse(called) in ("torch.save", "torch.load"):
                found.append(f"{name}:{called.lineno} {ast.unparse(called)}")
            if isinstance(node, ast.keyword) and node.arg == "allow_pickle" and ast.unparse(node.value) == "True":
                found.append(f"{name}:{node.value.lineno} allow_pickle")

    assert [place for place in found if not place.startswith(GUARD)] == []
    assert len(found) == 1  # the guard is looked at too, so this test does see


@pytest.mark.parametrize(("allowed", "load_format"), [(False, "safetensors"), (True, None)])
def test_an_engine_reads_safetensors_alone_unless_its_row_says_otherwise(
    allowed: bool, load_format: str | None
) -> None:
    row = LanguageModelRow(name="m", model="org/m", allow_pickle=allowed)
    engine = engine_of(row, Pool(actors=1, cpus=1), LanguageModelResources())

    assert engine.arguments.get("load_format") == load_format


def test_what_a_row_says_of_pickles_changes_no_key() -> None:
    row = load_catalog().encoders["all-MiniLM-L6-v2"]
    allowing = row.model_copy(update={"allow_pickle": True})

    assert allowing.encoding_inputs("t", device="cpu") == row.encoding_inputs("t", device="cpu")
