"""Every report names the rules of the published protocol that each system follows."""

import json
from dataclasses import replace
from pathlib import Path

from r2med_ray.reporting.notes import reading_notes
from r2med_ray.reporting.page import render_page
from r2med_ray.reporting.published_rules import published_rules
from r2med_ray.reporting.record import BenchmarkRecord
from r2med_ray.reporting.summary import summarise
from r2med_ray.reporting.tables import leaderboard_markdown, leaderboard_text
from r2med_ray.reporting.write import load_results, write_report
from r2med_ray.settings.config_files import parse_config
from r2med_ray.systems import resolve
from tests.unit.reporting_records import FIRST, SECOND, record
from tests.unit.tasks import run_in

PUBLISHED = replace(FIRST, compat="r2med", differences=("conflicting-texts", "rerank-rest"))
NOTE = (
    "first: these rules of the published protocol replace the default ones: "
    "conflicting-texts (two texts under one document id), rerank-rest (documents below the reranked head)."
)
MORE = "r2med explain compat says what each rule is by default and in the published protocol."


def of(*systems) -> BenchmarkRecord:
    return record(systems=systems)


def rule_notes(read: BenchmarkRecord) -> list[str]:
    notes = reading_notes(read)
    return [note for note in notes if "published protocol" in note and "oddities" not in note]


def test_a_note_names_every_rule_in_force_for_a_system():
    assert rule_notes(of(PUBLISHED, SECOND)) == [NOTE, MORE]


def test_systems_with_the_same_rules_share_a_note_and_others_have_their_own():
    other = replace(SECOND, compat="r2med", differences=("conflicting-texts",))
    third = replace(PUBLISHED, name="third")

    assert rule_notes(of(PUBLISHED, other, third)) == [
        NOTE.replace("first:", "first, third:"),
        "second: these rules of the published protocol replace the default ones: "
        "conflicting-texts (two texts under one document id).",
        MORE,
    ]


def test_nothing_is_said_of_rules_where_all_systems_follow_the_default_ones():
    assert rule_notes(of(FIRST, SECOND)) == []
    assert published_rules(FIRST) == {}


def test_terminal_markdown_and_page_name_the_rules():
    summary = summarise(of(PUBLISHED, SECOND))

    assert NOTE in " ".join(leaderboard_text(summary).split())
    assert NOTE in leaderboard_markdown(summary)
    assert NOTE in render_page(summary)


def test_the_page_says_beside_the_settings_what_a_system_does_by_each_rule():
    settings = replace(PUBLISHED, settings={"bm25": {"k1": 0.9}})
    page = render_page(summarise(of(settings, SECOND)))

    assert (
        "first:\n"
        "  bm25:\n"
        "    k1: 0.9\n"
        "  rules of the published protocol:\n"
        "    conflicting-texts: the last text counts\n"
        "    rerank-rest: are left out\n"
    ) in page


def test_a_rule_that_is_no_longer_in_the_table_is_named_all_the_same():
    old = replace(FIRST, compat="r2med", differences=("an-older-rule",))

    assert published_rules(old) == {"an-older-rule": ""}
    assert "replace the default ones: an-older-rule." in rule_notes(of(old, SECOND))[0]


def test_the_rules_stand_in_the_manifest_and_read_back(tmp_path: Path):
    written = of(PUBLISHED, SECOND)
    output = write_report(summarise(written), tmp_path / "results")
    manifest = json.loads((output / "manifest.json").read_text())

    assert [system["differences"] for system in manifest["systems"]] == [["conflicting-texts", "rerank-rest"], []]
    assert load_results(output) == written


def test_a_report_from_before_rules_were_recorded_is_read_as_one_that_names_none(tmp_path: Path):
    output = write_report(summarise(of(PUBLISHED, SECOND)), tmp_path / "results")
    manifest = json.loads((output / "manifest.json").read_text())
    for system in manifest["systems"]:
        del system["differences"]
    (output / "manifest.json").write_text(json.dumps(manifest))

    loaded = load_results(output)

    assert loaded == of(replace(PUBLISHED, differences=()), SECOND)
    assert "first: run by the published protocol of R2MED (compat: r2med), oddities included." in reading_notes(
        loaded
    )
    assert rule_notes(loaded) == []


def test_a_benchmark_records_the_rules_of_each_of_its_systems(tmp_path: Path):
    systems = [
        {"name": "published", "retriever": "bm25-r2med", "compat": "r2med"},
        {"name": "b", "retriever": "bm25"},
    ]
    made = run_in(tmp_path, resolve(parse_config({"name": "x", "tasks": ["Demo-Posts"], "systems": systems})))

    assert {system.name: system.differences for system in made.systems} == {
        "published": ("bm25-duplicate-rows", "bm25-cut", "bm25-zero-scores"),
        "b": (),
    }
