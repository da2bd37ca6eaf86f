"""Search agents: a language model that asks for passages while it reasons, and writes an answer in the end.

    reason → request → search → (condense) → reason → ... → answer

`search-o1` has what was found condensed before it goes on (Li et al. 2025, arXiv 2501.05366), `search-r1` reads it as
it is (Jin et al. 2025, arXiv 2503.09516). All questions of a task take each turn together, so a server sees one batch
per turn. A request that can't be carried out is answered with what is wrong, and counted.

The transcript is an artefact, and so is every single text (see `generations.StoredGenerator`): a job that was killed
goes on behind the last turn that was answered.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from r2med_ray.artifacts import ArtifactKey, ArtifactStore, Json, fingerprint
from r2med_ray.config import RewriterConfig, SearchAgentConfig
from r2med_ray.errors import ConfigError
from r2med_ray.protocols import ChatPrompt, Completion, Message, TextGenerator
from r2med_ray.registry import Registry
from r2med_ray.rewriting.answers import FORMATS, Answer, AnswerFormat, joined, read_answer
from r2med_ray.rewriting.expanding import expand
from r2med_ray.rewriting.transcripts import MALFORMED, Transcript, Turn, keep_transcript, stored_transcript
from r2med_ray.templates import Template
from r2med_ray.types import Compat, DocId, Query, Rewriting

FoundPassage: TypeAlias = tuple[DocId, str]
Search: TypeAlias = Callable[[Sequence[str]], Sequence[Sequence[FoundPassage]]]
"""Returns what a retriever finds for each request, best first, ids with texts."""

START_PLACES = ("query",)
CONDENSE_PLACES = ("query", "reasoning", "request", "passages")

KIND = "transcript"
NO_MORE = "No more searches are possible. Answer with what you know."
NEITHER = "That was neither an answer nor a request. Write what to look for between {start} and {end}, or answer."
EMPTY = "The request was empty. Write what to look for between {start} and {end}."
TOO_LONG = "The request has {words} words; at most {most} are possible. Ask for one thing at a time."
MOST_WORDS = 64
"""Of a request; more is a passage, not a question for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFormat:
    """How a family of agents marks its requests and is shown what was found."""

    request_start: str
    request_end: str
    result_start: str
    result_end: str
    condenses: bool


