"""Search agents: a language model asks for passages while it reasons, and writes an answer in the end.

`search-o1` condenses the passages before it goes on (Li et al. 2025, arXiv 2501.05366). `search-r1` reads the
passages as they are (Jin et al. 2025, arXiv 2503.09516). The loop is in `leading`.

The transcript of a conversation is kept as an artefact, and so is every single text. So a job that was killed goes on
after the last turn that was answered. A conversation that its time limit ended is led on under a longer limit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, pairwise

from r2med_ray.chat import LanguageModel
from r2med_ray.cuts import SideCuts
from r2med_ray.demands import Steps
from r2med_ray.errors import ConfigError
from r2med_ray.first_stage import FirstStage
from r2med_ray.rewriting.agents.condensing import Condenser
from r2med_ray.rewriting.agents.conversations import Conversations, cuts_in_words, words_shown
from r2med_ray.rewriting.agents.formats import AGENTS
from r2med_ray.rewriting.agents.leading import Leader
from r2med_ray.rewriting.agents.requests import Requests
from r2med_ray.rewriting.agents.transcripts import REASONS, Transcript, asked_inputs, read_transcript
from r2med_ray.rewriting.answers import FORMATS
from r2med_ray.rewriting.expanding import expand
from r2med_ray.rewriting.methods import Method, spelled
from r2med_ray.settings.compat import Rules
from r2med_ray.settings.rewriter import RewriterConfig
from r2med_ray.settings.templates import Template
from r2med_ray.storage.artifact import Artifact
from r2med_ray.storage.keys import ArtifactKey, Json
from r2med_ray.types import Query, Rewriting, Task

START_PLACES = ("query",)
CONDENSE_PLACES = ("query", "reasoning", "request", "passages")

KIND = "transcript"
VERSION = 5
"""Version of the rules by which a conversation is led. The version is part of a transcript's key."""


class SearchAgent:
    """Rewrites queries with the answers of an agent.

    Args:
        config: method, limits and what happens to unusable answers.
        task: the task whose queries are rewritten and whose corpus is searched.
        method: how the answers are used.
        model: the language model.
        tool: the first stage that the model searches with.
        tool_inputs: everything that changes what the tool finds, for artefact keys.
        start: the first message, with `START_PLACES`.
        condense: the prompt by which a condensing agent condenses passages, with `CONDENSE_PLACES`.
        in_place: whether the model goes on within its own message, as Search-R1 was trained to do; see
            `Conversations`. Only some servers can do this (vLLM's `continue_final_message`).
        rules: which side of each difference is used.
        system: name of the system, for errors.

    Raises:
        ConfigError: the method is no agent, the settings don't fit an agent, or the model's answer format is unknown.
    """

    def __init__(
        self,
        config: RewriterConfig,
        *,
        task: Task,
        method: Method,
        model: LanguageModel,
        tool: FirstStage,
        tool_inputs: Mapping[str, Json],
        start: Template,
        condense: Template,
        in_place: bool,
        rules: Rules,
        system: str,
    ) -> None:
        if config.agent is None:
            raise ConfigError(f"rewriter {config.method}: a search agent needs `agent: {{retriever: bm25}}`")
        if config.candidates is not None:
            raise ConfigError(f"rewriter {config.method}: leave out `candidates`: a search agent searches by itself")
        self.config = config
        self.name = f"{system} on {task.name}"
        self._method = spelled(config.method)
        self._row = method
        self._model = model
        self._tool_inputs = tool_inputs
        self._prompts = (start, condense)
        self._limits = config.agent
        self._rules = rules
        form, self._answers = AGENTS[self._method], FORMATS[model.answer_format]
        self._talk = Conversations(agent=form, model=self._answers, in_place=in_place)
        condenser = Condenser(model, self._answers, condense, config.seed) if form.condenses else None
        requests = Requests(task, tool, form, self._limits, condenser)
        self._leader = Leader(model, self._talk, start, requests, self._limits, config.seed)

    @cached_property
    def _inputs(self) -> dict[str, Json]:
        """Everything that changes a conversation, for artefact keys."""
        return {
            "method": self._method,
            "generator": dict(self._model.generation_inputs()),
            "tool": dict(self._tool_inputs),
            "prompts": [prompt.digest for prompt in self._prompts],
            "limits": self._limits.model_dump(mode="json", exclude={"retriever", "max_seconds"}),
            "seed": self.config.seed,
            "conversation": self._talk.inputs(),
            "rules": VERSION,
        }

    def key(self, query: Query) -> ArtifactKey:
        """Return the key of a query's transcript. Queries with the same text and the same exclusions share one."""
        return ArtifactKey(KIND, {**self._inputs, **asked_inputs(query.text, query.excluded)}, is_text=True)

    def rewrite(self, queries: Sequence[Query]) -> Steps[Rewriting]:
        """Lead the conversations that are not stored yet, and return the queries with the answers as expansions.

        Raises:
            DataError: too many answers are unusable.
        """
        keys = {query.query_id: self.key(query) for query in queries}
        return self._expanded(queries, (yield from self._leader.transcripts(queries, keys, self._recalled)))

    def _expanded(self, queries: Sequence[Query], transcripts: Mapping[str, Transcript]) -> Rewriting:
        answers = {query_id: [self._talk.answer(item, self._rules)] for query_id, item in transcripts.items()}
        noted = {
            reason: [query_id for query_id, item in transcripts.items() if item.has(reason)] for reason in REASONS
        }
        rewriting = expand(
            queries,
            answers,
            self.config,
            method=self._row.expansion_method or self._method,
            use=self._row.use,
            reasoning=self._answers.reasoning,
            rules=self._rules,
            noted=noted,
            task=self.name,
        )
        return replace(rewriting, cuts=self._cuts(queries, transcripts))

    def _cuts(self, queries: Sequence[Query], transcripts: Mapping[str, Transcript]) -> SideCuts | None:
        """Return what is cut off queries and passages, in words; None if a conversation from before doesn't say it.

        A passage counts once for each request that found it, if the conversation goes on after it.
        """
        words: list[int] = []
        shown: list[int] = []
        for turn, following in chain.from_iterable(pairwise(item.turns) for item in transcripts.values()):
            if len(turn.words) < len(turn.found):
                return None
            is_brief = following.shortened and not self._talk.agent.condenses
            words += turn.words
            shown += words_shown(turn.words, self._limits.words, is_brief=is_brief)
        return cuts_in_words(queries, words, shown, self._limits.words)

    def _recalled(self, artifact: Artifact) -> Transcript | None:
        """Return a stored conversation as it ends under the present time limit.

        A conversation that a time limit below the present one ended doesn't count as stored: None.
        """
        transcript = read_transcript(artifact)
        cut_earlier = transcript.ended == "time limit" and transcript.max_seconds < self._limits.max_seconds
        return None if cut_earlier else transcript.under(self._limits.max_seconds)
