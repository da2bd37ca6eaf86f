"""A kind of first stage may come from outside the package: a models file names it, and its rows are retrievers."""

from dataclasses import replace
from pathlib import Path

import pytest

from r2med_ray.errors import ConfigError
from r2med_ray.first_stage import FirstStage
from r2med_ray.first_stages import kinds
from r2med_ray.first_stages.common import WantedRetriever
from r2med_ray.first_stages.kinds import FirstStageKind, register, resolve_first_stage
from r2med_ray.first_stages.own_kinds import load_kinds
from r2med_ray.indexing.bm25 import BM25_ROWS
from r2med_ray.models.catalog import load
from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.settings.compat import Rules
from r2med_ray.settings.retriever import RetrieverConfig
from tests.word_overlap import WORD_OVERLAP, OverlapFirstStage, OverlapRow


@pytest.fixture(autouse=True)
def kinds_of_this_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget the kinds that a test registers after the test."""
    monkeypatch.setattr(kinds, "KINDS", dict(kinds.KINDS))
    monkeypatch.setattr(load, "SECTIONS", dict(load.SECTIONS))


def models_file(folder: Path, *lines: str) -> Path:
    path = folder / "models.yaml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def first_stage(models: Path, **retriever: object) -> FirstStage:
    load_kinds(models)
    wanted = WantedRetriever(retriever=RetrieverConfig.model_validate(retriever), rules=Rules())
    return resolve_first_stage(wanted, load_catalog(models))


NAMED = "kinds: [tests.word_overlap.WORD_OVERLAP]"
ROWS = "word_overlap: [{name: words}, {name: any-case, ignore_case: true}]"


def test_a_kind_that_a_file_names_finds_its_rows_in_the_file(tmp_path: Path) -> None:
    found = first_stage(models_file(tmp_path, NAMED, ROWS), model="any-case")

    assert isinstance(found, OverlapFirstStage)
    assert (found.label, found.row.ignore_case) == ("any-case", True)


def test_a_file_that_is_read_twice_registers_its_kinds_once(tmp_path: Path) -> None:
    models = models_file(tmp_path, NAMED, ROWS)

    assert first_stage(models, model="words") == first_stage(models, model="words")


def test_a_file_without_kinds_registers_none(tmp_path: Path) -> None:
    before = list(kinds.KINDS)
    load_kinds(models_file(tmp_path, "encoders: []"))

    assert list(kinds.KINDS) == before


def test_settings_that_a_kind_does_not_name_are_refused_for_its_rows(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"leave out `k1`\. 'words' is word overlap"):
        first_stage(models_file(tmp_path, NAMED, ROWS), model="words", k1=1)


def test_without_its_kind_a_section_is_unknown(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown key 'word_overlap'"):
        first_stage(models_file(tmp_path, ROWS), model="words")


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ("kinds: tests.word_overlap.WORD_OVERLAP", "kinds must be a list of names such as my_module.MY_KIND, got"),
        (
            "kinds: [WORD_OVERLAP]",
            "kinds: 'WORD_OVERLAP': expected a module and a name in it, such as",
        ),
        ("kinds: [7]", "kinds: 7: expected a module and a name in it"),
        (
            "kinds: [tests.no_overlap.X]",
            "there is no Python module 'tests.no_overlap'; install it, or put its folder",
        ),
        (
            "kinds: [tests.word_overlap.WORD_OVERLAPS]",
            "has no FirstStageKind 'WORD_OVERLAPS'. Did you mean 'WORD_OVERLAP'? It has WORD_OVERLAP",
        ),
        ("kinds: [tests.word_overlap.OverlapRow]", "module 'tests.word_overlap' has no FirstStageKind 'OverlapRow'"),
        ("kinds: [tests.fakes.X]", "module 'tests.fakes' has no FirstStageKind 'X'. It has none"),
        ("kinds: [", "models.yaml: while parsing"),
    ],
)
def test_a_name_that_leads_to_no_kind_is_refused_with_its_file(tmp_path: Path, named: str, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_kinds(models_file(tmp_path, named))

    assert str(raised.value).startswith(f"{tmp_path / 'models.yaml'}: ")
    assert message in str(raised.value)


OWN = FirstStageKind(noun="my kind", rows={"mine": "mine"}, resolve=OverlapFirstStage.resolve)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (replace(OWN, noun="BM25"), "a kind of first stage is called 'BM25' already; give yours another `noun`"),
        (replace(OWN, rows={"bm25": BM25_ROWS["bm25"]}), "my kind: the name 'bm25' belongs to BM25"),
        (replace(WORD_OVERLAP, section="encoders"), "section 'encoders' of models files is defined twice"),
        (replace(OWN, settings=("k2",)), "my kind: a retriever has no setting 'k2'. Did you mean 'k1'?"),
        (replace(OWN, section="mine"), "my kind: `section` and `row_class` go together"),
    ],
)
def test_a_kind_that_clashes_with_another_is_refused(kind: FirstStageKind, message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        register(kind)

    assert message in str(raised.value)
    assert kind not in kinds.KINDS.values()


def test_a_clash_names_the_file_and_the_kind(tmp_path: Path) -> None:
    register(replace(WORD_OVERLAP))

    with pytest.raises(ConfigError, match=r"models\.yaml: kinds: 'tests\.word_overlap\.WORD_OVERLAP': a kind of"):
        load_kinds(models_file(tmp_path, NAMED))


def test_a_kind_without_a_section_brings_its_rows() -> None:
    register(replace(OWN, rows={"mine": OverlapRow(name="mine")}))
    wanted = WantedRetriever(retriever=RetrieverConfig(model="mine"), rules=Rules())

    assert resolve_first_stage(wanted, load_catalog()).row == OverlapRow(name="mine")
