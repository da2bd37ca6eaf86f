"""What all stages of a round share: the task, its texts, the models, and how a model is asked."""

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

from r2med_ray.chat import ChatPrompt, LanguageModel
from r2med_ray.corpora import Corpus
from r2med_ray.corpus.loading import fetch_documents
from r2med_ray.corpus.shards import held_ids, ids_at
from r2med_ray.demands import Ask, Steps
from r2med_ray.errors import ConfigError
from r2med_ray.first_stage import FirstStage
from r2med_ray.first_stages.common import Defaults
from r2med_ray.negatives.drafts import Draft, seed_of
from r2med_ray.negatives.generation_settings import GenerationConfig
from r2med_ray.negatives.prompt_files import load_prompts
from r2med_ray.protocols import Scorer
from r2med_ray.rewriting.answers import FORMATS, NO_ROOM, read_completion
from r2med_ray.settings.compat import Rules
from r2med_ray.settings.templates import Template
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.systems import Names
from r2med_ray.types import DocId, Document, QueryId, Task, positives_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Tools:
    """The models and prompts of a generation."""

    writer: LanguageModel
    judges: tuple[LanguageModel, ...]
    prompts: Mapping[str, Template]
    anchors: FirstStage
    embedder: FirstStage
    scorer: Scorer | None

    @classmethod
    def of(cls, config: GenerationConfig, names: Names) -> Self:
        """Look up every name of a generation.

        Raises:
            ConfigError: there is no such model, the embedder's scores are no cosines, or a prompt is wrong.
        """
        rules, defaults = Rules.of("none", None), Defaults()
        embedder = names.first_stage(config.filters.embedder, rules, defaults)
        if getattr(embedder.row, "similarity", None) != "cosine":
            raise ConfigError(
                f"filters.embedder: {config.filters.embedder.model!r} gives no cosines; name an encoder whose row "
                "has `similarity: cosine`"
            )
        models = names.catalog.language_models
        return cls(
            writer=models[config.writer],
            judges=tuple(models[name] for name in config.judges),
            prompts=load_prompts(config.prompts),
            anchors=names.first_stage(config.anchors.retriever, rules, defaults),
            embedder=embedder,
            scorer=names.scorer(config.margin.model).under("none") if config.margin else None,
        )


class Said(NamedTuple):
    """What a model answered."""

    text: str
    flag: str
    """What is wrong with it, see `rewriting.answers.Flag`; `none` if nothing is."""

    shortened: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Material:
    """One task, and what its round is made with."""

    task: Task
    config: GenerationConfig
    tools: Tools
    queries: Mapping[QueryId, str]
    """The texts of the task's queries."""

    positives: Mapping[DocId, Document]
    """The documents of all positives that the corpus has."""

    random: Mapping[DocId, Document]
    """Documents of the corpus drawn at random, which judges are tried on."""

    answers: Mapping[QueryId, str]
    """The right answers, for queries of which the task has one."""

    corpus_of: Callable[[Mapping[DocId, str]], Task]
    """Makes a task of texts, so that they can be searched."""

    @classmethod
    def load(
        cls, task: Task, config: GenerationConfig, tools: Tools, store: ArtifactStore, *,
        answers: Mapping[QueryId, str], corpus_of: Callable[[Mapping[DocId, str]], Task],
    ) -> Self:  # fmt: skip
        """Read the positives of a task; those that the corpus lacks are left out."""
        relevant = set[DocId]().union(*map(positives_of, task.qrels.values()))
        return cls(
            task=task,
            config=config,
            tools=tools,
            queries={query.query_id: query.text for query in task.queries},
            positives=fetch_documents(store, task.corpus, held_ids(store, task.corpus, relevant)),
            random=_random_documents(store, task.corpus, config),
            answers=answers,
            corpus_of=corpus_of,
        )

    def query(self, draft: Draft) -> str:
        """Return the text of a draft's query."""
        return self.queries[draft.slot.query_id]

    def positive(self, draft: Draft) -> str:
        """Return the text of the positive that a draft is made from."""
        return self.positives[draft.slot.positive_id].content

    def sources(self, draft: Draft) -> list[str]:
        """Return the texts of all positives of a draft's query."""
        grades = self.task.qrels[draft.slot.query_id]
        return [self.positives[name].content for name in sorted(positives_of(grades)) if name in self.positives]

    def prompt(self, draft: Draft, name: str, *shorter: Mapping[str, str], **values: str) -> ChatPrompt:
        """Return a prompt about a draft.

        Args:
            draft: gives the name of the prompt in errors, and its seed.
            name: which prompt.
            shorter: values that take the place of others in shorter versions.
            values: what is in the prompt's places.
        """
        fill = self.tools.prompts[name].fill
        versions = [({"role": "user", "content": fill(**(values | dict(change)))},) for change in ({}, *shorter)]
        return ChatPrompt(
            unit=f"{draft.name}, {name}",
            messages=versions[0],
            seed=seed_of(draft.seed, name),
            shorter=tuple(versions[1:]),
        )


def _random_documents(store: ArtifactStore, corpus: Corpus, config: GenerationConfig) -> dict[DocId, Document]:
    dice = random.Random(f"{config.seed} {corpus.digest} calibration")
    rows = dice.sample(range(corpus.num_rows), min(config.calibration, corpus.num_rows))
    first = corpus.shards[0].start_row if corpus.shards else 0
    return fetch_documents(store, corpus, ids_at(store, corpus, {first + row for row in rows}).values())


def asked(model: LanguageModel, prompts: Sequence[ChatPrompt]) -> Steps[list[Said]]:
    """Have a model answer prompts, in their order. A text that can't be used is empty, and its flag says why."""
    if not prompts:
        return []
    completions = yield Ask(model=model, prompts=tuple(prompts))
    said = []
    for completion in completions:
        if completion is None:
            said.append(Said("", NO_ROOM))
            continue
        answer = read_completion(completion, FORMATS[model.answer_format])
        said.append(Said(answer.text.strip(), answer.flag, bool(completion.shortened)))
    return said
