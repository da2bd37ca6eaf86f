import pickle
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from r2med_ray.errors import ConfigError, NotAtHand
from r2med_ray.models.catalog import load
from r2med_ray.models.catalog.load import OTHER_SECTIONS, SECTIONS, load_catalog, register_section
from r2med_ray.models.catalog.row import Row
from r2med_ray.models.catalog.table import models_table
from r2med_ray.models.networks.checkpoints import load_network


def write(folder: Path, text: str) -> Path:
    path = folder / "models.yaml"
    path.write_text(text)
    return path


def test_every_retriever_and_reranker_of_r2med_that_runs_here_has_its_row():
    catalog = load_catalog()

    published = [row.published for row in catalog.encoders.values() if row.published]
    assert " ".join(sorted(published)) == (
        "bge bmr-2b bmr-410m bmr-7b contriever e5 grit inst-l inst-xl medcpt nv sfr"
    )
    assert {row.published for row in catalog.rerankers.values()} >= {"bge-reranker", "monobert"}


def test_encoders_are_pinned_but_for_those_whose_commit_is_the_users():
    encoders = load_catalog().encoders.values()

    unpinned = [row.name for row in encoders if row.revision is None and not row.model.startswith("package:")]
    assert unpinned == ["rader-gte-qwen2-7b", "e2rank-0.6b", "e2rank-4b", "e2rank-8b"]
    assert all(row.document_revision for row in encoders if row.document_model)


def test_a_row_without_a_commit_says_what_to_give():
    with pytest.raises(NotAtHand, match=r"'Raderspace/.*' has no revision.* give `revision:`, the commit"):
        load_network(load_catalog().encoders["rader-gte-qwen2-7b"], "cpu", "float32")


def test_rows_follow_the_published_protocol():
    encoders = load_catalog().encoders

    assert (encoders["contriever"].pooling, encoders["contriever"].similarity) == ("mean", "dot")
    assert (encoders["bge-large-en-v1.5"].pooling, encoders["bge-large-en-v1.5"].max_length) == ("cls", 512)
    lengths = [encoders[name].max_length for name in ("bmretriever-410m", "bmretriever-2b", "bmretriever-7b")]
    assert lengths == [512, 1024, 2048]
    assert (encoders["gritlm-7b"].query_max_length, encoders["gritlm-7b"].max_length) == (512, 2048)
    assert (encoders["nv-embed-v2"].pooling, encoders["nv-embed-v2"].max_length) == ("encode", 4096)
    assert load_catalog().rerankers["monobert-large"].score_class == 1


def test_the_published_precision_holds_under_r2med_alone():
    encoders = load_catalog().encoders
    published = {row.published: row.under("r2med") for row in encoders.values() if row.published}

    in_float32 = ["contriever", "medcpt", "inst-l", "inst-xl", "bge", "e5", "sfr", "bmr-410m", "bmr-2b", "bmr-7b"]
    assert [published[key].dtype for key in in_float32] == ["float32"] * 10
    assert [key for key, row in published.items() if row.autocast] == ["bmr-410m", "bmr-2b", "bmr-7b"]
    assert (published["grit"].dtype, published["nv"].dtype) == ("bfloat16", "float16")
    assert {row.under("none").dtype for row in encoders.values()} == {"auto", "float16", "float32"}
    assert encoders["contriever"].under("none").dtype == "auto"


def test_a_generated_text_gets_the_query_prompt_where_r2meds_code_gives_it_one():
    encoders = load_catalog().encoders.values()

    with_prompt = {row.published for row in encoders if row.expansion_prompt == "query"}
    assert with_prompt == {"inst-l", "inst-xl", "grit", "nv"}


def test_r2med_reads_medcpts_queries_with_the_article_encoder():
    row = load_catalog().encoders["medcpt"]
    published = row.under("r2med")

    assert (row.model, row.document_model) == ("ncbi/MedCPT-Query-Encoder", "ncbi/MedCPT-Article-Encoder")
    assert (published.model, published.document_model) == ("ncbi/MedCPT-Article-Encoder", "")
    assert published.of_documents().revision == row.of_documents().revision == published.revision
    assert (row.query_max_length, published.query_max_length) == (64, 512)


