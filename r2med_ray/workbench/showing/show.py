"""Shows what a system is really given for one query and one document, section by section in the order of the flow."""

import os
from collections.abc import Iterator

from r2med_ray.demands import Find
from r2med_ray.errors import R2MedError
from r2med_ray.first_stage import Computing, FirstStage, ToExplain
from r2med_ray.first_stages.explaining import LOADED
from r2med_ray.models.catalog.llm_rerankers import LlmRerankerRow
from r2med_ray.models.catalog.rerankers import RerankerRow
from r2med_ray.models.catalog.resolved_rerankers import ResolvedReranker
from r2med_ray.models.networks.pair_scorers import build_pair_scorer
from r2med_ray.readings import Given, listening, place_of
from r2med_ray.systems import ResolvedBenchmark
from r2med_ray.types import Query, Run
from r2med_ray.workbench.bench import Workbench
from r2med_ray.workbench.local_runner import LocalRunner
from r2med_ray.workbench.runner import Runner
from r2med_ray.workbench.showing.choosing import Chosen, chosen
from r2med_ray.workbench.showing.flow import Flow, furthest
from r2med_ray.workbench.showing.language_models import asked_about
from r2med_ray.workbench.showing.values import Arrow, Section, Shown
from r2med_ray.workbench.worklog import Worklog


def show(
    bench: Workbench, benchmark: ResolvedBenchmark, *, task: str, system: str, query: str, document: str | None = None
) -> Shown:
    """Return what the models of a system are given.

    No cluster is started, no service is asked, and nothing is written into the store. Models that run here are loaded
    into this process.

    Args:
        bench: a workbench in this process; its store answers.
        benchmark: has task and system.
        task: the task's name.
        system: the system's name.
        query: the query's id.
        document: the document's id; the first relevant one by id if left out.

    Raises:
        ConfigError: there is no such task, system, query or document; gives the nearest name.
        DataError: a file of the task is wrong or not here.
    """
    names = {"task": task, "system": system, "query": query, "document": document}
    with chosen(benchmark, bench.store, **names) as found:  # type: ignore[arg-type]  # only `document` may be None
        flow = furthest(bench.store, _runners(bench, benchmark), found.task, found.system)
        asked, text = found.query, found.document
        grades = found.task.qrels.get(asked.query_id, {})
        return Shown(
            task=found.task.name,
            system=found.system.name,
            description=found.system.describe(),
            query_id=asked.query_id,
            query=asked.text,
            document_id=text.doc_id if text else None,
            document=text.content if text else None,
            grade=grades.get(text.doc_id) if text else None,
            device=flow.device if flow.num_answered else "",
            sections=tuple(_sections(bench, benchmark, found, flow)),
            stops=flow.stops,
        )


def _runners(bench: Workbench, benchmark: ResolvedBenchmark) -> Iterator[Runner]:
    """Yield what names stored answers: this machine first, then one with the other device. Neither runs anything."""
    yield bench.runner
    device = "cuda" if bench.runner.device == "cpu" else "cpu"
    config = benchmark.config.resources
    yield LocalRunner(benchmark.names.catalog, bench.store, config, Worklog(), device=device)


def _sections(bench: Workbench, benchmark: ResolvedBenchmark, found: Chosen, flow: Flow) -> Iterator[Section]:
    budget = benchmark.config.resources.encode.token_budget
    computing = Computing(device=bench.runner.device, threads=os.cpu_count() or 1, token_budget=budget, asks=False)
    if found.system.method is not None:
        yield from _searches(bench, found, flow, computing, "rewrite")
        yield _rewriting(bench, found, flow)
    yield from _searches(bench, found, flow, computing, "search")
    for reranker in found.system.rerankers:
        if isinstance(reranker.row, RerankerRow):
            yield _scoring(bench, benchmark, found, flow, reranker.row)
        elif second := reranker.second_search:
            searches = flow.searches(found.query.query_id, rewriting=False)
            of_stage = [each for each in searches if each[0].first_stage == second]
            yield _search(bench, found, computing, second, of_stage, "rerank")
        else:
            yield _asking(bench, found, flow, reranker)


