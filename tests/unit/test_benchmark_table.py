"""Benchmarks end with one table of all bars, and the docs show no ratio that isn't in their history."""

import json
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from tests.benchmarks.bars import BARS, SCRIPTS, Bar
from tests.benchmarks.findings import FILE, Finding, Findings, Measured
from tests.benchmarks.rounds import times_as_fast
from tests.benchmarks.table import HISTORY, docs_table, read, record, run_script, write_docs
from tests.unit.test_readme import PAGES, between

REPOSITORY = Path(__file__).parents[2]
NAMES = {field.name for field in fields(Finding)}
FASTER = re.compile(r"\d\s*(×|x\b|times|%|per cent)\s+(as (fast|slow|much|long)|faster|slower|less|more)")


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that findings are added to."""
    monkeypatch.setenv(FILE, str(tmp_path / "findings.jsonl"))
    return tmp_path / "findings.jsonl"


def padding(*, small: bool = False) -> Findings:
    return Findings("bench_e0_padding.py", small=small)


def test_every_script_has_bars_and_every_bar_is_measured_by_a_script() -> None:
    folder = HISTORY.parent
    scripts = {path.stem for path in folder.glob("*.py") if "Findings(__file__" in path.read_text(encoding="utf-8")}

    assert scripts == SCRIPTS.keys()
    assert sum(map(len, SCRIPTS.values())) == len(BARS)
    assert all((bar.at_least is None) != (bar.at_most is None) for bar in BARS.values())


def test_the_table_of_the_docs_is_that_of_the_history() -> None:
    expected = docs_table(read(HISTORY))

    assert between("benchmarks") == expected, "write it with: python -m tests.benchmarks.table --docs"


def test_the_history_has_ratios_of_known_bars_and_names_no_place() -> None:
    for line in HISTORY.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        assert row.keys() == NAMES
        assert row["bar"] in BARS
        assert len(row["measured"]) == 3
        assert not re.search(r"/(home|tmp|work|root|Users)|hostname", line)


def test_no_page_says_how_fast_something_is_except_by_a_ratio_of_the_history() -> None:
    assert FASTER.search("It is 2.5 times as fast as FAISS.")
    for page, text in PAGES.items():
        said = FASTER.search(text.replace("bfloat16 has to be 1.1 times as fast to be chosen", ""))
        assert said is None, f"{page.name}: {said}"


@pytest.mark.parametrize(
    ("bar", "ratio", "held"),
    [
        (Bar("x", "", "", at_least=2.0), 2.0, True),
        (Bar("x", "", "", at_least=2.0), 1.99, False),
        (Bar("x", "", "", at_most=1.1), 1.1, True),
        (Bar("x", "", "", at_most=1.1), 1.11, False),
    ],
)
def test_a_bar_holds_on_its_side(bar: Bar, ratio: float, held: bool) -> None:
    assert bar.holds(ratio) is held


def test_a_ratio_is_that_of_the_best_rounds_and_has_the_spread_of_single_rounds() -> None:
    # 10 items a round of ours, 5 of theirs. Minima: (10 / 2) / (5 / 4) = 4. Rounds: (10 / 2) / (5 / 4) = 4,
    # (10 / 4) / (5 / 8) = 4, (10 / 4) / (5 / 4) = 2.
    seconds = {"ours": [2.0, 4.0, 4.0], "theirs": [4.0, 8.0, 4.0], "once": [4.0]}
    items = {"ours": 10, "theirs": 5, "once": 5}

    assert times_as_fast(seconds, items, "ours", "theirs") == Measured(4.0, 2.0, 4.0)
    # The one round of `once` beside each of ours: 4, 2 and 2.
    assert times_as_fast(seconds, items, "ours", "once") == Measured(4.0, 2.0, 4.0)


def test_a_missed_bar_is_kept_and_ends_the_script_with_an_error(kept: Path) -> None:
    findings = padding()
    findings.gate("all is as it should be", holds=True)
    findings.add("E0 cpu", Measured(0.94, 0.93, 0.96))
    findings.add("E0 cuda", Measured.once(0.95))

    with pytest.raises(SystemExit, match="missed: E0 cpu"):
        findings.close()
    assert [(each.bar, each.held, each.gate, each.measured) for each in read(kept)] == [
        ("E0 cpu", False, "yes", Measured(0.94, 0.93, 0.96)),
        ("E0 cuda", True, "yes", Measured(0.95, 0.95, 0.95)),
    ]


def test_a_gate_that_fails_says_so_of_every_bar_that_stood_behind_it(kept: Path) -> None:
    with pytest.raises(SystemExit, match="the gate failed: texts are whole"):
        padding().gate("texts are whole", holds=False)

    assert [(each.bar, each.held, each.gate) for each in read(kept)] == [
        ("E0 cpu", False, "no: texts are whole"),
        ("E0 cuda", False, "no: texts are whole"),
    ]


def test_a_bar_that_has_no_meaning_here_is_no_miss(kept: Path) -> None:
    findings = padding()
    findings.leave_out("E0 cuda", "no GPU is here")
    findings.add("E0 cpu", Measured.once(1.0))
    findings.close()

    assert [(each.bar, each.held, each.gate) for each in read(kept)] == [
        ("E0 cuda", None, "not run: no GPU is here"),
        ("E0 cpu", True, "no gate"),
    ]


def test_a_script_can_forget_no_bar() -> None:
    findings = padding()
    findings.add("E0 cpu", Measured.once(1.0))

    with pytest.raises(ValueError, match="nothing was said of the bars E0 cuda"):
        findings.close()


def test_a_small_run_holds_nothing_to_a_bar_and_keeps_nothing(kept: Path) -> None:
    findings = padding(small=True)
    findings.add("E0 cpu", Measured.once(0.1))
    findings.add("E0 cuda", Measured.once(0.1))
    findings.close()

    assert not kept.exists()
    assert run_script("bench_e0_padding", sys.executable, small=True) == []


def test_a_script_that_breaks_is_in_the_table_with_its_last_line() -> None:
    [finding] = run_script("bench_l3_served", "false", small=False)

    assert (finding.bar, finding.measured, finding.held) == ("L3", None, False)
    assert finding.gate == "not run: exit code 1: "


def test_what_a_script_measured_is_kept_at_once_and_stands_in_the_docs(kept: Path, tmp_path: Path) -> None:
    findings = padding()
    findings.add("E0 cpu", Measured.once(0.97))
    findings.leave_out("E0 cuda", "no GPU is here")
    findings.close()
    history, page = tmp_path / "history.jsonl", tmp_path / "page.md"
    page.write_text("before\n<!-- benchmarks:begin -->\n\n<!-- benchmarks:end -->\nafter\n")

    record(read(kept), history, page)
    record(read(kept), history, page)

    assert [each.bar for each in read(history)] == ["E0 cpu"] * 2
    [row] = [line for line in page.read_text().splitlines() if line.startswith("| E0 cpu ")]
    assert " | 0.97 | 0.97 … 0.97 | " in row


def test_the_command_prints_the_table_of_the_scripts_that_are_named() -> None:
    command = [sys.executable, "-m", "tests.benchmarks.table", "--no-record", "bench_e0_padding", "bench_l3_served"]
    before = HISTORY.read_bytes()
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=REPOSITORY)

    [cpu, _, served] = [
        line.split("│")[1:-1] for line in done.stdout.splitlines() if line.startswith(("│ E0", "│ L3"))
    ]
    assert [cell.strip() for cell in cpu[5:]] == ["≥ 0.95", "yes", "no gate"]
    assert served[6].strip() == "–"
    assert HISTORY.read_bytes() == before


def test_the_docs_show_what_was_measured_last_and_name_what_was_not(tmp_path: Path, kept: Path) -> None:
    for ratio in (0.96, 0.94):
        findings = padding()
        findings.add("E0 cpu", Measured(ratio, 0.9, 0.99))
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- benchmarks:begin -->\nold\n<!-- benchmarks:end -->\nafter\n")
    history = read(kept)
    write_docs(history, page)

    where = f"{history[1].processor}, {history[1].cores} cores, {history[1].date}"
    lines = page.read_text().splitlines()
    assert lines[:2] == ["before", "<!-- benchmarks:begin -->"]
    assert lines[-2:] == ["<!-- benchmarks:end -->", "after"]
    cpu, cuda = ("tokens of texts in batches for a " + each for each in ("CPU", "GPU"))
    assert f"| E0 cpu | {cpu} | tokens with padding | ≥ 0.95 | 0.94, missed | 0.9 … 0.99 | {where} |" in lines
    assert f"| E0 cuda | {cuda} | tokens with padding | ≥ 0.95 | not measured yet |  |  |" in lines
