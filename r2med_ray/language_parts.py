"""Whatever asks a language model: rewriters, search agents and rerankers, and the searches that these make."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import resources
from pathlib import Path
from typing import TypeAlias

from r2med_ray.corpus.catalog import fetcher
from r2med_ray.corpus.loading import fetch_documents
from r2med_ray.models.catalog.catalog import Catalog
from r2med_ray.models.catalog.llm_reranker_rows import LlmRerankerRow
from r2med_ray.models.catalog.llm_rows import LanguageModelRow
from r2med_ray.protocols import ChatPrompt, Completion, QueryRewriter, TextGenerator
from r2med_ray.reranking.llm_reranking import PLACES, LlmReranker, LlmReranking
from r2med_ray.reranking.permutations import VERSION
from r2med_ray.retrieval.stored import StoredReranker
from r2med_ray.rewriting.agents.search_agents import CONDENSE_PLACES, START_PLACES, FoundPassage, SearchAgent
from r2med_ray.rewriting.agents.taking_turns import Steps, take_turns
from r2med_ray.rewriting.answers import FORMATS, joined, read_answer
from r2med_ray.rewriting.generations import StoredGenerator
from r2med_ray.rewriting.live import LiveRewriter
from r2med_ray.rewriting.prompts import DEFAULT, load_prompt
from r2med_ray.rewriting.replay import ReplayRewriter
from r2med_ray.serving.language_models import LanguageModels
from r2med_ray.settings.config import RewriterConfig
from r2med_ray.settings.templates import Template, load_template
from r2med_ray.stages.first_stage import FirstStage
from r2med_ray.storage.artifacts import ArtifactStore, Json, fingerprint
from r2med_ray.systems import ResolvedSystem, prompt_task
from r2med_ray.types import DocId, Document, Query, QueryId, Run, Task

Search: TypeAlias = Callable[[Task, FirstStage, Sequence[Query], int], Run]
"""Returns what a first stage finds in a task's corpus, up to a depth."""

RERANK_PROMPTS = Path(str(resources.files("r2med_ray.reranking"))) / "prompts"
REWRITE_PROMPTS = Path(str(resources.files("r2med_ray.rewriting"))) / "prompts"


