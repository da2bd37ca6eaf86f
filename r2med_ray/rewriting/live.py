"""Lets a language model write texts for queries, with or without the results of a first search."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from r2med_ray.chat import ChatPrompt, Completion, LanguageModel
from r2med_ray.cuts import CutCounter, SideCuts
from r2med_ray.demands import Ask, Steps
from r2med_ray.errors import ConfigError, DataError
from r2med_ray.first_stage import FirstStage
from r2med_ray.rewriting.answers import FORMATS, NO_ROOM, Answer, read_completion
from r2med_ray.rewriting.expanding import expand
from r2med_ray.rewriting.methods import Method, spelled
from r2med_ray.rewriting.passages import find_passages
from r2med_ray.rewriting.prompts import numbered
from r2med_ray.rewriting.published_limits import require_one_text
from r2med_ray.settings.compat import Rules
from r2med_ray.settings.rewriter import CandidatesConfig, RewriterConfig
from r2med_ray.settings.templates import Template
from r2med_ray.types import DocId, Query, QueryId, Rewriting, Task

Found: TypeAlias = Mapping[QueryId, Sequence[str]]
"""query_id → the passages that the model is shown, best first."""

Written: TypeAlias = Mapping[QueryId, Sequence[Completion | None]]
"""query_id → what the model wrote, one entry per sample; None if the prompt was too long."""

Seen: TypeAlias = dict[QueryId, set[DocId]]
"""query_id → the documents that the model was shown for the query."""

SHORTENED = "candidates shortened"
NOTHING_NEW = "no new passages"
NONE_YET = "(none yet)"
"""What a prompt says in place of an earlier text before there is one."""

FEWEST_WORDS = 16
"""The fewest words that a candidate is cut to. Fewer words would tell a model nothing."""


class LiveRewriter:
    """Gives every query the texts that a language model writes for it.

    If a text can't be used (see `answers`) or a prompt is too long for the model, the query stays as it was. Such
    queries are flagged, and allowed within the limits of `config`.

    Args:
        config: method, samples, seed and limits.
        task: the task whose queries are rewritten.
        method: how the texts are used.
        model: the language model.
        prompt: the text that the model is told; see `prompts.load_prompt`.
        tool: the first stage whose results the model is shown; None for methods that show none.
        rules: which side of each difference is used.

    Raises:
        ConfigError: the model's answer format is unknown, or the settings don't fit the method.
    """

    def __init__(
        self,
        config: RewriterConfig,
        *,
        task: Task,
        method: Method,
        model: LanguageModel,
        prompt: Template,
        tool: FirstStage | None = None,
        rules: Rules,
    ) -> None:
        self.method = spelled(config.method)
        if method.needs_candidates != (config.candidates is not None):
            needs = "needs" if method.needs_candidates else "has no use for"
            raise ConfigError(f"rewriter {self.method}: it {needs} `candidates: {{retriever: bm25, depth: 10}}`")
        if config.agent is not None:
            raise ConfigError(f"rewriter {self.method}: leave out `agent`: the method does not search by itself")
        require_one_text(self.method, config.samples, rules)
        self.config = config
        self._task = task
        self._row = method
        self._model = model
        self._prompt = prompt
        self._tool = tool
        self._rules = rules
        self._format = FORMATS[model.answer_format]

    def rewrite(self, queries: Sequence[Query], seen: Seen | None = None) -> Steps[Rewriting]:
        """Return the queries with one more expansion per usable sample.

        Args:
            queries: the queries. They are searched for with the expansions that they have.
            seen: what the model was shown before, which is left out and to which is added what it is shown; None if
                that doesn't matter. A query for which nothing new is found gets no text, and is flagged.

        Raises:
            DataError: too many queries have no usable text.
        """
        was_shown = {query_id for query_id, doc_ids in (seen or {}).items() if doc_ids}
        found = yield from self._candidates(queries, seen)
        stale = [query_id for query_id, passages in found.items() if not passages and query_id in was_shown]
        written = yield from self._written([query for query in queries if query.query_id not in stale], found)
        written = {**written, **dict.fromkeys(stale, ())}
        shortened = [
            query_id
            for query_id, completions in written.items()
            if any(completion is not None and completion.shortened for completion in completions)
        ]
        rewriting = expand(
            queries,
            {query_id: [self._answer(item) for item in completions] for query_id, completions in written.items()},
            self.config,
            method=self._row.expansion_method or self.method,
            use=self._row.use,
            reasoning=self._format.reasoning,
            rules=self._rules,
            noted={SHORTENED: shortened, NOTHING_NEW: stale},
            task=self._task.name,
            per_repeat=self._row.per_repeat,
        )
        return replace(rewriting, cuts=self._cuts(queries, found, written))

    def write(self, queries: Sequence[Query]) -> Steps[Written]:
        """Return what the model writes for every query, one entry per sample; None if the prompt was too long."""
        return (yield from self._written(queries, (yield from self._candidates(queries))))

    def prompts(self, queries: Sequence[Query], found: Found) -> list[ChatPrompt]:
        """Return one prompt per query and sample. The samples of a query come one after the other.

        Args:
            queries: the queries that the texts are written for.
            found: query id → the passages that the model is shown, best first; not read if the method shows none.

        Raises:
            DataError: the method shows passages, and a query has no list of passages.
        """
        prompts = []
        for query in queries:
            unit = f"query {query.query_id!r}"
            versions = [({"role": "user", "content": text},) for text in self._versions(query, found)]
            prompts += [
                ChatPrompt(
                    unit=unit + (f", sample {sample}" if self.config.samples > 1 else ""),
                    messages=versions[0],
                    seed=self.config.seed + sample,
                    shorter=tuple(versions[1:]),
                )
                for sample in range(self.config.samples)
            ]
        return prompts

    def _written(self, queries: Sequence[Query], found: Found) -> Steps[Written]:
        completions = yield Ask(model=self._model, prompts=tuple(self.prompts(queries, found)))
        samples = self.config.samples
        return {
            query.query_id: completions[place * samples : (place + 1) * samples]
            for place, query in enumerate(queries)
        }

    def _candidates(self, queries: Sequence[Query], seen: Seen | None = None) -> Steps[Found]:
        """Return the texts that a search finds for each query, best first; none if the method shows none."""
        if self.config.candidates is None:
            return {}
        assert self._tool is not None
        seen, depth = {} if seen is None else seen, self.config.candidates.depth
        deepest = depth + max(map(len, seen.values()), default=0)
        found = yield from find_passages(self._task, self._tool, queries, deepest)
        shown = {}
        for query_id, passages in found.items():
            before = seen.setdefault(query_id, set())
            new = [(doc_id, text) for doc_id, text in passages if doc_id not in before][:depth]
            before.update(doc_id for doc_id, _ in new)
            shown[query_id] = [text for _, text in new]
        return shown

    def _versions(self, query: Query, found: Found) -> list[str]:
        """Return the text that the model is told, and shorter versions to try in turn if the text is too long.

        The last expansion that the query has is its earlier text.
        """
        candidates = self.config.candidates
        earlier = query.expansions[-1].text if query.expansions else NONE_YET
        if candidates is None:
            return [self._prompt.fill(query=query.text, earlier=earlier)]
        if query.query_id not in found:
            raise DataError(f"rewriter {self.method}: the first search has no answer for query {query.query_id!r}")
        passages = found[query.query_id][: candidates.depth]
        return [
            self._prompt.fill(query=query.text, earlier=earlier, candidates=numbered(passages, words))
            for words in _lengths(candidates)
        ]

    def _cuts(self, queries: Sequence[Query], found: Found, written: Written) -> SideCuts | None:
        """Return what is cut off the texts of all prompts that were answered, in words: off passages alone."""
        if self.config.candidates is None:
            return None
        counter, lengths = CutCounter("words"), _lengths(self.config.candidates)
        for query in queries:
            passages = [len(text.split()) for text in found[query.query_id]]
            for completion in filter(None, written[query.query_id]):
                counter.note_first("query", [len(query.text.split())])
                counter.note_first("document", passages, lengths[completion.shortened])
        return counter.take()

    def _answer(self, completion: Completion | None) -> Answer:
        if completion is None:
            return Answer(text="", reasoning_text="", flag=NO_ROOM)
        return read_completion(completion, self._format, self._rules)


def _lengths(candidates: CandidatesConfig) -> list[int]:
    """Return how many words of each candidate the versions of a prompt show, the longest version first."""
    lengths = [candidates.words]
    while candidates.too_long == "halve" and lengths[-1] >= 2 * FEWEST_WORDS:
        lengths.append(lengths[-1] // 2)
    return lengths
