"""Has a language model rewrite the queries; each text is kept as soon as it is there, and never asked for again."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from r2med_ray.errors import ConfigError, DataError
from r2med_ray.protocols import ChatPrompt, Completion
from r2med_ray.rewriting.answers import FORMATS, joined, read_answer
from r2med_ray.rewriting.expanding import expand
from r2med_ray.rewriting.generations import StoredGenerator, export_generations
from r2med_ray.rewriting.methods import METHODS, spelled
from r2med_ray.rewriting.prompts import numbered
from r2med_ray.settings.config import RewriterConfig
from r2med_ray.settings.templates import Template
from r2med_ray.storage.artifacts import Json
from r2med_ray.types import Compat, Query, QueryId, Rewriting

FindCandidates: TypeAlias = Callable[[Sequence[Query]], Mapping[QueryId, Sequence[str]]]
"""Returns the texts that a first search found for each query, best first."""

SHORTENED = "candidates shortened"
FEWEST_WORDS = 16
"""A candidate of fewer words shows a model nothing."""


class LiveRewriter:
    """Gives every query the texts that a language model writes for it.

    A text that can't be used (see `answers`) leaves the query as it was, counted and within the limits of `config`.

    Args:
        config: method, samples, seed and limits.
        generator: the language model, and the texts that it has written.
        prompt: what it is told, see `prompts.load_prompt`.
        answer_format: how the model's reasoning and answer are told apart; a name of `answers.FORMATS`.
        find_candidates: for methods that show the model what a first search found.
        task: whose queries are rewritten, for errors.
        compat: how answers are cut out of the raw text.

    Raises:
        ConfigError: method or format are unknown, or the settings don't fit the method.
    """

    def __init__(
        self,
        config: RewriterConfig,
        generator: StoredGenerator,
        prompt: Template,
        *,
        answer_format: str,
        find_candidates: FindCandidates | None = None,
        task: str = "",
        compat: Compat = "none",
    ) -> None:
        self.method = spelled(config.method)
        row = METHODS[self.method]
        if row.needs_candidates != (config.candidates is not None):
            needs = "needs" if row.needs_candidates else "has no use for"
            raise ConfigError(f"rewriter {self.method}: it {needs} `candidates: {{retriever: bm25, depth: 10}}`")
        if compat == "r2med" and config.samples > 1:
            raise ConfigError(f"rewriter {self.method}: samples {config.samples}; the published protocol knows one")
        self.config = config
        self.compat: Compat = compat
        self._like = row.like or self.method
        self.generator = generator
        self._prompt = prompt
        self._format = FORMATS[answer_format]
        self._find_candidates = find_candidates
        self._task = task

    def inputs(self) -> dict[str, Json]:
        """Return everything that changes the expansions, for artefact keys; what was found by a first search, too."""
        candidates = self.config.candidates
        return {
            "method": self.method,
            "generator": dict(self.generator.inputs()),
            "prompt": self._prompt.digest,
            "samples": self.config.samples,
            "seed": self.config.seed,
            "candidates": candidates.model_dump(mode="json") if candidates else None,
            "compat": self.compat,
        }

    def unfinished(self, queries: Sequence[Query]) -> int:
        """Return how many texts the model has yet to write."""
        return self.generator.unfinished(self.prompts(queries))

    def rewrite(self, queries: Sequence[Query]) -> Rewriting:
        """Fill in one expansion per query and sample that is usable.

        Raises:
            StageError: the model failed for good; names the queries. What was written until then is kept.
            DataError: too many texts are unusable.
        """
        written = self._written(queries)
        answers = {
            query_id: [
                read_answer(self._raw(item), self._format, finish_reason=item.finish_reason, compat=self.compat)
                for item in of_query
            ]
            for query_id, of_query in written.items()
        }
        shortened = [query_id for query_id, items in written.items() if any(item.shortened for item in items)]
        return expand(
            queries,
            answers,
            self.config,
            method=self._like,
            reasoning=self._format.reasoning,
            compat=self.compat,
            noted={SHORTENED: shortened},
            task=self._task,
        )

    def export(self, queries: Sequence[Query], folder: Path, *, sample: int = 0) -> Path:
        """Write one text per query as `<folder>/<method>/<writer>/query_with_hydoc.jsonl`, for others to replay.

        Raises:
            StageError: as `rewrite`, for texts that are yet to be written.
        """
        written = self._written(queries)

        def raw_of(query: Query) -> tuple[str, str]:
            completion = written[query.query_id][sample]
            return self._raw(completion), completion.finish_reason

        return export_generations(queries, raw_of, folder, f"{self.method}/{self.config.writer}")

    def _raw(self, completion: Completion) -> str:
        return joined(completion.reasoning, completion.text, self._format)

    def _written(self, queries: Sequence[Query]) -> dict[QueryId, list[Completion]]:
        """Return the texts of every query, by sample."""
        samples = self.config.samples
        completions = self.generator.generate(self.prompts(queries))
        return {
            query.query_id: completions[place * samples : (place + 1) * samples]
            for place, query in enumerate(queries)
        }

    def prompts(self, queries: Sequence[Query]) -> list[ChatPrompt]:
        """Return one prompt per query and sample, the samples of a query together."""
        candidates = self._find_candidates(queries) if self._find_candidates else {}
        prompts = []
        for query in queries:
            unit = f"{self._task}, query {query.query_id!r}" if self._task else f"query {query.query_id!r}"
            versions = [({"role": "user", "content": text},) for text in self._told(query, candidates)]
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

    def _told(self, query: Query, found: Mapping[QueryId, Sequence[str]]) -> list[str]:
        """Return what the model is told, and what it is told instead where that is too long."""
        candidates = self.config.candidates
        if candidates is None:
            return [self._prompt.fill(query=query.text)]
        if query.query_id not in found:
            raise DataError(f"rewriter {self.method}: the first search has no answer for query {query.query_id!r}")
        passages = found[query.query_id][: candidates.depth]
        lengths = [candidates.words]
        while candidates.too_long == "halve" and lengths[-1] >= 2 * FEWEST_WORDS:
            lengths.append(lengths[-1] // 2)
        return [self._prompt.fill(query=query.text, candidates=numbered(passages, words)) for words in lengths]
