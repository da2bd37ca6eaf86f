"""NanoR2MED's published figures, each with ours where a system of a benchmark is one of its profiles.

A profile is BM25, Harrier-270M or their fusion, searched for here or read from the lists that come with the tasks.
Only tasks of the suite itself are compared, never a collection of one's own in its layout.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from r2med_ray.corpus.catalog import TASKS
from r2med_ray.evaluation.nano_profile import MEASURES, SUITE, as_published
from r2med_ray.evaluation.published import PublishedScore, published
from r2med_ray.reporting.nano_tables import profiles_of
from r2med_ray.reporting.summary import Summary, suite_tasks
from r2med_ray.retrieval.nano_hybrid import LIST_DEPTH, RRF_K
from r2med_ray.settings.config import FusionConfig, RetrieverConfig

NUM_TASKS = sum(row.suite == SUITE for row in TASKS.values())

LISTS_AGREE_WITHIN = 1e-9
"""The published lists give the published figures, which have ten decimals."""

_BM25, _DENSE = "nano-bm25", "microsoft/harrier-oss-v1-270m"
_HYBRID = f"rrf/{_BM25}+{_DENSE}"
_OF_MODELS = {
    "bm25-nano": _BM25,
    "bm25-nano-plain": "nano-bm25-before-2026-05-25",
    "harrier-oss-v1-270m": _DENSE,
}
_OF_LISTS = {"bm25": _BM25, "dense": _DENSE, "reranking_hybrid": _HYBRID}
_FUSION = FusionConfig(method="nano", k=RRF_K, depth=LIST_DEPTH)


class NanoFigure(NamedTuple):
    """A published figure, and what it is compared with."""

    score: PublishedScore
    ours: float | None
    needs: str | None
    """What was lacking where there is no figure of ours, if that is known."""

    tolerance: float | None
    """None for that of the profile."""


class _Profile(NamedTuple):
    system: str
    """As in `published.csv`."""

    is_list: bool


def nano_figures(summary: Summary, system: str) -> Iterator[NanoFigure]:
    """Yield what is published for a system: the tasks of the benchmark, and the whole suite if it has all of them."""
    record = summary.record
    tasks = suite_tasks(record).get(SUITE, [])
    configs: Any = record.config.get("systems", [])
    profile = next((_profile(config) for config in configs if config["name"] == system), None)
    if profile is None or not tasks:
        return
    needs: Mapping[str, str] = record.needs_of(system)
    if lacking := [measure for measure in MEASURES if measure not in record.measures]:
        needs = dict.fromkeys(tasks, f"{', '.join(lacking)} among `measures`")
    found = {} if lacking else profiles_of(summary, system)
    ours = as_published(found) if found else {}
    for score in published(system=profile.system):
        if score.task in tasks:
            figure, need = ours.get((score.task, score.measure)), needs.get(score.task)
        elif len(tasks) == NUM_TASKS:
            is_whole = len(found) == NUM_TASKS
            figure, need = ours[SUITE, score.measure] if is_whole else None, next(iter(needs.values()), None)
        else:
            continue
        yield NanoFigure(score, figure, need, LISTS_AGREE_WITHIN if profile.is_list else None)


def _profile(system: Mapping[str, Any]) -> _Profile | None:
    """Return what a system of a benchmark file is; None for none of the profiles, or one with other settings."""
    retrievers = system["retrievers"] or [system["retriever"]]
    stages = [stage for retriever in retrievers if (stage := _first_stage(RetrieverConfig(**retriever)))]
    if system["rewriter"] or system["reranker"] or len(stages) < len(retrievers):
        return None
    if not system["fusion"]:
        return stages[0]
    parts = sorted(stage.system for stage in stages)
    if FusionConfig(**system["fusion"]) != _FUSION or parts != sorted((_BM25, _DENSE)):
        return None
    return _Profile(_HYBRID, is_list=all(stage.is_list for stage in stages))


def _first_stage(retriever: RetrieverConfig) -> _Profile | None:
    if retriever.candidates:
        system = _OF_LISTS.get(retriever.candidates)
    else:
        changed = retriever.model_dump(include={"k1", "b", "max_length", "index"}, exclude_none=True)
        system = None if changed else _OF_MODELS.get(retriever.model)
    return _Profile(system, is_list=retriever.candidates is not None) if system else None
