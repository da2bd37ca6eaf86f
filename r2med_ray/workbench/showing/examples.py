"""An example of what a system's models are given, for the manifest: prompts, lengths and cuts.

- Retrievers: what was told where the model ran when their artefacts were made, so that none is loaded for it; see
  `first_stages.stored_examples`. It is of the task's first query and of the corpus' first document.
- Language models: the first prompt about the first query, of each reranker of a cascade.
- Scorers of pairs: what their row puts around the two texts, and what was told of one pair where the model ran. What
  they cut is counted in the results. `r2med show` shows a whole pair.

Texts of collections belong to others, so of each text only the beginning is kept.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from r2med_ray.first_stage import FirstStage, ShardedFirstStage
from r2med_ray.first_stages.bad_documents import find_shards
from r2med_ray.first_stages.query_blocks import blocks
from r2med_ray.first_stages.stored_examples import stored_example
from r2med_ray.models.catalog.encoders import prompts_for
from r2med_ray.models.catalog.rerankers import RerankerRow
from r2med_ray.models.networks.pair_scorers import ANY_TASK
from r2med_ray.pipeline import Ranked
from r2med_ray.readings import beginning
from r2med_ray.retrieval.searches import searches_of
from r2med_ray.storage.keys import Json
from r2med_ray.systems import Names, ResolvedSystem
from r2med_ray.types import Query, Task
from r2med_ray.workbench.bench import Workbench
from r2med_ray.workbench.showing.flow import Flow, lead
from r2med_ray.workbench.showing.language_models import asked_about
from r2med_ray.workbench.showing.values import Asked

CHARACTERS_OF_PROMPT = 600
"""Characters of a language model's message that are kept: its instructions come first."""

_FRAME = {"query_prompt", "document_prompt", "prefix", "suffix", "max_length", "yes", "no", "class_"}
"""Keys of a scorer's row that say what is put around a query and a document."""


def example(bench: Workbench, names: Names, task: Task, system: ResolvedSystem, ranked: Ranked) -> dict[str, Json]:
    """Return the example of a system on one task.

    Args:
        bench: its store has what the system made of the task.
        names: has the models.
        task: the task.
        system: the system.
        ranked: what the system did with the task.
    """
    query_id = task.queries[0].query_id
    device = bench.runner.device
    found: dict[str, Json] = {"task": task.name, "query": query_id}
    flow = (
        lead(bench.store, bench.runner, task, system) if system.language_model or system.reranking_models else Flow()
    )
    if asked := next(asked_about(query_id, flow.asks(rewriting=True), bench.store), None):
        found["rewrite"] = _asked(asked)
    [first, *_] = searches_of(ranked.rewriting.queries, system.combine)
    searched = [(each, first.queries) for each in system.first_stages]
    found["search"] = {each.label: _searched(bench, task, each, queries, device) for each, queries in searched}
    for place, (reranker, pair) in enumerate(zip(system.rerankers, ranked.pairs, strict=True), start=1):
        name = "rerank" if place == 1 else f"rerank {place}"
        asks = [ask for ask in flow.asks(rewriting=False) if ask.model is reranker.model]
        if scorer := reranker.scorer:
            found[name] = {"part": scorer.name, **_frame(scorer, names), "pair": list(pair)}
        elif asked := next(asked_about(query_id, asks, bench.store), None):
            found[name] = _asked(asked)
    return found


def _searched(
    bench: Workbench, task: Task, first_stage: FirstStage, queries: tuple[Query, ...], device: str
) -> list[Json]:
    if first_stage.work == "nothing":
        return []
    text = first_stage.text_asked(queries[0])
    if text is not None:
        return [{"side": "query", "prompt": "", "text": beginning(text)}]
    return list(_told(bench, task, first_stage, queries, device))


def _told(
    bench: Workbench, task: Task, first_stage: ShardedFirstStage, queries: tuple[Query, ...], device: str
) -> Iterator[Json]:
    """Yield what was told of queries and of documents; nothing for artefacts from before it was kept."""
    store = bench.store
    of_queries = first_stage.queries_key(task.name, blocks(queries)[0], device)
    if of_queries is not None:
        yield from stored_example(store.find(of_queries))
    for artifact in find_shards(store, first_stage, task, task.corpus.shards[:1], device):
        yield from stored_example(artifact)


def _asked(asked: Asked) -> Json:
    return {
        "unit": asked.unit,
        "request": dict(asked.request),
        "messages": [
            {"role": each["role"], "content": beginning(each["content"], CHARACTERS_OF_PROMPT)}
            for each in asked.messages
        ],
        "words": sum(len(each["content"].split()) for each in asked.messages),
    }


def _frame(row: RerankerRow, names: Names) -> Mapping[str, Any]:
    if row.kind == "maxsim":
        encoder = names.catalog.encoders[row.encoder]
        return {**prompts_for(encoder, ANY_TASK)._asdict(), "max_length": encoder.max_length}
    return row.model_dump(include=_FRAME, mode="json")
