"""What a plan says about hours: the work that the store doesn't save, with the tokens and speeds that it knows."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from r2med_ray.cuts import from_json, sum_of
from r2med_ray.first_stage import FirstStage
from r2med_ray.first_stages.preparation import STAGES
from r2med_ray.first_stages.stored_cuts import CUTS
from r2med_ray.first_stages.stored_speed import Speed, speeds_of
from r2med_ray.models.catalog.language_models import LanguageModelRow
from r2med_ray.models.catalog.rerankers import RerankerRow
from r2med_ray.models.catalog.row import Row
from r2med_ray.storage.artifact import Artifact
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import ArtifactKey
from r2med_ray.workbench.answers import TextsAnswer
from r2med_ray.workbench.catalog_rows import language_model_row
from r2med_ray.workbench.driver import Counted
from r2med_ray.workbench.estimates import DOCUMENT_TOKENS, QUERY_TOKENS, Work, estimate, line
from r2med_ray.workbench.plan_text import ShardCount
from r2med_ray.workbench.runner import Runner

ASSUMED = "assumed"

R = TypeVar("R", bound=Row)


@dataclass(frozen=True, slots=True, kw_only=True)
class LookedUp:
    """What the store has of one corpus for one group of first stages."""

    task: str
    first_stages: Sequence[FirstStage]
    """Those of the group, at least one: they share what is stored, and search it in different ways."""

    documents: int | None
    """All documents of the corpus; None if nobody knows."""

    queries: int
    shards: Sequence[tuple[int, Artifact | None]] | None
    """Each shard's documents, and its artefact if it is stored; None before the corpus is converted."""

    key: ArtifactKey | None
    """The key of the first shard's artefact, which names the model; None where there is none."""

    @property
    def missing(self) -> int:
        """Documents whose artefact is not stored."""
        if self.shards is None:
            return self.documents or 0
        return sum(rows for rows, artifact in self.shards if artifact is None)

    @property
    def first_stage(self) -> FirstStage:
        """The one that stands for the group: what is stored is the same for all of them."""
        return self.first_stages[0]

    @property
    def stored_bytes(self) -> float:
        """What is stored of the shards, or will be if the others are like those that are stored."""
        known = sum(rows for rows, artifact in self.shards or () if artifact)
        num_bytes = sum(artifact.num_bytes for artifact in self.stored)
        return num_bytes * (known + self.missing) / known if known else 0.0

    @property
    def stored(self) -> list[Artifact]:
        return [artifact for _, artifact in self.shards or () if artifact]


def read_one_by_one(runner: Runner, looked_up: Iterable[LookedUp]) -> Iterator[str]:
    """Yield the indexes whose shards no actor holds between searches, with their size where it is known."""
    for each in looked_up:
        for first_stage in each.first_stages:
            if first_stage.work == "nothing":
                continue
            held_bytes = int(first_stage.held_share * each.stored_bytes)
            if not runner.holds_shards(held_bytes):
                size = f"{held_bytes / 2**30:.1f} GB" if each.stored else "size not known yet"
                yield f"{first_stage.label} on {each.task}: {size}"


def preparation(
    store: ArtifactStore, runner: Runner, looked_up: Iterable[LookedUp], *, documents_per_shard: int
) -> Iterator[str]:
    """Yield what preparing corpora and queries takes, one line per stage and model."""
    groups: dict[tuple[str, str], list[LookedUp]] = {}
    for each in looked_up:
        groups.setdefault((each.first_stage.artifact_label, each.first_stage.artifact_group), []).append(each)
    for group in groups.values():
        lacking = [each for each in group if each.missing]
        if not lacking:
            continue
        first_stage = group[0].first_stage
        if first_stage.work == "nothing":
            continue
        pool = runner.workers("tokenize" if first_stage.work == "tokenize" else "encode")
        speeds = _speeds(store, group)
        shards = sum(
            math.ceil(each.missing / documents_per_shard)
            if each.shards is None
            else sum(artifact is None for _, artifact in each.shards)
            for each in lacking
        )
        work = _documents(STAGES[first_stage.work], first_stage, group, sum(each.missing for each in lacking))
        yield line(work, pool, estimate(work, pool, runner.gpu, speeds), most_workers=shards)
        if first_stage.work == "encode":
            work = _queries(first_stage, sum(each.queries for each in lacking))
            yield line(work, pool, estimate(work, pool, runner.gpu, ()), most_workers=1)


