"""A flipped bit in anything that is stored ends the next work over it, is named, and nothing is stored."""

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from r2med_ray.cli.main import app
from r2med_ray.errors import ArtifactError, R2MedError
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.manifests import REMEDY
from r2med_ray.types import Run
from r2med_ray.workbench.bench import open_workbench
from tests.damage import flip, flip_an_id

DOCUMENTS = {f"document-{number:02}": f"fever and rash number {number}" for number in range(40)}
QUERIES = {"q1": "fever 7", "q2": "rash number 11"}
SYSTEMS: dict[str, dict[str, object]] = {
    "bm25": {"retriever": "bm25"},
    "approximate": {"retriever": {"model": "all-MiniLM-L6-v2", "index": "IVF4,Flat;nprobe=4"}},
}


def work(store: Path, *systems: str) -> dict[str, Run]:
    """Rank a corpus with some systems in this process, or with all of them."""
    with open_workbench(store) as bench:
        task = bench.task("mine", documents=DOCUMENTS, queries=QUERIES)
        return {name: bench.rank(task, SYSTEMS[name]).run for name in systems or SYSTEMS}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Run]]:
    """A store in which all work was done, and the runs."""
    store = tmp_path_factory.mktemp("finished") / "store"
    return store, work(store)


@pytest.fixture
def store(finished: tuple[Path, dict[str, Run]], tmp_path: Path) -> ArtifactStore:
    """A copy of that store."""
    shutil.copytree(finished[0], tmp_path / "store")
    return ArtifactStore(str(tmp_path / "store"))


@pytest.mark.parametrize(
    ("kind", "systems"),
    [
        ("corpus", ["bm25"]),
        ("terms", ["bm25"]),
        ("bm25", ["bm25"]),
        ("vectors", ["approximate"]),
        ("query-vectors", ["approximate"]),
        ("ann", ["approximate"]),
        ("ann-trained", ["approximate"]),
        ("run", ["bm25", "approximate"]),
    ],
)
def test_a_flipped_bit_ends_the_next_work_by_name_and_nothing_is_stored(
    store: ArtifactStore, kind: str, systems: list[str]
) -> None:
    artifact = next(store.all(kind))
    # If what was made from it is there, nobody reads it.
    made_from_it = {"run": [], "terms": ["run", "bm25"], "ann-trained": ["run", "ann"]}.get(kind, ["run"])
    for name in (name for made in made_from_it for name in store.names_of(made)):
        store.remove(name)
    before = store.names()
    file = flip_an_id(artifact) if kind == "corpus" else flip(artifact)

    with pytest.raises(R2MedError) as caught:  # the command line ends with exit code 2 for it
        work(Path(store.root), *systems)

    assert artifact.name in str(caught.value)
    assert file in str(caught.value)
    assert str(caught.value).endswith(REMEDY)
    assert store.names() == before


def test_what_was_made_from_a_damaged_corpus_is_named_and_goes_with_it_but_vectors_stay(
    store: ArtifactStore, finished: tuple[Path, dict[str, Run]]
) -> None:
    [corpus] = store.names_of("corpus")
    flip_an_id(next(store.all("corpus")))
    made = [*store.names_of("run"), *store.names_of("text_survey")]
    others = set(store.names()) - {corpus, *made}

    verified = CliRunner().invoke(app, ["artifacts", "verify", "--store", store.root])
    removed = CliRunner().invoke(app, ["artifacts", "gc", "--damaged", "--store", store.root])

    # The runs of two systems and of the exact search that the approximate one is compared with, and the survey.
    assert len(made) == 4
    assert verified.exit_code == 1
    assert all(f"{name}: made from {corpus}, which is damaged" in verified.stdout for name in made)
    assert verified.stdout.endswith("5 damaged\n")
    assert removed.exit_code == 0
    assert set(store.names()) == others
    assert work(Path(store.root)) == finished[1]
    assert set(store.names()) >= others | {corpus, *made}


@pytest.mark.parametrize(("source", "indexes"), [("vectors", ["ann", "ann-trained"]), ("terms", ["bm25"])])
def test_an_index_made_from_a_damaged_artefact_is_named_through_its_key(
    store: ArtifactStore, source: str, indexes: list[str]
) -> None:
    [made_from] = store.names_of(source)
    flip(next(store.all(source)))

    verified = CliRunner().invoke(app, ["artifacts", "verify", "--store", store.root])

    for index in indexes:
        [made] = store.names_of(index)
        assert f"{made}: made from {made_from}, which is damaged" in verified.stdout
    assert verified.stdout.endswith(f"{1 + len(indexes)} damaged\n")


def test_a_corpus_whose_manifest_is_damaged_is_refused_by_name(store: ArtifactStore) -> None:
    [corpus] = store.names_of("corpus")
    manifest = Path(store.root) / corpus / "manifest.json"
    manifest.write_bytes(manifest.read_bytes().replace(b'"num_rows":40', b'"num_rows":41'))

    with pytest.raises(ArtifactError, match=f"artefact {corpus}: its manifest is not what its digest says"):
        work(Path(store.root))
