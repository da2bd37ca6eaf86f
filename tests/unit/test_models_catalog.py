import subprocess
import sys
from pathlib import Path

import pytest

from r2med_ray.errors import ConfigError
from r2med_ray.models.catalog import load_catalog


def write(folder: Path, text: str) -> Path:
    path = folder / "models.yaml"
    path.write_text(text)
    return path


def test_the_shipped_rows_have_the_published_keys_and_are_pinned():
    catalog = load_catalog()

    published = {row.published for row in [*catalog.encoders.values(), *catalog.rerankers.values()]} - {None}
    assert published == {
        *("contriever", "bge", "e5", "sfr", "bmr-410m", "bmr-2b", "bmr-7b"),
        *("bge-reranker", "monobert"),
    }
    assert [row.name for row in catalog.encoders.values() if row.revision is None] == ["all-MiniLM-L6-v2"]
    assert [row.name for row in catalog.rerankers.values() if row.revision is None] == ["maxsim-minilm"]


def test_rows_follow_the_published_protocol():
    encoders = load_catalog().encoders

    assert (encoders["contriever"].pooling, encoders["contriever"].similarity) == ("mean", "dot")
    assert (encoders["bge-large-en-v1.5"].pooling, encoders["bge-large-en-v1.5"].max_length) == ("cls", 512)
    lengths = [encoders[name].max_length for name in ("bmretriever-410m", "bmretriever-2b", "bmretriever-7b")]
    assert lengths == [512, 1024, 2048]
    assert load_catalog().rerankers["monobert-large"].score_class == 1


def test_a_file_of_ones_own_adds_rows(tmp_path: Path):
    path = write(
        tmp_path,
        """
        instructions: {mine: {default: Find it}}
        encoders:
          - {name: local, model: ./weights/v1, pooling: mean, max_length: 128}
          - {name: told, model: o/m, pooling: last, max_length: 9, query_prompt: "{instruction}", instructions: mine}
          - {name: five, model: o/m, pooling: last, max_length: 9, query_prompt: "{instruction}", instructions: r2med}
        rerankers:
          - {name: late, kind: maxsim, encoder: local}
        """,
    )

    catalog = load_catalog(path)

    assert catalog.encoders["local"].model == str(tmp_path / "weights" / "v1")
    assert catalog.encoders["told"].instructions == {"default": "Find it"}
    assert "Biology" in catalog.encoders["five"].instructions
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


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"missing\.yaml"):
        load_catalog(tmp_path / "missing.yaml")


def test_keys_are_computed_without_loading_a_model_library():
    script = (
        "import sys; from r2med_ray.models.catalog import load_catalog; import r2med_ray.models.pair_scorers; "
        "load_catalog().encoders['all-MiniLM-L6-v2'].encoding_inputs('Biology', device='cpu'); "
        "print([name for name in ('torch', 'transformers', 'sentence_transformers', 'ray') if name in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"
