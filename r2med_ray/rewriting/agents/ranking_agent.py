"""An agent whose answer is the ranking: a model searches by calls of tools, and names relevant passages in the end.

If a limit ends a conversation, the ranking is the fusion by reciprocal rank of all that its searches found. A query
whose searches found nothing has no ranking, and the system searches for the query as it is. Ids that the model
invents or repeats are dropped, and counted in the transcript.

The transcript is kept as an artefact, and so is every single text.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import chain, zip_longest

from r2med_ray.chat import LanguageModel
from r2med_ray.cuts import SideCuts
from r2med_ray.demands import Steps
from r2med_ray.errors import ConfigError
from r2med_ray.first_stage import FirstStage
from r2med_ray.rewriting.agents.conversations import cuts_in_words, words_shown
from r2med_ray.rewriting.agents.search_agents import KIND
from r2med_ray.rewriting.agents.tool_transcripts import ToolTranscript, read_tool_transcript
from r2med_ray.rewriting.agents.tool_turns import ToolLeader
from r2med_ray.rewriting.agents.tools import tools
from r2med_ray.rewriting.agents.transcripts import asked_inputs
from r2med_ray.rewriting.expanding import require_few
from r2med_ray.settings.rewriter import RewriterConfig
from r2med_ray.settings.templates import Template
from r2med_ray.storage.keys import ArtifactKey, Json
from r2med_ray.types import Query, QueryId, Rewriting, Task

VERSION = 1
"""Version of the rules by which a conversation is led. The version is part of a transcript's key."""


class RankingAgent:
    """Ranks documents for queries by the answers of a model.

    Args:
        config: limits, and how many queries may be left without a ranking.
        task: the task whose queries are answered and whose corpus is searched.
        model: the language model. Its service has to know OpenAI's `tools`.
        tool: the first stage that the model searches with.
        tool_inputs: everything that changes what the tool finds, for artefact keys.
        start: the first message, with the place `query`.
        system: name of the system, for errors.

    Raises:
        ConfigError: the settings don't fit an agent.
    """

    def __init__(
        self,
        config: RewriterConfig,
        *,
        task: Task,
        model: LanguageModel,
        tool: FirstStage,
        tool_inputs: Mapping[str, Json],
        start: Template,
        system: str,
    ) -> None:
        if config.agent is None:
            raise ConfigError(f"rewriter {config.method}: an agent needs `agent: {{retriever: bm25}}`")
        if config.candidates is not None or config.samples > 1:
            raise ConfigError(
                f"rewriter {config.method}: leave out `candidates` and `samples`: it searches by itself"
            )
        self.config = config
        self._limits = config.agent
        self._model = model
        self._tool_inputs = tool_inputs
        self._start = start
        self._name = f"{system} on {task.name}"
        self._leader = ToolLeader(task, tool, model, start, config.agent, config.seed)

    @cached_property
    def _inputs(self) -> dict[str, Json]:
        """Everything that changes a conversation, for artefact keys. Texts have keys of their own, so that another
        limit asks for no text again."""
        return {
            "method": "retrieval-agent",
            "generator": dict(self._model.generation_inputs()),
            "tool": dict(self._tool_inputs),
            "tools": [*tools(self._limits.depth)],
            "prompts": [self._start.digest],
            "limits": self._limits.model_dump(mode="json", exclude={"retriever"}),
            "seed": self.config.seed,
            "rules": VERSION,
        }

    def key(self, query: Query) -> ArtifactKey:
        """Return the key of a query's transcript. Queries with the same text and the same exclusions share one."""
        return ArtifactKey(
            KIND, {**self._inputs, **asked_inputs(query.text, self._leader.excluded(query))}, is_text=True
        )

    def rewrite(self, queries: Sequence[Query]) -> Steps[Rewriting]:
        """Lead the conversations that are not stored yet, and return the queries with the lists of their rankings.

        Raises:
            DataError: too many queries have no ranking.
        """
        keys = {query.query_id: self.key(query) for query in queries}
        return self._ranked(queries, (yield from self._leader.transcripts(queries, keys, read_tool_transcript)))

    def _ranked(self, queries: Sequence[Query], transcripts: Mapping[QueryId, ToolTranscript]) -> Rewriting:
        flagged: defaultdict[str, list[QueryId]] = defaultdict(list)
        for query_id, transcript in transcripts.items():
            for flag in transcript.flags():
                flagged[flag].append(query_id)
        ranked = {query_id: item.lists for query_id, item in transcripts.items() if item.lists}
        rewriting = Rewriting(
            queries=tuple(queries),
            flagged={reason: tuple(query_ids) for reason, query_ids in flagged.items()},
            unchanged=tuple(query.query_id for query in queries if query.query_id not in ranked),
            cuts=self._cuts(queries, transcripts),
            ranked=ranked,
        )
        require_few(rewriting, self.config, self._name)
        return rewriting

    def _cuts(self, queries: Sequence[Query], transcripts: Mapping[QueryId, ToolTranscript]) -> SideCuts:
        """Return what is cut off queries and passages, in words. A passage counts once for each search."""
        words: list[int] = []
        shown: list[int] = []
        for turn, following in chain.from_iterable(
            zip_longest(item.turns, item.turns[1:]) for item in transcripts.values()
        ):
            for call in turn.calls:
                words += call.words
                is_brief = following is not None and following.shortened
                shown += words_shown(call.words, self._limits.words, is_brief=is_brief)
        return cuts_in_words(queries, words, shown, self._limits.words)
