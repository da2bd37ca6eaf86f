"""The public door: search, ask, score, rank and measure over one's own documents, on a cluster or in this process.

    with open_workbench("store") as bench:                          # address="local" starts Ray on this machine
        task = bench.task("mine", documents=..., queries=..., qrels=...)
        ranked = bench.rank(task, {"retriever": "bm25"})
        print(bench.measure(ranked.run, task, ["nDCG@10"]).means)

The jobs, the command line and the adapter to mteb use nothing else. What was made once is read from the store.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from r2med_ray.activity import told
from r2med_ray.chat import ChatPrompt, Completion
from r2med_ray.corpus.catalog import fetch_published, resolve_tasks
from r2med_ray.corpus.convert import convert_documents, load_corpus
from r2med_ray.corpus.loading import load_task
from r2med_ray.corpus.text_survey import with_copies
from r2med_ray.demands import Ask, Demand, Find, Read, Steps
from r2med_ray.errors import ConfigError, NotAtHand
from r2med_ray.evaluation.measures import Measure
from r2med_ray.first_stage import FirstStage
from r2med_ray.first_stages.common import Defaults
from r2med_ray.models.catalog.rerankers import RerankerRow
from r2med_ray.pipeline import Ranked, rank
from r2med_ray.reranking.heads import head_ids, rerank
from r2med_ray.reranking.pair_reranking import PairReranker
from r2med_ray.retrieval.approximate_search import checked
from r2med_ray.settings.config_files import parse_config
from r2med_ray.settings.resources import ClusterConfig, ResourcesConfig
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.systems import Names, ResolvedSystem
from r2med_ray.types import Document, Qrels, Query, Run, Task
from r2med_ray.workbench.driver import Driver
from r2med_ray.workbench.fastest import Dtypes, find_fastest
from r2med_ray.workbench.measuring import EvaluationWithTies, measure_with_ties
from r2med_ray.workbench.own_data import Texts, own_documents, own_qrels, own_queries, own_task
from r2med_ray.workbench.parts import Ended, Part
from r2med_ray.workbench.runner import Runner
from r2med_ray.workbench.worklog import Worklog

T = TypeVar("T")


class Workbench:
    """Answers questions over corpora with the models of a catalogue.

    Args:
        store: where everything that is made is kept.
        runner: does the work.
        names: what models and methods are called.
        worklog: the record of what the runner does.
        resources: how corpora are cut.
    """

    def __init__(
        self, store: ArtifactStore, runner: Runner, names: Names, worklog: Worklog, resources: ResourcesConfig
    ) -> None:
        self.store = store
        self.runner = runner
        self.worklog = worklog
        self._names = names
        self._resources = resources
        self._driver = Driver(store, runner, worklog, fetch_published)
        self.dtypes = Dtypes(runner, partial(find_fastest, store, runner))

    def run(self, parts: Mapping[str, Steps[T]]) -> Iterator[tuple[str, Ended[T] | NotAtHand]]:
        """Lead parts of one's own, see `demands` and `driver.Driver.run`: all of them together, in large batches."""
        return self._driver.run(parts)

    def lead(self, name: str, steps: Steps[T]) -> T:
        """Lead one part of one's own to its end, and return its result.

        Raises:
            NotAtHand: something that it needs is not here.
            R2MedError: it failed.
        """
        [(_, ended)] = self.run({name: steps})
        if isinstance(ended, NotAtHand):
            raise ended
        return ended.result

    def stored(self, name: str, steps: Steps[T]) -> T | None:
        """Return the result of a part that the store answers alone; None for one that work would be needed for."""
        return self._driver.stored(Part(name, steps))

    def task(
        self,
        name: str,
        *,
        documents: Texts | Iterable[Document] | None = None,
        queries: Texts | Iterable[Query] = (),
        qrels: Qrels | None = None,
    ) -> Task:
        """Return a task: one that is known by name, or documents, queries and judgements of one's own.

        Args:
            name: the name of a task of the catalogue if no documents are given; otherwise a name of your choice.
            documents: the corpus; it is stored, and read from the store afterwards.
            queries: the questions.
            qrels: query_id → doc_id → grade; empty where nothing is to be measured.

        Raises:
            ConfigError: there is no name.
            DataError: there are no documents, an id comes twice or is empty, an id or a text is no text, a grade is
                no whole number, or a file of the task is wrong.
            NotAtHand: the files of the task are not on this machine.
        """
        if not name:
            raise ConfigError("a task needs a name")
        size, shards = self._resources.documents_per_shard, self._resources.shards
        if documents is None:
            [source] = resolve_tasks([name])
            return load_task(source, self.store, documents_per_shard=size, shards=shards)
        records = own_documents(documents, name)
        artifact = convert_documents(records, self.store, name=name, documents_per_shard=size, shards=shards)
        corpus = with_copies(self.store, load_corpus(artifact))
        return own_task(name, corpus, records, own_queries(queries, name), own_qrels(qrels or {}, name))

    def first_stage(self, retriever: str | Mapping[str, Any]) -> FirstStage:
        """Look up a retriever, as a benchmark file names it: `bm25`, or `{"model": "bm25", "k1": 1.2}`.

        Raises:
            ConfigError: there is none, or a setting has no meaning for it; gives the nearest valid name.
        """
        return self.system({"retriever": retriever}).first_stages[0]

    def scorer(self, reranker: str) -> RerankerRow:
        """Look up a reranker that scores pairs; see `systems.Names.scorer`."""
        return self._names.scorer(reranker)

    def system(self, system: Mapping[str, Any], *, depth: int = 100) -> ResolvedSystem:
        """Look up a system, written as in a benchmark file; `name` may be left out.

        Raises:
            ConfigError: these are no keys and values of a system, or a name is wrong.
        """
        if not isinstance(system, Mapping):
            raise ConfigError(f"a system is keys and values, such as {{'retriever': 'bm25'}}, got {system!r:.80}")
        values = {"name": "workbench", "tasks": ["any"], "systems": [{"name": "system", **system}], "depth": depth}
        [config] = parse_config(values, source="system").systems
        return self.dtypes.of_system(self._names.system(config, Defaults(depth=depth)))

    def find(
        self,
        task: Task,
        retriever: str | Mapping[str, Any] | FirstStage,
        queries: Texts | Iterable[Query] | None = None,
        *,
        k: int = 100,
        keep: bool = True,
    ) -> Run:
        """Search a task's corpus.

        Where the index is approximate, at most 100 of the queries are searched for exactly, too. The run's
        `approximation` says what was missed, and so does the log: with a warning, unless it is next to nothing.

        Args:
            task: the corpus of this task is searched.
            retriever: see `first_stage`.
            queries: the questions; the task's own where they are left out.
            k: documents per query.
            keep: whether the run is stored.
        """
        first_stage = self.first_stage(retriever) if isinstance(retriever, str | Mapping) else retriever
        asked = task.queries if queries is None else own_queries(queries, task.name)
        demand = Find(task=task, first_stage=first_stage, queries=asked, k=k, keep=keep)
        return self.lead(f"search of {task.name}", checked(demand))

    def ask(self, model: str, prompts: Sequence[str], *, seed: int = 42) -> list[Completion | None]:
        """Have a language model of the catalogue answer prompts, in their order; None where one is too long for it.

        Raises:
            ConfigError: there is no such model.
            NotAtHand: it needs a cluster, vLLM or a key that is not here.
            StageError: it failed for good; names the prompts by their number.
        """
        row = self._names.catalog.language_models[model]
        asked = [
            ChatPrompt(unit=f"prompt {number}", messages=({"role": "user", "content": text},), seed=seed)
            for number, text in enumerate(prompts)
        ]
        demand = Ask(model=row, prompts=tuple(asked))
        texts: list[Completion | None] = self.lead(f"prompts for {model}", _answer(demand))
        return texts

    def score(
        self, reranker: str, task: Task, run: Run, queries: Texts | Iterable[Query] | None = None, *, depth: int = 100
    ) -> Run:
        """Have a scorer of the catalogue order the first documents of every ranking; the others stay below.

        Args:
            reranker: name of its row.
            task: has the documents' texts.
            run: the rankings that are ordered.
            queries: exactly those that the run answers. Where they are left out, the task's own; those that the run
                lacks, as a run that is read from a file lacks queries without a hit, have an empty ranking.
            depth: how many documents of each ranking are scored.

        Raises:
            ConfigError: there is no such reranker, or it is a language model that reads several documents at once:
                rank a system with it.
        """
        scorer = PairReranker(self.scorer(reranker))
        if queries is None:
            asked = task.queries
            run = Run(tag=run.tag, rankings={**{query.query_id: () for query in asked}, **run.rankings})
        else:
            asked = own_queries(queries, task.name)
        return self.lead(f"scores of {reranker}", _score(scorer, task, run, asked, depth))

    def rank(self, task: Task, system: Mapping[str, Any] | ResolvedSystem, *, depth: int = 100) -> Ranked:
        """Rewrite, search, fuse and rerank: the whole flow of one system.

        Args:
            task: its queries are answered out of its corpus.
            system: see `system`.
            depth: documents per query.
        """
        resolved = system if isinstance(system, ResolvedSystem) else self.system(system, depth=depth)
        return self.lead(f"{resolved.name} on {task.name}", rank(task, resolved, device=self.runner.device))

    def measure(
        self, run: Run, task: Task, measures: str | Sequence[str] = ("nDCG@10", "R@100")
    ) -> EvaluationWithTies:
        """Measure a run against the task's judgements, see `measuring.measure_with_ties`."""
        names = [measures] if isinstance(measures, str) else measures
        return measure_with_ties(self.store, run, task, [Measure.parse(name) for name in names])


