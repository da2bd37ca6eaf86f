"""Rerankers that are language models: they read a query with several of its candidates at once.

    listwise    orders windows of candidates, from the end of the ranking to its head, so that good candidates rise
                (RankGPT, Sun et al. 2023, arXiv 2304.09542)
    groupwise   grades the candidates of each group in one prompt; the grades order the candidates of all groups
                (GroupRank, 2025, arXiv 2511.11653)

Both strategies may run in several passes over shuffled candidates. The orders of the passes are fused by reciprocal
rank, which works against a model's preference for certain places. Grades may be averaged instead, as GroupRank does:
all candidates are then shuffled in every pass, so that no group is one of neighbours. Both strategies may show the
first stage's scores (InsertRank, 2025, arXiv 2506.14086). Candidates may be tied, as by Rank-K; see `orderings`.

An answer may leave out, repeat or invent ids. It is then repaired by the rules of `permutations` or `grades`, so the
set of candidates never changes. Repairs are counted per query. `readability` refuses a run in which too many answers
are unreadable.

Scores are made from ranks: the first of n candidates gets n, the last candidate gets 1. They can't be compared
between queries.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from r2med_ray.chat import Completion, LanguageModel
from r2med_ray.demands import Ask, Keep, Recall, Steps
from r2med_ray.protocols import Candidates
from r2med_ray.reranking.llm_prompts import LlmReranking, load_llm_prompt, window_prompt
from r2med_ray.reranking.orderings import Ordering, averaged, fused, passes_over, window_starts
from r2med_ray.reranking.passages import PassageLimit, Tokenizer
from r2med_ray.reranking.prompt_files import Prompt
from r2med_ray.reranking.readability import CONTEXT_LIMIT
from r2med_ray.reranking.shown_ids import OTHER_FORMAT, VERSION
from r2med_ray.reranking.stored_scores import read_reranking, reranking_files, scores_key
from r2med_ray.storage.keys import Json
from r2med_ray.types import Reranking

Read: TypeAlias = Callable[[Completion], tuple[str, str]]
"""A function that cuts the answer out of a model's text.

It returns the answer, and what is wrong with it (`cut at limit`) or "".
"""


class LlmReranker:
    """Has a language model order the candidates of many queries, and keeps the finished orders.

    Args:
        model: the model that is asked.
        read: cuts the answer out of the model's text.
        prompt: what the model is asked.
        settings: strategy, windows, passes.
        limit: the most that is shown of a passage; what the settings say if left out.
    """

    def __init__(
        self,
        model: LanguageModel,
        read: Read,
        prompt: Prompt,
        settings: LlmReranking,
        limit: PassageLimit | None = None,
    ) -> None:
        self._model = model
        self._read = read
        self._prompt = prompt
        self._settings = settings
        self._limit = limit or settings.limit()

    def score_all(self, work: Sequence[Candidates]) -> Steps[Reranking]:
        """Return scores made from the ranks, and the repairs of the model's answers.

        The model is asked only if no order of these candidates was kept before. The prompts of all queries are asked
        together. A prompt that the model has no room for counts as an unreadable answer.
        """
        sees_scores = self._settings.show_scores or self._prompt.shows_scores
        key = scores_key(self._inputs(), work, sees_scores=sees_scores)
        [artifact] = yield Recall(keys=(key,))
        if artifact is not None:
            return read_reranking(artifact)
        reranking = yield from self._order(work)
        yield Keep(key=key, files=reranking_files(reranking))
        return reranking

    def _inputs(self) -> Mapping[str, Json]:
        return {
            "generator": dict(self._model.generation_inputs()),
            "prompt": self._prompt.digest,
            "rules": VERSION,
            **self._settings.inputs(),
        }

    def _order(self, work: Sequence[Candidates]) -> Steps[Reranking]:
        settings = self._settings
        queries = [
            passes_over(each, passes=settings.passes, seed=settings.seed, shuffle_first=settings.shuffle_first)
            for each in work
        ]
        contested = [ordering for passes in queries for ordering in passes if len(ordering.order) > 1]
        yield from (
            self._order_windows(contested) if settings.strategy == "listwise" else self._grade_groups(contested)
        )
        made = fused(queries) if settings.fuse == "rank" else averaged(queries, best=settings.best_grade)
        return replace(made, cuts=self._limit.cuts(work))

    def _order_windows(self, orderings: Sequence[Ordering]) -> Steps[None]:
        """Have the windows of each ranking ordered in turn. Windows with the same number are asked together."""
        size, step = self._settings.window, self._settings.step
        starts = [window_starts(len(ordering.order), size, step) for ordering in orderings]
        for turn in range(max(map(len, starts), default=0)):
            asked = [(each, at[turn]) for each, at in zip(orderings, starts, strict=True) if turn < len(at)]
            answers = yield from self._ask([(each, each.order[at : at + size]) for each, at in asked], turn)
            for (ordering, at), (answer, flaw) in zip(asked, answers, strict=True):
                ordering.reorder(at, self._told(ordering, answer), flaw, window=size)

    def _told(self, ordering: Ordering, answer: str) -> str:
        """Return an answer as the prompt file reads it. One that is not as the file says is counted, and returned."""
        told = self._prompt.told(answer)
        if told is None and answer:
            ordering.counts.rules[OTHER_FORMAT] += 1
        return answer if told is None else told

    def _grade_groups(self, orderings: Sequence[Ordering]) -> Steps[None]:
        """Have all groups of all queries and passes graded at once."""
        size = self._settings.window
        asked = [(each, each.order[at : at + size]) for each in orderings for at in range(0, len(each.order), size)]
        answers = yield from self._ask(asked, 0)
        for (ordering, shown), (answer, flaw) in zip(asked, answers, strict=True):
            ordering.grade(shown, answer, flaw, best=self._settings.best_grade)
        for ordering in orderings:
            ordering.order_by_grades()

    def _ask(self, asked: Sequence[tuple[Ordering, Sequence[int]]], turn: int) -> Steps[list[tuple[str, str]]]:
        if not asked:
            return []
        prompts = tuple(
            window_prompt(self._prompt, self._settings, self._limit, ordering, shown, turn=turn)
            for ordering, shown in asked
        )
        completions: list[Completion | None] = yield Ask(model=self._model, prompts=prompts)
        return [("", CONTEXT_LIMIT) if each is None else self._read(each) for each in completions]


def build_llm_reranker(
    model: LanguageModel,
    read: Read,
    settings: LlmReranking,
    *,
    think: bool = False,
    prompt: str | None = None,
    places: Mapping[str, str] | None = None,
    open_tokenizer: Callable[[], Tokenizer] | None = None,
) -> LlmReranker:
    """Return the reranker that a row of the catalogue describes.

    Args:
        model: the row of the reranker's language model.
        read: cuts the answer out of the model's text.
        settings: strategy, windows, passes.
        think: whether the shipped prompt asks for reasoning first.
        prompt: another prompt file, see `llm_prompts.load_llm_prompt`.
        places: further places of the prompt file, with their texts.
        open_tokenizer: loads the tokenizer that counts the tokens of passages.

    Raises:
        ConfigError: the prompt file can't be read, has no version, or has wrong places.
    """
    loaded = load_llm_prompt(settings.strategy, think=think, prompt=prompt, places=places)
    return LlmReranker(model, read, loaded, settings, settings.limit(open_tokenizer))