class LanguageParts:
    """Builds what asks a language model.

    Args:
        catalog: has the models.
        store: keeps what they write.
        models: starts those that are to be served.
        search: answers the searches of LameR and of agents.
        device: what encoders compute on, which is part of what names their answers.
    """

    def __init__(
        self, catalog: Catalog, store: ArtifactStore, models: LanguageModels, search: Search, *, device: str
    ) -> None:
        self._catalog = catalog
        self._store = store
        self._models = models
        self._search = search
        self._device = device

    def rewriter(self, task: Task, system: ResolvedSystem) -> QueryRewriter | None:
        """Return what changes a system's queries.

        Raises:
            ConfigError: a prompt, a generation set or a setting is wrong.
            NotAtHand: the generation set is not here.
        """
        config = system.config.rewriter
        if config is None:
            return None
        row = system.language_model
        if row is None:
            return ReplayRewriter(
                config, folder=task.folder, compat=system.compat, fetch=fetcher(task), task=task.name
            )
        generator = StoredGenerator(self._models.generator(row), self._store, name=row.name)
        if config.agent:
            return self._agent(task, system, config, row, generator)
        return LiveRewriter(
            config,
            generator,
            load_prompt(config.method, prompt_task(task.name), config.prompts),
            answer_format=row.answer_format,
            find_candidates=self._candidates(task, system) if config.candidates else None,
            compat=system.compat,
            task=task.name,
        )

    def write(self, work: Sequence[tuple[Task, QueryRewriter]]) -> int:
        """Have the texts of all rewriters but agents written as one stream per language model.

        Returns:
            How many texts were written.

        Raises:
            StageError: a model failed for good; names the queries. What was written until then is kept.
        """
        streams: dict[str, tuple[StoredGenerator, list[ChatPrompt]]] = {}
        for task, rewriter in work:
            if isinstance(rewriter, LiveRewriter):
                streams.setdefault(_asked(rewriter), (rewriter.generator, []))[1].extend(
                    rewriter.prompts(task.queries)
                )
        missing = [(generator, prompts, generator.unfinished(prompts)) for generator, prompts in streams.values()]
        for generator, prompts, unfinished in missing:
            if unfinished:
                generator.generate(prompts)
        return sum(unfinished for _, _, unfinished in missing)

    def lead(self, work: Sequence[tuple[Task, QueryRewriter]]) -> None:
        """Have all agents lead the conversations that are not stored yet, as one stream per language model.

        A conversation that several agents would lead alike is led once, by the one that gives it the most time.

        Raises:
            StageError: a model failed for good; names the queries. What was answered until then is kept.
        """
        streams: dict[str, tuple[TextGenerator, dict[str, Steps]]] = {}
        led: set[str] = set()
        agents = [(task, rewriter) for task, rewriter in work if isinstance(rewriter, SearchAgent)]
        for task, agent in sorted(agents, key=lambda item: -item[1].max_seconds):
            by_key = {agent.key(query).digest: query for query in agent.open(task.queries)}
            queries = [query for key, query in by_key.items() if key not in led]
            led |= by_key.keys()
            streams.setdefault(_asked(agent), (agent.generator, {}))[1][agent.name] = agent.lead(queries)
        for generator, steps in streams.values():
            take_turns(steps, generator)

    def reranker(self, row: LlmRerankerRow, require: Callable[[LlmRerankerRow], None]) -> StoredReranker:
        """Return a reranker that asks a language model what it hasn't asked it before.

        Args:
            row: the reranker.
            require: called before the model is asked anything; raises `NotAtHand` where it can't be.
        """
        model = self._catalog.language_models[row.language_model]
        asked = _Required(self._models.generator(model), partial(require, row))
        generator = StoredGenerator(asked, self._store, name=model.name)
        shipped = RERANK_PROMPTS / f"{row.strategy}{'-think' if row.think else ''}.txt"
        template = load_template(Path(row.prompt) if row.prompt else shipped, PLACES)
        settings = LlmReranking(**row.settings())
        inputs = {
            "generator": dict(generator.inputs()),
            "prompt": template.digest,
            "rules": VERSION,
            **row.settings(),
        }
        build = partial(LlmReranker, generator, partial(_answer, model.answer_format), template, settings)
        return StoredReranker(self._store, inputs, build, sees_scores=row.show_scores)

    def _agent(
        self,
        task: Task,
        system: ResolvedSystem,
        config: RewriterConfig,
        row: LanguageModelRow,
        generator: StoredGenerator,
    ) -> SearchAgent:
        assert config.agent is not None
        stage = system.tool
        assert stage is not None
        return SearchAgent(
            config,
            generator,
            partial(self._look_up, task, stage, config.agent.depth),
            tool=stage.inputs(task, self._device),
            start=_prompt(config.method, START_PLACES, config.prompts),
            condense=_prompt("condense", CONDENSE_PLACES, config.prompts),
            store=self._store,
            answer_format=row.answer_format,
            in_place=row.kind == "vllm",
            compat=system.compat,
            name=f"{system.name} on {task.name}",
        )

    def _candidates(
        self, task: Task, system: ResolvedSystem
    ) -> Callable[[Sequence[Query]], Mapping[QueryId, Sequence[str]]]:
        config, stage = system.config.rewriter, system.tool
        assert config is not None
        assert config.candidates is not None
        assert stage is not None
        depth = config.candidates.depth

        def find(queries: Sequence[Query]) -> dict[QueryId, list[str]]:
            found = self._find(task, stage, queries, depth)
            return {query.query_id: [text for _, text in hits] for query, hits in zip(queries, found, strict=True)}

        return find

    def _look_up(
        self, task: Task, stage: FirstStage, depth: int, requests: Sequence[str]
    ) -> list[list[FoundPassage]]:
        queries = [Query(query_id=f"request {number}", text=text) for number, text in enumerate(requests)]
        return self._find(task, stage, queries, depth)

    def _find(self, task: Task, stage: FirstStage, queries: Sequence[Query], depth: int) -> list[list[FoundPassage]]:
        run = self._search(task, stage, queries, depth)
        rankings = [run.rankings[query.query_id] for query in queries]
        documents = self._documents(task, {hit.doc_id for ranking in rankings for hit in ranking})
        return [[(hit.doc_id, documents[hit.doc_id].content) for hit in ranking] for ranking in rankings]

    def _documents(self, task: Task, doc_ids: Iterable[DocId]) -> Mapping[DocId, Document]:
        return fetch_documents(self._store, task.corpus, doc_ids)


def _asked(rewriter: LiveRewriter | SearchAgent) -> str:
    """Return what is the same for two rewriters whose prompts go to one server."""
    config = rewriter.config
    return fingerprint([config.llm, config.base_url, dict(rewriter.generator.inputs())])


def _prompt(method: str, places: Sequence[str], folder: str | None) -> Template:
    root = REWRITE_PROMPTS if folder is None else Path(folder).expanduser()
    return load_template(root / method / f"{DEFAULT}.txt", places)


def _answer(answer_format: str, completion: Completion) -> tuple[str, str]:
    """Return an answer, and what is wrong with it; see `retrieval.llm_reranking.Read`."""
    form = FORMATS[answer_format]
    raw = joined(completion.reasoning, completion.text, form)
    answer = read_answer(raw, form, finish_reason=completion.finish_reason)
    return answer.text, "" if answer.flag == "none" else answer.flag


class _Required:
    """A language model that has to be at hand only when it is asked something that isn't stored."""

    def __init__(self, generator: TextGenerator, require: Callable[[], None]) -> None:
        self._generator = generator
        self._require = require

    def inputs(self) -> Mapping[str, Json]:
        return self._generator.inputs()

    def generate(
        self, prompts: Sequence[ChatPrompt], *, keep: Callable[[int, Completion], None] | None = None
    ) -> list[Completion]:
        self._require()
        return self._generator.generate(prompts, keep=keep)
