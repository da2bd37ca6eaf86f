"""Runs the benchmarks, ends with one table of all bars, and keeps what was measured.

    python -m tests.benchmarks.table [SCRIPT ...] [--llm-python PYTHON] [--to DOCUMENTS] [--small] [--no-record]
    python -m tests.benchmarks.table --docs

Each script runs in a process of its own. What it measured is added to `history.jsonl`, and the table of
`docs/numbers.md` is written again from that file; with `--docs`, nothing else is done. The exit code is 1 if a bar is
missed, a gate fails, or a script breaks. `--small` has small sizes, no bars, and records nothing.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.benchmarks.bars import BARS, LLM, SCRIPTS, Bar
from tests.benchmarks.findings import FILE, REPOSITORY, Finding, found

HISTORY = Path(__file__).with_name("history.jsonl")
PAGE = REPOSITORY / "docs" / "numbers.md"
BEGIN, END = "<!-- benchmarks:begin -->\n", "\n<!-- benchmarks:end -->"
UNMEASURED = "not measured yet"
WIDTH = 150


def read(file: Path) -> list[Finding]:
    return (
        [Finding.from_json(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.exists() else []
    )


def run_script(script: str, python: str, *options: str, small: bool) -> list[Finding]:
    """Run one script, show what it prints, and return a finding for each of its bars.

    Raises:
        RuntimeError: it found all bars held, and then broke.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "findings.jsonl"
        command = [python, "-m", f"tests.benchmarks.{script}", *options, *(["--small"] if small else [])]
        with subprocess.Popen(
            command,
            cwd=REPOSITORY,
            env=os.environ | {FILE: str(file), "PYTHONUNBUFFERED": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            assert process.stdout is not None
            last = ""
            for line in process.stdout:
                print(line, end="", flush=True)
                last = line.strip() or last
        findings = read(file)
    if small and process.returncode == 0:
        return []
    said, ended = {finding.bar for finding in findings}, f"exit code {process.returncode}: {last}"
    findings += [found(bar, None, f"not run: {ended}", held=False) for bar in SCRIPTS[script] if bar.name not in said]
    if process.returncode and all(finding.held is not False for finding in findings):
        raise RuntimeError(f"{script} missed no bar and has {ended}")
    return findings


def print_table(findings: Iterable[Finding]) -> None:
    table = Table(*("", "ours", "anchor", "ratio", "lowest … highest", "bar", "held", "gate passed"))
    for each in findings:
        ratio, spread = figures(each)
        held = {True: "yes", False: "NO", None: "–"}[each.held]
        table.add_row(each.bar, each.ours, each.anchor, ratio, spread, each.wanted, held, each.gate)
    console = Console()
    console.width = max(console.width, WIDTH)
    console.print(table)


def figures(finding: Finding) -> tuple[str, str]:
    if finding.measured is None:
        return "–", "–"
    ratio, lowest, highest = (f"{value:.3g}" for value in finding.measured)
    return ratio, f"{lowest} … {highest}"


def docs_table(history: Sequence[Finding]) -> str:
    """Return the table of the docs: of each bar what was measured last, and where."""
    last = {finding.bar: finding for finding in history}
    rows = [
        "| | ours | anchor | bar | ratio | lowest … highest | measured on |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *(_docs_row(bar, last.get(bar.name)) for bar in BARS.values()),
    ]
    return "\n".join(rows)


def _docs_row(bar: Bar, finding: Finding | None) -> str:
    ours, ratio, spread, where = bar.ours, UNMEASURED, "", ""
    if finding is not None and finding.measured is not None:
        ours, (ratio, spread) = finding.ours, figures(finding)
        ratio += "" if bar.holds(finding.measured.ratio) else ", missed"
        where = f"{finding.processor}, {finding.cores} cores, {finding.date}"
    return f"| {' | '.join((bar.name, ours, bar.anchor, bar.wanted, ratio, spread, where))} |"


def write_docs(history: Sequence[Finding], page: Path = PAGE) -> None:
    text = page.read_text(encoding="utf-8")
    block = re.compile(f"(?<={re.escape(BEGIN)}).*?(?={re.escape(END)})", re.DOTALL)
    page.write_text(block.sub(lambda _: docs_table(history), text), encoding="utf-8")


def record(findings: Iterable[Finding], history: Path = HISTORY, page: Path = PAGE) -> None:
    """Add what was measured to the history, and write the table of the docs again."""
    with history.open("a", encoding="utf-8") as lines:
        for finding in findings:
            if finding.measured is not None:
                lines.write(json.dumps(asdict(finding), ensure_ascii=False) + "\n")
    write_docs(read(history), page)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("scripts", nargs="*", metavar="SCRIPT", default=list(SCRIPTS), help="all, if none is named")
    parser.add_argument(
        "--llm-python", help=f"the Python of an environment with vLLM, which {' and '.join(LLM)} need"
    )
    parser.add_argument("--to", metavar="DOCUMENTS", help="the largest corpus of `scale`")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--no-record", action="store_true", help="keep nothing")
    parser.add_argument("--docs", action="store_true", help="only write the table of the docs")
    given = parser.parse_args()
    if unknown := [script for script in given.scripts if script not in SCRIPTS]:
        parser.error(f"there is no benchmark {', '.join(unknown)}; there are {', '.join(SCRIPTS)}")
    findings: list[Finding] = []
    for script in [] if given.docs else given.scripts:
        print(f"\n{script}", flush=True)
        if script in LLM and not given.llm_python:
            reason = "not run: it needs vLLM, whose Python --llm-python names"
            findings += [found(bar, None, reason, held=None) for bar in SCRIPTS[script]]
            continue
        python = given.llm_python if script in LLM else sys.executable
        options = ["--to", given.to] if given.to and script == "scale" else []
        of_script = run_script(script, python, *options, small=given.small)
        findings += of_script
        if not given.small and not given.no_record:
            record(of_script)  # at once: a later script may be ended by hand
    if findings:
        print_table(findings)
    if given.docs:
        write_docs(read(HISTORY))
    if missed := [finding.bar for finding in findings if finding.held is False]:
        sys.exit(f"missed: {', '.join(missed)}")


if __name__ == "__main__":
    main()
