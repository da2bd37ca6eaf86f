import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from types import ModuleType

import pytest

from r2med_ray.indexing import keys
from r2med_ray.storage.keys import ArtifactKey

VECTORS = ArtifactKey("vectors", {"shard": "a"})


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    keys.faiss_version.cache_clear()
    yield
    keys.faiss_version.cache_clear()


def only_installed(monkeypatch: pytest.MonkeyPatch, folder: Path, *, distribution: str | None, version: str) -> None:
    """Let Python see one folder only. Its module `faiss` says which distribution it came with, if one is given."""
    (folder / "faiss").mkdir()
    (folder / "faiss" / "__init__.py").write_text(f"__version__ = {version!r}\n")
    if distribution:
        about = folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        (about / "RECORD").write_text("faiss/__init__.py,,\n")
    monkeypatch.setattr(sys, "path", [str(folder)])
    monkeypatch.setitem(sys.modules, "faiss", ModuleType("faiss"))  # the end of the test then undoes an import
    monkeypatch.delitem(sys.modules, "faiss")


def test_with_faiss_cpu_the_key_holds_the_version_of_its_distribution() -> None:
    inputs = dict(keys.ann_key(VECTORS, "HNSW32", unit_length=True).inputs)

    assert inputs == {
        "vectors": VECTORS.digest,
        "factory": "HNSW32",
        "unit_length": True,
        "faiss": metadata.version("faiss-cpu"),
    }


def test_search_parameters_are_in_no_key_of_an_index() -> None:
    few, many = ("IVF8,Flat;nprobe=2", "IVF8,Flat;nprobe=8")
    trained = {keys.trained_key([VECTORS], factory, unit_length=True).digest for factory in (few, many)}

    assert len(trained) == 1
    assert len({keys.ann_key(VECTORS, each, True, trained=min(trained)).digest for each in (few, many)}) == 1


def test_what_was_trained_elsewhere_or_cut_otherwise_is_another_index() -> None:
    other = ArtifactKey("vectors", {"shard": "other"})
    trained = [
        keys.trained_key([VECTORS], "IVF8,Flat", unit_length=True),
        keys.trained_key([VECTORS, other], "IVF8,Flat", unit_length=True),
        keys.trained_key([VECTORS], "IVF8,Flat", unit_length=False),
        keys.trained_key([VECTORS], "IVF8,Flat", unit_length=True, embed_dim=4),
    ]
    filled = [keys.ann_key(VECTORS, "IVF8,Flat", unit_length=True, trained=each.digest) for each in trained]
    filled.append(keys.ann_key(VECTORS, "IVF8,Flat", unit_length=True))

    assert len({key.digest for key in trained}) == 4
    assert len({key.digest for key in filled}) == 5


def test_the_weights_of_bm25_have_a_key_of_all_that_changes_them() -> None:
    terms, others, row = ArtifactKey("terms", {"shard": "a"}), ArtifactKey("terms", {"shard": "b"}), {"k1": 0.9}
    made = {
        keys.bm25_key(terms, [terms, others], row, is_counted=True).digest,
        keys.bm25_key(others, [terms, others], row, is_counted=True).digest,
        keys.bm25_key(terms, [terms], row, is_counted=True).digest,
        keys.bm25_key(terms, [terms, others], {"k1": 1.2}, is_counted=True).digest,
        keys.bm25_key(terms, [terms, others], row, is_counted=False).digest,
    }

    assert len(made) == 5
    assert terms.digest in keys.bm25_key(terms, [others], row, is_counted=False).inputs.values()


@pytest.mark.parametrize("distribution", ["faiss-cpu", "faiss-gpu", "faiss-gpu-cu12", "faiss"])
def test_every_distribution_of_faiss_names_its_version_without_being_imported(
    distribution: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_installed(monkeypatch, tmp_path, distribution=distribution, version="9.8.7")
    (tmp_path / "faiss" / "__init__.py").write_text("raise AssertionError('imported')")

    assert keys.ann_key(VECTORS, "HNSW32", unit_length=False).inputs["faiss"] == "9.8.7"


def test_a_build_from_source_is_asked_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_installed(monkeypatch, tmp_path, distribution=None, version="9.8.6")

    assert keys.ann_key(VECTORS, "HNSW32", unit_length=False).inputs["faiss"] == "9.8.6"


def test_a_build_from_source_that_is_imported_already_is_not_imported_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = ModuleType("faiss")
    loaded.__dict__["__version__"] = "9.8.5"
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setitem(sys.modules, "faiss", loaded)

    assert keys.ann_key(VECTORS, "HNSW32", unit_length=False).inputs["faiss"] == "9.8.5"
