"""Notes for a reader of the figures, as sentences that Markdown, terminal and page share."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from r2med_ray.evaluation.measures import Measure, not_checked
from r2med_ray.reporting.cut_texts import cut_notes, cut_warnings
from r2med_ray.reporting.missing import needs
from r2med_ray.reporting.published_rules import rule_notes
from r2med_ray.reporting.record import BenchmarkRecord, ResultRecord
from r2med_ray.reporting.scales import measures_of, scale_of
from r2med_ray.types import CANDIDATES, QueryId, positives_of

DEMONSTRATIONS = "Demo"
"""The suite of the tasks inside the package."""


def warnings(record: BenchmarkRecord) -> list[str]:
    """Return sentences that must not be overlooked.

    They are about demonstrations, missing results, what the loaders warn of, and texts that were cut.
    """
    demos = [task.name for task in record.tasks if task.suite == DEMONSTRATIONS]
    there = {(result.system, result.task) for result in record.results}
    there |= {(left_out.system, left_out.task) for left_out in record.missing}
    missing = [
        f"{system.name} on {task.name}"
        for system in record.systems
        for task in record.tasks
        if (system.name, task.name) not in there
    ]
    return [
        *([f"{_listed(demos)}: a demonstration, not a benchmark."] if demos else []),
        *([f"No result for {_listed(missing)}."] if missing else []),
        *_missing(record),
        *_left_out(record),
        *_approximations(record, far=True),
        *(f"{task.name}: {warning}" for task in record.tasks for warning in task.warnings),
        *cut_warnings(record),
        *_identical_positives(record),
    ]


def _identical_positives(record: BenchmarkRecord) -> Iterator[str]:
    """Yield a sentence per task. All systems that leave such documents out leave the same ones out."""
    systems: dict[tuple[str, tuple[QueryId, ...]], list[str]] = {}
    for result in record.results:
        if result.identical_positives:
            systems.setdefault((result.task, result.identical_positives), []).append(result.system)
    for (task, found), names in systems.items():
        yield (
            f"{task}: {len(found)} relevant documents are left out of the rankings of {_listed(names)}, because "
            f"their id is the query's (ignore_identical_ids); they can't be found, but count, e.g. {found[0]!r}."
        )


def _approximations(record: BenchmarkRecord, *, far: bool) -> Iterator[str]:
    """Yield what the approximate searches missed: those that are far from exact search, or those that are not."""
    for result in record.results:
        for found in result.approximations:
            if found.is_close is not far:
                yield f"{result.system} on {result.task}: {found}."


def _missing(record: BenchmarkRecord) -> Iterator[str]:
    if record.missing:
        asked = len(record.systems) * len(record.tasks)
        yield f"{len(record.missing)} of {asked} results are missing; an average over tasks needs all of its tasks."
        yield from (f"{line}." for line in needs(record.missing))


def _left_out(record: BenchmarkRecord) -> Iterator[str]:
    """Yield a sentence per task and retriever whose index lacks documents; systems share them."""
    said: set[tuple[str, str]] = set()
    qrels = {task.name: task.qrels for task in record.tasks}
    for result in record.results:
        relevant = set[str]().union(*map(positives_of, qrels[result.task].values()))
        for retriever, causes in result.left_out.items():
            if (result.task, retriever) not in said:
                said.add((result.task, retriever))
                first, *others = causes.items()
                more = f" and {len(others)} more" if others else ""
                yield (
                    f"{retriever} on {result.task}: documents that can't be encoded ({len(causes)}, of them relevant "
                    f"{len(relevant & causes.keys())}) are not in its index: {first[0]} ({first[1]}){more}. "
                    "The manifest lists them."
                )


def reading_notes(record: BenchmarkRecord) -> list[str]:
    """Return sentences that say how the figures were made, and what was counted meanwhile."""
    return [
        *_measures(record),
        "Documents with the same 32-bit score are ordered by document id, descending, as in trec_eval.",
        "A task's figure is the mean over all queries with a positive judgement; a query without an answer counts 0. "
        "A mean over tasks weighs tasks equally and is left out for a system that lacks one.",
        *_compat(record),
        *_baseline(record),
        *_approximations(record, far=False),
        *_counts(record),
        *cut_notes(record),
    ]


def _measures(record: BenchmarkRecord) -> Iterator[str]:
    measures = measures_of(record)
    plain = [name for name, measure in measures.items() if not measure.is_share]
    own_scale = f" On their own scale in all files: {_listed(plain)}." if plain else ""
    yield f"Measures are on a scale of 0 to 100; the JSON and Parquet files hold 0 to 1.{own_scale}"
    if lacking := not_checked(measures.values()):
        yield f"Not checked by trec_eval, which lacks them: {_listed(lacking)}."
    if gains := list(_gains(measures)):
        yield (
            f"{'; '.join(gains)}, divided by log2(rank + 1). The ideal ranking is over all documents that are judged "
            "relevant for the query, whether or not they are in the corpus."
        )


def _gains(measures: Mapping[str, Measure]) -> Iterator[str]:
    ndcg = {name: measure for name, measure in measures.items() if measure.name == "nDCG"}
    if linear := [name for name, measure in ndcg.items() if not measure.parameters]:
        yield f"{_listed(linear)}: the gain of a document is its grade (linear)"
    if exponential := [name for name, measure in ndcg.items() if measure.parameters]:
        yield f"{_listed(exponential)}: the gain of a document is 2 to the power of its grade, minus 1 (exponential)"


def _compat(record: BenchmarkRecord) -> Iterator[str]:
    published = [system.name for system in record.systems if system.compat == "r2med"]
    if published:
        yield f"{_listed(published)}: run by the published protocol of R2MED (compat: r2med), oddities included."
    yield from rule_notes(record)


def _baseline(record: BenchmarkRecord) -> Iterator[str]:
    if record.baseline is not None and len(record.systems) > 1:
        yield (
            f"Δ is the difference in the mean to {record.baseline}, with a 95% bootstrap interval over queries; "
            f"p is from a paired randomisation test, Holm-adjusted for the number of systems. Seed {record.seed}."
        )


def _counts(record: BenchmarkRecord) -> Iterator[str]:
    for task in record.tasks:
        without = sum(max(grades.values(), default=0) <= 0 for grades in task.qrels.values())
        if without:
            yield f"{task.name}: queries without a positive judgement ({without}) are not in the mean."
    for system in record.systems:
        results = record.results_of(system.name).values()
        flagged: Counter[str] = Counter()
        texts = record.leaderboard_results_of(system.name).values()  # conditions use the texts of their task
        for result in texts:
            flagged.update({reason: len(query_ids) for reason, query_ids in result.flagged.items()})
        parts = {
            "queries without an answer": sum(result.evaluation.num_unanswered for result in results),
            "answered queries without a judgement": sum(result.evaluation.num_unjudged for result in results),
            "documents left out of an index": sum(result.num_left_out for result in results),
            "queries with fewer documents than asked for": sum(map(_short, results)),
            "queries used as they are": sum(len(result.unchanged) for result in texts),
            "documents left out because their id is the query's": sum(
                len(result.identical_ids) for result in results
            ),
            **{f"generated texts flagged {reason!r}": number for reason, number in flagged.items()},
        }
        if any(parts.values()):
            yield f"{system.name}: {_numbered(parts)}."
        yield from (_repaired(result) for result in results if result.num_repaired)
        for result in results:
            yield from _found_nothing(result)
        yield from (_tied(record, result) for result in results if record.main_measure in result.text_ties)


def _short(result: ResultRecord) -> int:
    """Return how many short rankings no warning tells of: an approximate search's are told of with what it missed."""
    return 0 if any(found.num_short for found in result.approximations) else result.num_short