def reranking(runner: Runner, pairs: Iterable[tuple[RerankerRow, int]]) -> Iterator[str]:
    """Yield what it takes to score pairs, of each of which the number is the most that there may be."""
    pool = runner.workers("rerank")
    for row, count in _summed(pairs):
        tokens = min(row.max_length, DOCUMENT_TOKENS + QUERY_TOKENS)
        work = Work(
            stage="rerank",
            model=row.name,
            items=count,
            unit="pairs",
            tokens=tokens,
            tokens_are=ASSUMED,
            billions=row.billions,
        )
        yield line(work, pool, estimate(work, pool, runner.gpu, ()), most_workers=pool.actors)


def writing(texts: Iterable[tuple[LanguageModelRow, int]]) -> Iterator[str]:
    """Yield what is known of the texts that language models will write."""
    for row, count in _summed(texts):
        limit = row.sampling.max_tokens
        most = f"at most {count * limit:,} tokens, {limit:,} a text" if limit else "as many as the model writes"
        yield f"write {row.name}: {count:,} texts: not estimated, because their lengths aren't known; {most}"


def _summed(counts: Iterable[tuple[R, int]]) -> Iterator[tuple[R, int]]:
    """Add up the counts of each row, by its name."""
    sums: dict[str, tuple[R, int]] = {}
    for row, count in counts:
        sums[row.name] = row, count + sums.get(row.name, (row, 0))[1]
    yield from sums.values()


def _documents(stage: str, first_stage: FirstStage, group: Sequence[LookedUp], count: int) -> Work:
    noted = [from_json(artifact.attributes.get(CUTS)) for each in group for artifact in each.stored]
    cuts = sum_of([each for each in noted if each])
    tokens, tokens_are = float(DOCUMENT_TOKENS), ASSUMED
    if cuts and cuts.texts:
        tokens, tokens_are = (cuts.tokens - cuts.lost) / cuts.texts, "as in stored shards"
    elif length := first_stage.model_facts().max_length:
        tokens = min(tokens, length)
    return Work(
        stage=stage,
        model=first_stage.label,
        items=count,
        unit="documents",
        tokens=tokens,
        tokens_are=tokens_are,
        billions=_billions(first_stage),
    )


def _queries(first_stage: FirstStage, count: int) -> Work:
    length = first_stage.model_facts().max_length or QUERY_TOKENS
    return Work(
        stage="encode queries",
        model=first_stage.label,
        items=count,
        unit="queries",
        tokens=min(QUERY_TOKENS, length),
        tokens_are=ASSUMED,
        billions=_billions(first_stage),
    )


def _billions(first_stage: FirstStage) -> float | None:
    row = first_stage.row
    return row.billions if isinstance(row, Row) else None


def _speeds(store: ArtifactStore, group: Sequence[LookedUp]) -> list[Speed]:
    """Return what was measured on corpora of the plan; or else on any corpus, with the very same inputs."""
    here = [speed for each in group for artifact in each.stored for speed in speeds_of(artifact)]
    key = next((each.key for each in group if each.key), None)
    if here or key is None:
        return here
    wanted = _model_inputs(key.inputs)
    return [
        speed
        for artifact in store.all(key.kind)
        if _model_inputs(artifact.inputs) == wanted
        for speed in speeds_of(artifact)
    ]


def _model_inputs(inputs: Mapping[str, object]) -> dict[str, object]:
    """Return what a key says beside the shard."""
    return {name: value for name, value in inputs.items() if name not in ("shard", "skip_rows")}


def texts_to_write(counted: Iterable[Counted]) -> Iterator[tuple[LanguageModelRow, int]]:
    """Yield how many texts of a language model are known to be missing, for each demand."""
    for count in counted:
        for answer in count.waits_for:
            if isinstance(answer, TextsAnswer):
                yield language_model_row(answer.ask.model), len(answer.missing)


def shard_counts(looked_up: Sequence[LookedUp]) -> Iterator[ShardCount]:
    """Count what is stored of each corpus that is converted."""
    for each in looked_up:
        if each.shards is not None:
            what = f"{each.first_stage.artifact_label} for {each.first_stage.label}"
            stored = len(each.stored)
            yield ShardCount(what=what, task=each.task, stored=stored, missing=len(each.shards) - stored)