def test_a_file_of_ones_own_adds_rows(tmp_path: Path):
    path = write(
        tmp_path,
        """
        instructions: {mine: {default: Find it}}
        encoders:
          - {name: local, model: ./weights/v1, pooling: mean, max_length: 128}
          - {name: told, model: o/m, pooling: last, max_length: 9, query_prompt: "{instruction}", instructions: mine}
          - {name: five, model: o/m, pooling: last, max_length: 9, query_prompt: "{instruction}", instructions: r2med}
          - {name: both, model: ./q, document_model: ./d, pooling: cls, max_length: 9, document_instructions: mine}
        rerankers:
          - {name: late, kind: maxsim, encoder: local}
        """,
    )

    catalog = load_catalog(path)

    assert catalog.encoders["local"].model == str(tmp_path / "weights" / "v1")
    assert catalog.encoders["told"].instructions == {"default": "Find it"}
    assert "Biology" in catalog.encoders["five"].instructions
    assert catalog.encoders["both"].document_model == str(tmp_path / "d")
    assert catalog.encoders["both"].document_instructions == {"default": "Find it"}
    assert catalog.rerankers["late"].encoder == "local"
    assert "all-MiniLM-L6-v2" in catalog.encoders


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("encoders: [{name: bge-small, model: o/m, pooling: cls, max_length: 9}]", "'bge-small' is defined twice"),
        ("instructions: {r2med: {default: Find}}", "'r2med' is defined twice"),
        ("encoders: [{name: m, model: o/m, poolin: cls, max_length: 9}]", "m: unknown key 'poolin'. .*'pooling'"),
        ("encoders: [{name: m, model: o/m, pooling: max, max_length: 9}]", "m: pooling: .*'mean'.*got 'max'"),
        ("encoders: [{name: m, model: o/m, pooling: cls, max_length: 0}]", "m: max_length: .*got 0"),
        ("encoders: [bge]", "bge: "),
        ("encodres: []", "unknown key 'encodres'. Did you mean 'encoders'"),
        ("encoders: {name: m}", "encoders must be a list"),
        ("- name: m", "expected the keys"),
        ("encoders: [", "while parsing"),
        (
            "encoders: [{name: m, model: o/m, pooling: cls, max_length: 9, instructions: r2mde}]",
            "unknown instructions 'r2mde'. Did you mean 'r2med'",
        ),
        (
            "rerankers: [{name: r, kind: maxsim, encoder: all-MiniLM-L6}]",
            "unknown encoder 'all-MiniLM-L6'. Did you mean 'all-MiniLM-L6-v2'",
        ),
    ],
)
def test_a_mistake_is_named_with_its_file(tmp_path: Path, text: str, message: str):
    path = write(tmp_path, text)

    with pytest.raises(ConfigError, match=f"(?s){path}.*{message}"):
        load_catalog(path)


def test_sections_that_other_parts_read_are_left_unread(tmp_path: Path):
    path = write(tmp_path, "methods: [{name: m}]\nmeasures: {whatever: 1}\nkinds: toys.py\nencoders: []\n")

    assert OTHER_SECTIONS == ("methods", "measures", "kinds")
    assert {*load_catalog(path).sections} == {*SECTIONS}


def test_an_unknown_section_is_told_from_those_of_other_parts(tmp_path: Path):
    path = write(tmp_path, "measure: []")

    with pytest.raises(ConfigError, match=r"unknown key 'measure'\. Did you mean 'measures'"):
        load_catalog(path)


class ToyRow(Row):
    """A row of a kind from outside the package. It works with an encoder of the catalogue."""

    colour: str
    encoder: str = ""

    @property
    def named_rows(self) -> Mapping[str, str]:
        return {"encoders": self.encoder} if self.encoder else {}


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "SECTIONS", dict(SECTIONS))
    register_section("toys", ToyRow, "toy")


@pytest.mark.usefixtures("toys")
def test_rows_of_a_registered_section_are_read_like_any_others(tmp_path: Path):
    catalog = load_catalog(write(tmp_path, "toys: [{name: ball, colour: red, encoder: all-MiniLM-L6-v2}]"))

    ball = catalog.section("toys")["ball"]
    assert (ball.name, ball.colour) == ("ball", "red")
    assert list(ball.rows_of(catalog)) == [ball, catalog.encoders["all-MiniLM-L6-v2"]]
    assert "| toy | ball |" in models_table(catalog)
    with pytest.raises(ConfigError, match=r"unknown toy 'bal'\. Did you mean 'ball'"):
        catalog.section("toys")["bal"]


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("toys: [{name: ball, color: red}]", "ball: colour is missing\n.*ball: unknown key 'color'"),
        ("toys: [{name: ball, colour: red, encoder: all-MiniLM}]", "unknown encoder 'all-MiniLM'"),
        ("toy: []", "unknown key 'toy'. Did you mean 'toys'"),
    ],
)
def test_a_mistake_in_a_registered_section_is_named(tmp_path: Path, text: str, message: str):
    with pytest.raises(ConfigError, match=f"(?s){message}"):
        load_catalog(write(tmp_path, text))


@pytest.mark.usefixtures("toys")
@pytest.mark.parametrize("name", ["toys", "encoders", "measures", "instructions"])
def test_a_section_is_registered_once(name: str):
    with pytest.raises(ConfigError, match=f"section '{name}' of models files is defined twice"):
        register_section(name, ToyRow, "toy")


def test_without_its_registration_a_section_is_unknown(tmp_path: Path):
    with pytest.raises(ConfigError, match="unknown key 'toys'"):
        load_catalog(write(tmp_path, "toys: []"))
    with pytest.raises(ConfigError, match="unknown section of models 'toys'"):
        load_catalog().section("toys")


def test_a_catalogue_reaches_other_processes_whole():
    sent = pickle.loads(pickle.dumps(load_catalog()))

    assert sent.encoders["medcpt"] == load_catalog().encoders["medcpt"]
    assert sent.reranker("bge-reranker-v2-m3").name == "bge-reranker-v2-m3"


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"missing\.yaml"):
        load_catalog(tmp_path / "missing.yaml")


def test_keys_are_computed_without_loading_a_model_library():
    script = (
        "import sys; from r2med_ray.models.catalog.load import load_catalog; "
        "import r2med_ray.models.networks.pair_scorers; "
        "load_catalog().encoders['all-MiniLM-L6-v2'].encoding_inputs('Biology', device='cpu'); "
        "print([name for name in ('torch', 'transformers', 'sentence_transformers', 'ray') if name in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


def test_a_key_in_a_row_is_never_printed(tmp_path: Path):
    path = write(tmp_path, "language_models: [{name: x, kind: openai, api_key: sk-secret-123}]")

    with pytest.raises(ConfigError, match="x: model is missing") as refused:
        load_catalog(path)
    assert "sk-secret-123" not in str(refused.value)