def _found_nothing(result: ResultRecord) -> Iterator[str]:
    """Yield a sentence per first stage. A query that no first stage answers is counted as one without an answer.

    Of given candidates all queries are told, because a list that lacks a query may be the wrong list.
    """
    for label, query_ids in result.found_nothing.items():
        told = [name for name in query_ids if label.startswith(CANDIDATES) or result.run.rankings.get(name)]
        if told:
            yield f"{result.system} on {result.task}: queries that {label} ranks nothing for ({len(told)})."


def _tied(record: BenchmarkRecord, result: ResultRecord) -> str:
    main = record.main_measure
    found, queries, write = result.text_ties[main], result.evaluation.num_queries, scale_of(record, main).value
    return (
        f"{result.system} on {result.task}: {main} depends for {found.num_queries} of {queries} queries "
        f"({100 * found.num_queries / queries:.1f}%) on the order of documents with the same text and the same "
        f"score, which their ids decide; over all such orders the mean is between {write(found.least)} and "
        f"{write(found.greatest)}."
        + ("" if found.with_cut_off else " Only documents in the ranking that have equal scores are counted.")
    )


def _repaired(result: ResultRecord) -> str:
    repairs, answers = result.repairs, result.repairs.unreadable_answers
    queries = Counter(rule for rules in repairs.rules.values() for rule in rules)
    queries["unreadable"] = len(repairs.unreadable)
    return (
        f"{result.system} on {result.task}: queries with repaired answers of the reranker ({result.num_repaired}): "
        f"{_numbered(queries)}"
        + (f"; unreadable answers ({answers.total()}): {_numbered(answers)}." if answers else ".")
    )


def _numbered(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{what} ({number})" for what, number in counts.items() if number)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
