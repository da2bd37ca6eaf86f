"""NanoR2MED's published figures, each with our figure if a system is one of NanoR2MED's profiles.

A profile is BM25, Harrier-270M or their fusion. It is either searched here or read from the lists that come with the
tasks. Only tasks of the suite itself are compared. A user's own collection in the same layout is not compared.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from r2med_ray.corpus.catalog import TASKS
from r2med_ray.evaluation.nano_profile import MEASURES, SUITE, as_published
from r2med_ray.evaluation.published import PublishedScore, published
from r2med_ray.reporting.nano_tables import profiles_of
from r2med_ray.reporting.summary import Summary, suite_tasks
from r2med_ray.retrieval.nano_hybrid import LIST_DEPTH, RRF_K
from r2med_ray.settings.config import FusionConfig
from r2med_ray.settings.retriever import RetrieverConfig

NUM_TASKS = sum(row.suite == SUITE for row in TASKS.values())

LISTS_AGREE_WITHIN = 1e-9
"""Tolerance for a profile that is read from the published lists: they give the published figures, to ten decimals."""

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
    """A published figure and our figure for the same profile."""

    score: PublishedScore
    ours: float | None
    needs: str | None
    """What was lacking if there is no figure of ours. None if that is not known."""

    tolerance: float | None
    """How far our figure may be off. None means the tolerance that `known_deviations.yaml` gives."""


class _Profile(NamedTuple):
    system: str
    """The profile's name in `published.csv`."""

    is_list: bool


def nano_figures(summary: Summary, system: str) -> Iterator[NanoFigure]:
    """Yield the figures that are published for a system.

    They are the figures of the benchmark's tasks. The figures of the whole suite follow if the benchmark has all of
    its tasks.
    """
    record = summary.record
    tasks = suite_tasks(record).get(SUITE, [])
    configs: Any = record.config.get("systems", [])
    profile = next((_profile(config) for config in configs if config["name"] == system), None)
    if profile is None or not tasks or any(task.is_part for task in record.tasks):
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
    """Return the profile that a system of a benchmark file is.

    The answer is None if the system is none of the profiles, or has other settings than the profile.
    """
    retrievers = system["retrievers"] or [system["retriever"]]
    first_stages = [
        first_stage for retriever in retrievers if (first_stage := _first_stage(RetrieverConfig(**retriever)))
    ]
    if system["rewriter"] or system["reranker"] or len(first_stages) < len(retrievers):
        return None
    if not system["fusion"]:
        return first_stages[0]
    parts = sorted(first_stage.system for first_stage in first_stages)
    if FusionConfig(**system["fusion"]) != _FUSION or parts != sorted((_BM25, _DENSE)):
        return None
    return _Profile(_HYBRID, is_list=all(first_stage.is_list for first_stage in first_stages))


def _first_stage(retriever: RetrieverConfig) -> _Profile | None:
    if retriever.candidates:
        system = _OF_LISTS.get(retriever.candidates)
    else:
        changed = retriever.model_dump(include={"k1", "b", "max_length", "index"}, exclude_none=True)
        system = None if changed else _OF_MODELS.get(retriever.model)
    return _Profile(system, is_list=retriever.candidates is not None) if system else None
