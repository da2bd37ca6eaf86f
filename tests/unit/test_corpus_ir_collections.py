"""Collections of the package `ir_datasets`, tested with one that is made and registered here; nothing is fetched."""

import gzip
import subprocess
import sys

import pytest

from r2med_ray.corpus.catalog import resolve_tasks
from r2med_ray.corpus.loading import load_task, read_shard
from r2med_ray.errors import ConfigError, DataError
from r2med_ray.settings.config import TaskConfig
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import Document, Query

ir_datasets = pytest.importorskip("ir_datasets", reason="the extra `ir-datasets` is not installed")


@pytest.fixture
def register(tmp_path, request):
    """Return a function that registers a collection of TSV and TREC files under the name of the test."""

    def register(docs="d1\tcat sits\nd2\tdog barks\nd3\tbird\n", queries="q1\tcat\nq2\tdog\n", qrels="q1 0 d1 1\n"):
        files = {"docs_tsv": docs, "queries_tsv": queries, "qrels_trec": qrels}
        paths = {}
        for kind, content in files.items():
            if content is not None:
                (tmp_path / kind).write_text(content, encoding="utf-8")
                paths[kind] = str(tmp_path / kind)
        name = f"ours/{request.node.name}/{len(list(ir_datasets.registry))}"
        ir_datasets.registry.register(name, ir_datasets.create_dataset(**paths))
        return TaskConfig(path=name, layout="ir_datasets", name="Ours")

    return register


def load(config, tmp_path):
    store = ArtifactStore(str(tmp_path / "store"))
    [source] = resolve_tasks([config])
    return load_task(source, store, documents_per_shard=2), store


def test_a_dataset_id_is_a_task(tmp_path, register):
    task, store = load(register(), tmp_path)

    assert task.queries == (Query(query_id="q1", text="cat"), Query(query_id="q2", text="dog"))
    assert task.qrels == {"q1": {"d1": 1}}
    assert [read_shard(store, shard).documents for shard in task.corpus.shards] == [
        [Document(doc_id="d1", text="cat sits"), Document(doc_id="d2", text="dog barks")],
        [Document(doc_id="d3", text="bird")],
    ]
    assert task.warnings == ("1 queries have no qrels and are not evaluated, e.g. 'q2'",)


def test_its_content_names_it_wherever_it_lies(tmp_path, register):
    first, _ = load(register(), tmp_path)
    again, _ = load(register(), tmp_path)
    other, _ = load(register(docs="d1\tcat sits\nd2\tdog barks\nd3\tbirds\n"), tmp_path)

    assert first.revision == again.revision
    assert first.corpus == again.corpus
    assert other.revision != first.revision


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"docs": "d1\tcat\nd 2\tdog\n"}, r"docs:2: 'd 2' is no id"),
        ({"queries": "q1\tcat\nq1\tdog\n"}, r"queries:2: query id 'q1' is in line 1 too"),
        ({"qrels": "q1 0 d1 1\nq1 0 d1 0\n"}, r"qrels:2: query 'q1', document 'd1' has grade 0, but 1 in line 1"),
    ],
)
def test_a_bad_record_is_named_with_its_collection_and_number(tmp_path, register, content, message):
    with pytest.raises(DataError, match=rf"ir_datasets:/ours/.*/{message}"):
        load(register(**content), tmp_path)


def test_a_file_that_went_away_is_our_error(tmp_path, register):
    config = register()
    (tmp_path / "docs_tsv").unlink()

    with pytest.raises(DataError, match=r"docs: ir_datasets can't give these records: .*docs_tsv.*IR_DATASETS_HOME"):
        load(config, tmp_path)


def test_a_damaged_file_of_the_package_is_our_error(tmp_path, register):
    config = register()
    (tmp_path / "docs.gz").write_bytes(gzip.compress(b"d1\tcat sits\n")[:-9])
    whole = ir_datasets.load(config.path)
    docs = ir_datasets.formats.TsvDocs(
        ir_datasets.util.GzipExtract(ir_datasets.util.LocalDownload(str(tmp_path / "docs.gz")))
    )
    ir_datasets.registry.register(
        f"{config.path}/cut", ir_datasets.Dataset(docs, whole.queries_handler(), whole.qrels_handler())
    )

    with pytest.raises(DataError, match=r"docs: ir_datasets can't give these records: Compressed file ended"):
        load(config.model_copy(update={"path": f"{config.path}/cut"}), tmp_path)


def test_an_unknown_id_gets_the_nearest(tmp_path):
    with pytest.raises(ConfigError, match=r"ir_datasets has no 'vaswanni'\. Did you mean 'vaswani'\?"):
        resolve_tasks([TaskConfig(path="vaswanni", layout="ir_datasets", name="V")])


def test_a_collection_without_judgements_is_refused_before_anything_is_read(tmp_path, register):
    with pytest.raises(ConfigError, match=r"has no qrels; a task needs docs, queries and qrels"):
        resolve_tasks([register(qrels=None)])


def test_without_the_package_the_extra_is_named():
    program = """
import sys
sys.modules["ir_datasets"] = None  # an import of it fails
from r2med_ray.settings.config import TaskConfig
from r2med_ray.corpus.catalog import resolve_tasks
resolve_tasks([TaskConfig(path="vaswani", layout="ir_datasets", name="V")])
"""
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert "pip install 'r2med-ray[ir-datasets]'" in child.stderr
