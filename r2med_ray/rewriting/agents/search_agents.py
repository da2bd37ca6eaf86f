"""Search agents: a language model that asks for passages while it reasons, and writes an answer in the end.

    reason → request → search → (condense) → reason → ... → answer

`search-o1` has what was found condensed before it goes on (Li et al. 2025, arXiv 2501.05366), `search-r1` reads it as
it is (Jin et al. 2025, arXiv 2503.09516). All questions take each turn together, those of several tasks as well (see
`taking_turns`), so a server sees one batch per turn. A request that can't be carried out is answered with what is
wrong, and counted.

The transcript is an artefact, and so is every single text (see `generations.StoredGenerator`): a job that was killed
goes on behind the last turn that was answered. Its time is what its own texts took, each from its request on: waiting
for the turns of others doesn't count. One that its time limit ended goes on under a longer one.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TypeAlias

from r2med_ray.errors import ConfigError
from r2med_ray.protocols import ChatPrompt, Completion, Message, TextGenerator
from r2med_ray.rewriting.agents.conversations import NO_MORE, Conversations, brief, message
from r2med_ray.rewriting.agents.formats import AGENTS
from r2med_ray.rewriting.agents.taking_turns import Answers, Steps, take_turns
from r2med_ray.rewriting.agents.transcripts import REASONS, Transcript, Turn, keep_transcript, read_transcript
from r2med_ray.rewriting.answers import FORMATS, AnswerFormat, joined, read_answer
from r2med_ray.rewriting.expanding import expand
from r2med_ray.settings.config import RewriterConfig, SearchAgentConfig
from r2med_ray.settings.templates import Template
from r2med_ray.storage.artifacts import ArtifactKey, ArtifactStore, Json, fingerprint
from r2med_ray.types import Compat, DocId, Query, Rewriting

FoundPassage: TypeAlias = tuple[DocId, str]
Search: TypeAlias = Callable[[Sequence[str]], Sequence[Sequence[FoundPassage]]]
"""Returns what a retriever finds for each request, best first, ids with texts."""

START_PLACES = ("query",)
CONDENSE_PLACES = ("query", "reasoning", "request", "passages")

KIND = "transcript"
VERSION = 3
"""Of the rules by which a conversation is led; part of its key."""

NEITHER = "That was neither an answer nor a request. Write what to look for between {start} and {end}, or answer."
EMPTY = "The request was empty. Write what to look for between {start} and {end}."
TOO_LONG = "The request has {words} words; at most {most} are possible. Ask for one thing at a time."
MOST_WORDS = 64
"""Of a request; more is a passage, not a question for it."""


class SearchAgent:
    """Rewrites queries with what an agent answers; fulfils `protocols.QueryRewriter`.

    Args:
        config: method, limits and what happens to unusable answers.
        generator: the language model.
        search: its tool.
        tool: everything that changes what the tool finds, for artefact keys.
        start: the first message, with `START_PLACES`.
        condense: what a condensing agent is asked about the passages, with `CONDENSE_PLACES`.
        store: keeps the transcripts.
        answer_format: how the model's reasoning and answer are told apart; a name of `answers.FORMATS`.
        in_place: whether the model goes on within its own message, as Search-R1 was trained to, rather than be
            answered by another, as long as its thoughts are open or stay (`AnswerFormat.thoughts_stay`); only some
            servers can do that (vLLM's `continue_final_message`).
        compat: how answers are cut out of the raw text.
        name: what errors call it; no two agents that are led together have the same one.

    Raises:
        ConfigError: the method is no agent, or the format is unknown.
    """

    def __init__(
        self,
        config: RewriterConfig,
        generator: TextGenerator,
        search: Search,
        *,
        tool: Mapping[str, Json],
        start: Template,
        condense: Template,
        store: ArtifactStore,
        answer_format: str,
        in_place: bool = False,
        compat: Compat = "none",
        name: str = "agent",
    ) -> None:
        if config.agent is None:
            raise ConfigError(f"rewriter {config.method}: a search agent needs `agent: {{retriever: bm25}}`")
        self.config = config
        self._limits: SearchAgentConfig = config.agent
        self._form = AGENTS[config.method]
        self.generator = generator
        self._search = search
        self._tool = tool
        self._start = start
        self._condense = condense
        self._store = store
        self._answers: AnswerFormat = FORMATS[answer_format]
        self._talk = Conversations(agent=self._form, model=self._answers, in_place=in_place)
        self._compat: Compat = compat
        self.name = name

    def inputs(self) -> dict[str, Json]:
        """Return everything that changes an answer, for artefact keys."""
        return {
            "method": self.config.method,
            "generator": dict(self.generator.inputs()),
            "tool": dict(self._tool),
            "prompts": [self._start.digest, self._condense.digest],
            "limits": self._limits.model_dump(mode="json", exclude={"retriever", "max_seconds"}),
            "seed": self.config.seed,
            "conversation": self._talk.inputs(),
            "rules": VERSION,
        }

    @property
    def max_seconds(self) -> float:
        """How long a conversation may take."""
        return self._limits.max_seconds

    def key(self, query: Query) -> ArtifactKey:
        """Return the key of a query's transcript."""
        return ArtifactKey(KIND, {**self.inputs(), "query": fingerprint(query.text)})

    def unfinished(self, queries: Sequence[Query]) -> int:
        """Return how many conversations are yet to be led."""
        return len(self.open(queries))

    def open(self, queries: Sequence[Query]) -> list[Query]:
        """Return the queries whose conversations are yet to be led."""
        return [query for query in queries if self._stored(query) is None]

    def rewrite(self, queries: Sequence[Query]) -> Rewriting:
        """Lead the conversations that are not stored yet, and fill in their answers.

        Raises:
            StageError: the model failed for good; names the queries. What was answered until then is kept.
            DataError: too many answers are unusable.
        """
        stored = {query.query_id: self._stored(query) for query in queries}
        missing = [query for query in queries if stored[query.query_id] is None]
        take_turns({self.name: self.lead(missing)}, self.generator)
        transcripts = {
            query.query_id: stored[query.query_id] or read_transcript(self._store.get(self.key(query)))
            for query in queries
        }
        answers = {query_id: [self._talk.answer(item, self._compat)] for query_id, item in transcripts.items()}
        noted = {
            reason: [query_id for query_id, item in transcripts.items() if item.has(reason)] for reason in REASONS
        }
        return expand(
            queries,
            answers,
            self.config,
            method=self.config.method,
            reasoning=self._answers.reasoning,
            compat=self._compat,
            noted=noted,
            task=self.name,
        )

    def _stored(self, query: Query) -> Transcript | None:
        """Return a conversation that was led to its end, which a time limit below today's isn't."""
        artifact = self._store.find(self.key(query))
        if artifact is None:
            return None
        transcript = read_transcript(artifact)
        cut_earlier = transcript.ended == "time limit" and transcript.max_seconds < self.max_seconds
        return None if cut_earlier else transcript

    def lead(self, queries: Sequence[Query]) -> Steps:
        """Lead conversations to their end, and keep each as soon as it has ended; see `taking_turns`."""
        active = [(query, Transcript(query_id=query.query_id, max_seconds=self.max_seconds)) for query in queries]
        while active:
            completions = yield [self._prompt(query, transcript) for query, transcript in active]
            for (_, transcript), completion in zip(active, completions, strict=True):
                if completion is None:
                    transcript.ended = "context limit"
                else:
                    self._note(transcript, completion)
            yield from self._carry_out([(query, item) for query, item in active if item.ended is None])
            for query, transcript in active:
                if transcript.ended is not None:
                    keep_transcript(self._store, self.key(query), transcript)
            active = [(query, item) for query, item in active if item.ended is None]

    def _note(self, transcript: Transcript, completion: Completion) -> None:
        """Write down what the model wrote, and whether it is to go on."""
        turn, asked = self._talk.next_turn(transcript.turns, completion)
        out_of_turns = transcript.requests >= self._limits.max_turns
        transcript.turns.append(turn)
        turn.problem = not asked and turn.finish_reason == "stop" and not self._talk.answer(transcript).text
        if not asked and not turn.problem:
            transcript.ended = "answered"
        elif turn.shortened:
            transcript.ended = "context limit"
        elif out_of_turns:
            transcript.ended = "turn limit"
        elif transcript.tokens >= self._limits.max_tokens:
            transcript.ended = "token limit"
        elif transcript.seconds >= transcript.max_seconds:
            transcript.ended = "time limit"
        elif asked:
            turn.text, turn.request = asked

    def _carry_out(self, asked: Sequence[tuple[Query, Transcript]]) -> Steps:
        """Search for all requests of a turn at once; a request that can't be carried out is answered with why."""
        for _, transcript in asked:
            turn = transcript.turns[-1]
            turn.shown = self._problem(turn)
            turn.problem = turn.shown is not None
        sound = [(query, item) for query, item in asked if not item.turns[-1].problem]
        found = self._search([item.turns[-1].request or "" for _, item in sound]) if sound else []
        passages = ["\n".join(f"[{i}] {self._cut(text)}" for i, (_, text) in enumerate(hits, 1)) for hits in found]
        shown = (yield from self._condensed(sound, passages)) if sound and self._form.condenses else passages
        for (_, transcript), hits, text in zip(sound, found, shown, strict=True):
            turn = transcript.turns[-1]
            turn.found = [doc_id for doc_id, _ in hits]
            turn.shown = text or "Nothing was found."
            if transcript.requests >= self._limits.max_turns:
                turn.shown = f"{turn.shown}\n{NO_MORE}"

    def _problem(self, turn: Turn) -> str | None:
        marks = {"start": self._form.request_start, "end": self._form.request_end}
        words = len((turn.request or "").split())
        if turn.request is None:
            return NEITHER.format(**marks)
        if not words:
            return EMPTY.format(**marks)
        return TOO_LONG.format(words=words, most=MOST_WORDS) if words > MOST_WORDS else None

    def _condensed(
        self, asked: Sequence[tuple[Query, Transcript]], passages: Sequence[str]
    ) -> Generator[list[ChatPrompt], Answers, list[str]]:
        """Return what the model says of the passages of each request; "" where its conversation ends over that."""
        prompts = []
        for (query, transcript), text in zip(asked, passages, strict=True):
            last = transcript.turns[-1]
            whole, shorter = (
                self._condense.fill(
                    query=query.text,
                    reasoning="".join(turn.text for turn in turns),
                    request=last.request or "",
                    passages=text,
                )
                for turns in (transcript.turns, [last])
            )
            unit = f"query {query.query_id!r}, condensing search {transcript.requests}"
            prompts.append(self._chat_prompt(unit, [message("user", whole)], [message("user", shorter)]))
        completions = yield prompts
        for (_, transcript), completion in zip(asked, completions, strict=True):
            if completion is None:
                transcript.ended = "context limit"
            else:
                transcript.turns[-1].seconds += completion.seconds
        return [self._condensation(completion) if completion else "" for completion in completions]

    def _condensation(self, completion: Completion) -> str:
        raw = joined(completion.reasoning, completion.text, self._answers)
        return read_answer(raw, self._answers, finish_reason=completion.finish_reason).text

    def _prompt(self, query: Query, transcript: Transcript) -> ChatPrompt:
        first = message("user", self._start.fill(query=query.text))
        turns = transcript.turns
        return self._chat_prompt(
            f"query {query.query_id!r}, turn {len(turns) + 1}",
            [first, *self._talk.messages(turns)],
            [first, *self._talk.messages(brief(turns))],
            stop=(self._form.request_end,),
        )

    def _chat_prompt(
        self, unit: str, messages: Sequence[Message], shorter: Sequence[Message], *, stop: tuple[str, ...] = ()
    ) -> ChatPrompt:
        versions = () if shorter == messages else (tuple(shorter),)
        return ChatPrompt(unit=unit, messages=tuple(messages), seed=self.config.seed, stop=stop, shorter=versions)

    def _cut(self, text: str) -> str:
        return " ".join(text.split()[: self._limits.words])
