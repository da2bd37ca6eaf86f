"""How what a result was made of was computed: on what, how precisely and how fast.

It is read from the artefacts, so a job that finds everything stored tells as much as the one that made it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from r2med_ray.chat import Completion, LanguageModel
from r2med_ray.cuts import from_json
from r2med_ray.first_stage import ShardedFirstStage
from r2med_ray.first_stages.bad_documents import find_shards
from r2med_ray.first_stages.preparation import STAGES, maker_label
from r2med_ray.first_stages.query_blocks import blocks
from r2med_ray.first_stages.stored_cuts import CUTS
from r2med_ray.first_stages.stored_speed import USAGE, Speed, per_computer, speeds_of
from r2med_ray.models.catalog.language_models import LanguageModelRow
from r2med_ray.pipeline import Ranked
from r2med_ray.reporting.part_records import ENCODE_QUERIES, PartRecord
from r2med_ray.retrieval.searches import searches_made
from r2med_ray.storage.artifact import Artifact
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import ArtifactKey, Json
from r2med_ray.systems import ResolvedSystem
from r2med_ray.types import Reranking, Task
from r2med_ray.workbench.worklog import Price, no_price

SERVICE = "a service"
NOT_NOTED = ""
"""The device of texts whose model's computer is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """One artefact, and how it was made."""

    name: str
    arrow: str
    """The arrow of the flow, e.g. `encode`."""

    part: str
    """The model, e.g. the name of an encoder."""

    speeds: Sequence[Speed] = ()
    dtype: str = ""
    lengths: Sequence[int] = ()
    """Most tokens that were read of a text; for a language model, of an answer."""

    engine: str = ""
    usage: Mapping[str, int] = field(default_factory=dict)
    """What a service counted."""

    price: Price = no_price
    usd: float | None = None
    """What a service was paid, in US dollars; None if nothing was, or no price is known."""


def corpus_made(
    store: ArtifactStore, task: Task, system: ResolvedSystem, ranked: Ranked, device: str
) -> Iterator[Made]:
    """Yield how what a system's retrievers searched was made: of the corpus, and of the queries.

    Args:
        store: has it.
        task: was searched.
        system: searched.
        ranked: what it ranked.
        device: what encoders compute on.
    """
    searches = searches_made(ranked.rewriting, system.combine)
    asked = [block for search in searches for block in blocks(search.queries)]
    for first_stage in system.searched_with:
        if first_stage.work == "nothing":
            continue
        for shard in find_shards(store, first_stage, task, task.corpus.shards, device):
            yield from _made(first_stage, STAGES[first_stage.work], shard)
        keys = [first_stage.queries_key(task.name, block, device) for block in asked]
        for queries in store.find_all(key for key in keys if key):
            yield from _made(first_stage, ENCODE_QUERIES, queries)


def scores_made(key: ArtifactKey, scorer: str, speeds: Sequence[Speed], reranking: Reranking) -> Made:
    """Return how the scores of a demand were made."""
    lengths = {length for cuts in (reranking.cuts or {}).values() for length in cuts.lengths}
    return Made(
        name=key.name,
        arrow="rerank",
        part=scorer,
        speeds=speeds,
        dtype=str(key.inputs.get("dtype", "")),
        lengths=sorted(lengths),
        engine=_engine(key.inputs),
    )


def text_made(key: ArtifactKey, model: LanguageModel, text: Completion) -> Made:
    """Return how a text was made. Its seconds are those of its request, beside which others went on."""
    made = Made(
        name=key.name,
        arrow="write",
        part=model.name,
        speeds=[Speed(documents=1, seconds=text.seconds, device=text.computer or NOT_NOTED, threads=0)],
        engine=SERVICE,
    )
    if not isinstance(model, LanguageModelRow):  # a model of the user's
        return made
    limit = model.sampling.max_tokens
    made = replace(made, lengths=[limit] if limit else [])
    if model.kind != "openai":
        return replace(made, dtype=model.dtype, engine="vLLM")
    tokens = text.prompt_tokens or 0, text.completion_tokens or 0
    return replace(made, usage={"tokens": sum(tokens)}, usd=model.usd(*tokens))


def part_records(made: Iterable[Made]) -> tuple[PartRecord, ...]:
    """Add up artefacts by arrow and part. An artefact that several share counts once, for the first of them."""
    groups: dict[tuple[str, str], list[Made]] = {}
    seen: set[str] = set()
    for each in made:
        if each.name not in seen:
            seen.add(each.name)
            groups.setdefault((each.arrow, each.part), []).append(each)
    return tuple(_part(arrow, part, group) for (arrow, part), group in groups.items())


def _part(arrow: str, part: str, made: Sequence[Made]) -> PartRecord:
    speeds = per_computer(speed for each in made for speed in each.speeds)
    usage: Counter[str] = Counter()
    for each in made:
        usage.update(each.usage)
    return PartRecord(
        arrow=arrow,
        part=part,
        items=sum(speed.documents for speed in speeds),
        seconds=sum(speed.seconds for speed in speeds),
        unmeasured=sum(not each.speeds for each in made),
        computers=tuple(speed.computer for speed in speeds if speed.device != NOT_NOTED),
        dtypes=_distinct(each.dtype for each in made),
        lengths=tuple(sorted({length for each in made for length in each.lengths})),
        engines=_distinct(each.engine for each in made),
        tokens=usage["tokens"],
        cost=made[0].price(usage),
        usd=None if all(each.usd is None for each in made) else sum(each.usd or 0 for each in made),
    )


def _made(first_stage: ShardedFirstStage, arrow: str, artifact: Artifact | None) -> Iterator[Made]:
    if artifact is None:
        return
    inputs, cuts = artifact.inputs.get("encoding", artifact.inputs), from_json(artifact.attributes.get(CUTS))
    usage = artifact.attributes.get(USAGE, {})
    is_elsewhere, speeds = first_stage.work == "ask a service", speeds_of(artifact)
    yield Made(
        name=artifact.name,
        arrow=arrow,
        part=maker_label(first_stage),
        speeds=[replace(speed, device=SERVICE) for speed in speeds] if is_elsewhere else speeds,
        dtype=str(inputs.get("dtype", "")),
        lengths=cuts.lengths if cuts else (),
        engine=SERVICE if is_elsewhere else _engine(inputs),
        usage=usage,
        price=first_stage.cost,
        usd=first_stage.usd(usage),
    )


def _engine(inputs: Mapping[str, Json]) -> str:
    """Return the class and the libraries that computed, as a key names them; empty for arithmetic of this package."""
    libraries = [f"{name} {version}" for name, version in sorted(inputs.get("libraries", {}).items())]
    return ", ".join([*([inputs["class"]] if inputs.get("class") else []), *libraries])


def _distinct(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(filter(None, values)))
