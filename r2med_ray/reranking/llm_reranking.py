"""Rerankers that are language models: they read a query with several of its candidates at once.

    listwise    orders windows of candidates, from the end of the ranking to its head, so that what is good rises
                (RankGPT, Sun et al. 2023, arXiv 2304.09542)
    groupwise   grades the members of groups beside each other; grades decide over all groups (GroupRank, 2025,
                arXiv 2511.11653)

Both may run in several passes over shuffled candidates. The orders of the passes are fused by reciprocal rank, which
works against a model's liking for certain places. Both may show the first stage's scores (InsertRank, 2025, arXiv
2506.14086). An answer that leaves out, repeats or invents ids is repaired by the rules of `permutations`, so the
candidates stay what they were. Repairs are counted per query; `readability` refuses a run with too many answers that
nothing could be read from.

Scores are ranks: the first of n candidates gets n, the last one 1. They can't be compared between queries.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TypeAlias

from r2med_ray.demands import Ask, Keep, Recall, Steps
from r2med_ray.protocols import Candidates, Completion, LanguageModel
from r2med_ray.reranking.llm_prompts import LlmReranking, load_llm_prompt, window_prompt
from r2med_ray.reranking.orderings import Ordering, fused, passes_over, window_starts
from r2med_ray.reranking.permutations import VERSION
from r2med_ray.reranking.readability import CONTEXT_LIMIT
from r2med_ray.reranking.stored_scores import read_reranking, reranking_files, scores_key
from r2med_ray.settings.templates import Template
from r2med_ray.storage.artifacts import Json
from r2med_ray.types import Reranking

Read: TypeAlias = Callable[[Completion], tuple[str, str]]
"""Cuts the answer out of what a model wrote. Returns it with what is wrong with it (`cut at limit`), or with ""."""


class LlmReranker:
    """Has a language model order the candidates of many queries, and keeps the finished order.

    Args:
        model: the model that is asked.
        read: cuts the answer out of what the model wrote.
        template: a prompt with `llm_prompts.PLACES`.
        settings: strategy, windows, passes.
    """

    def __init__(self, model: LanguageModel, read: Read, template: Template, settings: LlmReranking) -> None:
        self._model = model
        self._read = read
        self._template = template
        self._settings = settings

    def score_all(self, work: Sequence[Candidates]) -> Steps[Reranking]:
        """Return the ranks as scores, and what was repaired on the way.

        The kept order is recalled first; the model is asked only where there is none. Prompts of all queries are
        asked together. A prompt that the model has no room for counts as an answer that nothing can be read from.
        """
        key = scores_key(self._inputs(), work, sees_scores=self._settings.show_scores)
        [artifact] = yield Recall(keys=(key,))
        if artifact is not None:
            return read_reranking(artifact)
        reranking = yield from self._order(work)
        yield Keep(key=key, files=reranking_files(reranking))
        return reranking

    def _inputs(self) -> Mapping[str, Json]:
        return {
            "generator": dict(self._model.generation_inputs()),
            "prompt": self._template.digest,
            "rules": VERSION,
            **asdict(self._settings),
        }

    def _order(self, work: Sequence[Candidates]) -> Steps[Reranking]:
        settings = self._settings
        queries = [passes_over(candidates, passes=settings.passes, seed=settings.seed) for candidates in work]
        contested = [ordering for passes in queries for ordering in passes if len(ordering.order) > 1]
        yield from (
            self._order_windows(contested) if settings.strategy == "listwise" else self._grade_groups(contested)
        )
        return fused(queries)

    def _order_windows(self, orderings: Sequence[Ordering]) -> Steps[None]:
        """Have one window after the other ordered, the same turn of all queries and passes together."""
        size, step = self._settings.window, self._settings.step
        starts = [window_starts(len(ordering.order), size, step) for ordering in orderings]
        for turn in range(max(map(len, starts), default=0)):
            asked = [(each, at[turn]) for each, at in zip(orderings, starts, strict=True) if turn < len(at)]
            answers = yield from self._ask([(each, each.order[at : at + size]) for each, at in asked], turn)
            for (ordering, at), (answer, flaw) in zip(asked, answers, strict=True):
                ordering.reorder(at, answer, flaw, window=size)

    def _grade_groups(self, orderings: Sequence[Ordering]) -> Steps[None]:
        """Have all groups graded at once."""
        size = self._settings.window
        asked = [(each, each.order[at : at + size]) for each in orderings for at in range(0, len(each.order), size)]
        answers = yield from self._ask(asked, 0)
        for (ordering, shown), (answer, flaw) in zip(asked, answers, strict=True):
            ordering.grade(shown, answer, flaw)
        for ordering in orderings:
            ordering.order_by_grades()

    def _ask(self, asked: Sequence[tuple[Ordering, Sequence[int]]], turn: int) -> Steps[list[tuple[str, str]]]:
        if not asked:
            return []
        prompts = tuple(
            window_prompt(self._template, self._settings, ordering, shown, turn=turn) for ordering, shown in asked
        )
        completions: list[Completion | None] = yield Ask(model=self._model, prompts=prompts)
        return [("", CONTEXT_LIMIT) if each is None else self._read(each) for each in completions]


def build_llm_reranker(
    model: LanguageModel, read: Read, settings: LlmReranking, *, think: bool = False, prompt: str | None = None
) -> LlmReranker:
    """Return the reranker that a row of the catalogue describes.

    Args:
        model: the row of its language model.
        read: cuts the answer out of what the model wrote.
        settings: strategy, windows, passes.
        think: whether the shipped prompt asks for reasoning first.
        prompt: a prompt file of the user's own, in place of a shipped one.

    Raises:
        ConfigError: the prompt file can't be read, or its places are wrong.
    """
    return LlmReranker(model, read, load_llm_prompt(settings.strategy, think=think, prompt=prompt), settings)