AGENTS: Registry[AgentFormat] = Registry(
    "search agent",
    [
        (
            "search-o1",
            AgentFormat(
                request_start="<|begin_search_query|>",
                request_end="<|end_search_query|>",
                result_start="<|begin_search_result|>",
                result_end="<|end_search_result|>",
                condenses=True,
            ),
        ),
        (
            "search-r1",
            AgentFormat(
                request_start="<search>",
                request_end="</search>",
                result_start="<information>",
                result_end="</information>",
                condenses=False,
            ),
        ),
    ],
)


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
            answered by another; only some servers can do that (vLLM's `continue_final_message`).
        compat: how answers are cut out of the raw text.
        clock: seconds, for the time limit.

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
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if config.agent is None:
            raise ConfigError(f"rewriter {config.method}: a search agent needs `agent: {{retriever: bm25}}`")
        self.config = config
        self._limits: SearchAgentConfig = config.agent
        self._form = AGENTS[config.method]
        self._generator = generator
        self._search = search
        self._tool = tool
        self._start = start
        self._condense = condense
        self._store = store
        self._answers: AnswerFormat = FORMATS[answer_format]
        self._in_place = in_place
        self._compat: Compat = compat
        self._clock = clock

    def inputs(self) -> dict[str, Json]:
        """Return everything that changes an answer, for artefact keys."""
        return {
            "method": self.config.method,
            "generator": dict(self._generator.inputs()),
            "tool": dict(self._tool),
            "prompts": [self._start.digest, self._condense.digest],
            "limits": self._limits.model_dump(mode="json", exclude={"retriever", "max_seconds"}),
            "seed": self.config.seed,
            "in_place": self._in_place,
        }

    def unfinished(self, queries: Sequence[Query]) -> int:
        """Return how many conversations are yet to be led."""
        return sum(self._store.find(self._key(query)) is None for query in queries)

    def rewrite(self, queries: Sequence[Query]) -> Rewriting:
        """Lead the conversations that are not stored yet, and fill in their answers.

        Raises:
            StageError: the model failed for good; names the queries. What was answered until then is kept.
            DataError: too many answers are unusable.
        """
        missing = [query for query in queries if self._store.find(self._key(query)) is None]
        self._lead(missing)
        transcripts = {query.query_id: stored_transcript(self._store, self._key(query)) for query in queries}
        answers = {query_id: [self._answer(transcript)] for query_id, transcript in transcripts.items()}
        rewriting = expand(
            queries,
            answers,
            self.config,
            method=self.config.method,
            reasoning=self._answers.reasoning,
            compat=self._compat,
        )
        flagged = dict(rewriting.flagged)
        for reason in (MALFORMED, "turn limit", "token limit", "time limit"):
            ids = tuple(query_id for query_id, item in transcripts.items() if item.has(reason))
            if ids:
                flagged[reason] = ids
        return Rewriting(queries=rewriting.queries, flagged=flagged)

    def _lead(self, queries: Sequence[Query]) -> None:
        began = self._clock()
        active = {query.query_id: (query, Transcript(query_id=query.query_id)) for query in queries}
        while active:
            turn = list(active.values())
            completions = self._generator.generate([self._prompt(query, item) for query, item in turn])
            for (_, transcript), completion in zip(turn, completions, strict=True):
                self._note(transcript, completion, late=self._clock() - began > self._limits.max_seconds)
            self._carry_out([(query, item) for query, item in turn if item.ended is None])
            for query, transcript in turn:
                if transcript.ended is not None:
                    keep_transcript(self._store, self._key(query), transcript)
                    del active[query.query_id]

    def _note(self, transcript: Transcript, completion: Completion, *, late: bool) -> None:
        """Write down what the model wrote, and whether it is to go on. What follows a request is made up: cut off."""
        form = self._form
        text = joined(completion.reasoning, completion.text, self._answers)
        written, closed, _ = text.partition(form.request_end)
        before, opened, request = written.rpartition(form.request_start)
        asks = bool(opened) and (bool(closed) or completion.finish_reason == "stop")
        out_of_turns = transcript.requests >= self._limits.max_turns
        turn = Turn(text=text, finish_reason=completion.finish_reason, tokens=completion.completion_tokens or 0)
        transcript.turns.append(turn)
        turn.problem = not asks and completion.finish_reason == "stop" and not self._answer(transcript).text
        if not asks and not turn.problem:
            transcript.ended = "answered"
        elif out_of_turns:
            transcript.ended = "turn limit"
        elif transcript.tokens >= self._limits.max_tokens:
            transcript.ended = "token limit"
        elif late:
            transcript.ended = "time limit"
        elif asks:
            turn.text = f"{before}{opened}{request}{form.request_end}"
            turn.request = request.strip()

    def _carry_out(self, asked: Sequence[tuple[Query, Transcript]]) -> None:
        """Search for all requests of a turn at once; a request that can't be carried out is answered with why."""
        for _, transcript in asked:
            turn = transcript.turns[-1]
            turn.shown = self._problem(turn)
            turn.problem = turn.shown is not None
        sound = [(query, item, item.turns[-1]) for query, item in asked if not item.turns[-1].problem]
        found = self._search([turn.request or "" for _, _, turn in sound]) if sound else []
        passages = ["\n".join(f"[{i}] {self._cut(text)}" for i, (_, text) in enumerate(hits, 1)) for hits in found]
        shown = self._condensed(sound, passages) if self._form.condenses and sound else passages
        for (_, transcript, turn), hits, text in zip(sound, found, shown, strict=True):
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

    def _condensed(self, asked: Sequence[tuple[Query, Transcript, Turn]], passages: Sequence[str]) -> list[str]:
        prompts = [
            ChatPrompt(
                unit=f"query {query.query_id!r}, condensing search {transcript.requests}",
                messages=(
                    {
                        "role": "user",
                        "content": self._condense.fill(
                            query=query.text,
                            reasoning="".join(turn.text for turn in transcript.turns),
                            request=turn.request or "",
                            passages=text,
                        ),
                    },
                ),
                seed=self.config.seed,
            )
            for (query, transcript, turn), text in zip(asked, passages, strict=True)
        ]
        completions = self._generator.generate(prompts)
        return [
            read_answer(
                joined(item.reasoning, item.text, self._answers), self._answers, finish_reason=item.finish_reason
            ).text
            for item in completions
        ]

    def _prompt(self, query: Query, transcript: Transcript) -> ChatPrompt:
        messages: list[Message] = [{"role": "user", "content": self._start.fill(query=query.text)}]
        blocks = [
            (turn.text, f"\n{self._form.result_start}\n{turn.shown}\n{self._form.result_end}\n")
            for turn in transcript.turns
        ]
        if self._in_place and blocks:
            messages.append({"role": "assistant", "content": "".join(text + shown for text, shown in blocks)})
        else:
            for text, shown in blocks:
                messages += [{"role": "assistant", "content": text}, {"role": "user", "content": shown.strip()}]
        return ChatPrompt(
            unit=f"query {query.query_id!r}, turn {len(transcript.turns) + 1}",
            messages=tuple(messages),
            seed=self.config.seed,
            stop=(self._form.request_end,),
        )

    def _answer(self, transcript: Transcript) -> Answer:
        """Cut the answer out of the last turn; a conversation that ended in a request has none."""
        last = transcript.turns[-1]
        raw = "".join(turn.text for turn in transcript.turns) if self._in_place else last.text
        cut_short = transcript.ended not in (None, "answered")
        return read_answer(
            "" if cut_short else raw, self._answers, finish_reason=last.finish_reason, compat=self._compat
        )

    def _cut(self, text: str) -> str:
        return " ".join(text.split()[: self._limits.words])

    def _key(self, query: Query) -> ArtifactKey:
        return ArtifactKey(KIND, {**self.inputs(), "query": fingerprint(query.text)})