def _asking(bench: Workbench, found: Chosen, flow: Flow, reranker: ResolvedReranker) -> Section:
    """Return what a language model that reranks is asked about a query; of pairs, about one of them in one sample."""
    asks = [ask for ask in flow.asks(rewriting=False) if ask.model is reranker.model]
    asked = tuple(asked_about(found.query.query_id, asks, bench.store))
    lines = [f"prompts of {reranker.row.shown_model}"]
    if not asked:
        lines.append("what it is shown depends on what is found")
    elif isinstance(reranker.row, LlmRerankerRow) and reranker.row.asks_about_pairs:
        wanted = f", document {found.document.doc_id!r}, sample 1" if found.document else ", sample 1"
        of_pair = tuple(each for each in asked if each.unit.endswith(wanted))
        lines.append(f"{len(of_pair)} of {len(asked)} prompts about the query")
        asked = of_pair
    return Section(arrow="rerank", part=reranker.row.name, lines=tuple(lines), asked=asked)


def _rewriting(bench: Workbench, found: Chosen, flow: Flow) -> Section:
    config = found.system.config.rewriter
    assert config is not None
    queries = [query for _, query, _ in flow.searches(found.query.query_id, rewriting=False)]
    texts = dict.fromkeys(each for query in queries for each in query.expansions)
    lines = [f"method {config.method}, combine {config.combine}"]
    if not texts and queries:
        lines.append("no text of it is used: the query is asked as it is")
    asks = flow.asks(rewriting=True)
    asked = tuple(asked_about(found.query.query_id, asks, bench.store))
    if asks and not asked:
        lines.append("none of its prompts begins with the name of the query, so that none can be shown")
    return Section(
        arrow="rewrite",
        part=config.writer or config.method,
        lines=tuple(lines),
        texts=tuple(f"({each.use}) {each.text}" for each in texts),
        asked=asked,
    )


def _searches(bench: Workbench, found: Chosen, flow: Flow, computing: Computing, arrow: Arrow) -> Iterator[Section]:
    """Yield a section per first stage: the system's own, or the tool that its rewriter searches with."""
    is_tool = arrow == "rewrite"
    searches = flow.searches(found.query.query_id, rewriting=is_tool)
    tool = found.system.tool
    stages = ((tool,) if tool else ()) if is_tool else found.system.first_stages
    for first_stage in stages:
        of_stage = [each for each in searches if each[0].first_stage == first_stage]
        yield _search(bench, found, computing, first_stage, of_stage, arrow)


def _search(
    bench: Workbench,
    found: Chosen,
    computing: Computing,
    first_stage: FirstStage,
    searches: list[tuple[Find, Query, Run | None]],
    arrow: Arrow,
) -> Section:
    queries = [query for _, query, _ in searches]
    try:
        given = first_stage.explain(ToExplain(bench.store, found.task, queries, found.document, computing))
    except R2MedError as error:
        given = Given(lines=(f"can't be shown: {error}",))
    lines = given.lines
    rewriter = found.system.config.rewriter
    if not searches and arrow == "rewrite" and rewriter and rewriter.agent:
        lines = (*lines, "it is asked whatever the agent requests, turn by turn")
    elif not searches:
        lines = (*lines, "what it is asked isn't known yet; see the last line")
    for find, query, run in searches:
        if run is not None and found.document is not None:
            doc_id, ids = found.document.doc_id, [hit.doc_id for hit in run.rankings[query.query_id]]
            lines = (*lines, f"document {doc_id!r} in the best {find.k}: {place_of(doc_id, ids, 'not found')}")
    return Section(arrow=arrow, part=first_stage.label, lines=lines, terms=given.terms, readings=given.readings)


def _scoring(bench: Workbench, benchmark: ResolvedBenchmark, found: Chosen, flow: Flow, row: RerankerRow) -> Section:
    """Return what a scorer of pairs reads; it is shown the query as it is, without the texts of a rewriter."""
    if found.document is None:
        return Section(arrow="rerank", part=row.name, lines=("no document is shown, so there is no pair",))
    candidates = flow.candidates(found.query.query_id, row)
    if candidates is None:
        place = "whether the pair is scored depends on what is found"
    else:
        scored = "is" if found.document.doc_id in candidates else "is not"
        place = f"document {found.document.doc_id!r} {scored} among the {len(candidates)} candidates"
    budget = benchmark.config.resources.rerank.token_budget
    try:
        scorer = build_pair_scorer(row, benchmark.names.catalog, device=bench.runner.device, token_budget=budget)
        with listening() as heard:
            scorer.score_pairs([(found.query.text, found.document.content)])
    except R2MedError as error:
        return Section(arrow="rerank", part=row.name, lines=(place, f"can't be shown: {error}"))
    return Section(arrow="rerank", part=row.name, lines=(place, LOADED), readings=tuple(heard.readings))
