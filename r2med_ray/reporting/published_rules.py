"""The rules of R2MED's published protocol that a system follows in place of the default ones, in words."""

from collections.abc import Iterator, Mapping

from r2med_ray.reporting.record import BenchmarkRecord, SystemRecord
from r2med_ray.settings.compat import DIFFERENCES, Difference

_ROWS: Mapping[str, Difference] = {row.id: row for row in DIFFERENCES}


def published_rules(system: SystemRecord) -> dict[str, str]:
    """Return id → what the system does, for each difference in force. It is empty under the default rules.

    A report may be older than the table of differences. An id that the table lacks has an empty text.
    """
    return {name: _ROWS[name].r2med if name in _ROWS else "" for name in system.differences}


def rule_notes(record: BenchmarkRecord) -> Iterator[str]:
    """Yield one sentence per group of systems that follow the same published rules, then where to read more."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for system in record.systems:
        if system.differences:
            groups.setdefault(system.differences, []).append(system.name)
    for differences, systems in groups.items():
        rules = ", ".join(map(_named, differences))
        yield f"{', '.join(systems)}: these rules of the published protocol replace the default ones: {rules}."
    if groups:
        yield "r2med explain compat says what each rule is by default and in the published protocol."


def _named(name: str) -> str:
    return f"{name} ({_ROWS[name].rule})" if name in _ROWS else name