@contextmanager
def open_workbench(
    store: str | Path = "store",
    *,
    address: str | None = None,
    models: str | Path | None = None,
    names: Names | None = None,
    resources: ResourcesConfig | None = None,
    name: str = "workbench",
    ask_for_models: bool = False,
    only_to_plan: bool = False,
    cluster: ClusterConfig | None = None,
) -> Iterator[Workbench]:
    """Open a workbench for the length of a `with` block.

    Args:
        store: folder or URI of the artefacts.
        address: None works in this process, serially and without Ray. `local` starts a cluster on this machine, an
            address joins one; see `distributed.session.connect`.
        models: a YAML file with models, methods and kinds of one's own.
        names: takes the place of `models` if such a file was read already.
        resources: what each stage may reserve; the defaults of a benchmark file if they are left out.
        name: is part of the names of the applications that it serves.
        ask_for_models: whether each model is checked before it has to work, so that a part that can't have it ends
            alone. Without that, a worker finds out what a model lacks, which ends all parts.
        only_to_plan: whether nothing will have to work; then no cluster is started, and nothing is measured.
        cluster: what a cluster that grows can become. If left out, the cluster may say so itself
            (`distributed.ceilings`); if it doesn't, work is sized by the nodes that are there.

    Raises:
        CapacityError: a stage asks for more than the cluster has.
        ConfigError: the file is wrong, or there is no cluster at the address.
        StoreError: the store is in a bucket that is not there or can't be reached.
    """
    resources = resources or ResourcesConfig()
    names = names or Names.load(Path(models) if models else None)
    kept, worklog = ArtifactStore(str(store)), Worklog()
    kept.place.require_bucket()
    if address is None:
        from r2med_ray.workbench.local_runner import LocalRunner

        with told():
            local = LocalRunner(names.catalog, kept, resources, worklog)
            local.measures = not only_to_plan
            yield Workbench(kept, local, names, worklog, resources)
        return
    from r2med_ray.distributed.growing import given_back
    from r2med_ray.distributed.session import connect
    from r2med_ray.workbench.on_cluster import ClusterRunner

    with connect(address, only_to_plan=only_to_plan, cluster=cluster) as capacity, given_back(capacity), told():
        runner = ClusterRunner(name, names.catalog, kept, resources, capacity, worklog, ask_for_models=ask_for_models)
        runner.measures = not only_to_plan
        yield Workbench(kept, runner, names, worklog, resources)


def _answer(demand: Demand) -> Steps[Any]:
    """Yield one demand, and return its answer."""
    answer = yield demand
    return answer


def _score(reranker: PairReranker, task: Task, run: Run, queries: Sequence[Query], depth: int) -> Steps[Run]:
    documents = yield Read(task=task, doc_ids=head_ids(run, depth))
    reranked, _ = yield from rerank(run, reranker, queries, documents, depth=depth, tag=run.tag)
    return reranked
