"""Rerankers that are language models, and read a query with several of its candidates at once.

    listwise    orders windows of candidates, from the end of the ranking to its head, so that good candidates rise
                (RankGPT, Sun et al. 2023, arXiv 2304.09542)
    groupwise   grades the candidates of each group in one prompt; the grades order the candidates of all groups
                (GroupRank, 2025, arXiv 2511.11653)
    setwise     names the best of a few candidates, again and again, as a sort asks for it (Rank-R1; `setwise`)

`pair_asking` has those that read one candidate at a time.

All of these may run in several passes over shuffled candidates. The orders of the passes are fused by reciprocal
rank, which works against a model's preference for certain places. Grades may be averaged instead, as GroupRank does:
all candidates are then shuffled in every pass, so that no group is one of neighbours. All of these may show the
first stage's scores (InsertRank, 2025, arXiv 2506.14086). Candidates may be tied, as by Rank-K; see `orderings`.

An answer may leave out, repeat or invent ids. It is then repaired by the rules of `permutations` or `grades`, so the
set of candidates never changes. Repairs are counted per query. `readability` refuses a run in which too many answers
are unreadable.

Scores are made from ranks: the first of n candidates gets n, the last candidate gets 1. They can't be compared
between queries.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from r2med_ray.chat import Completion, LanguageModel
from r2med_ray.demands import Ask, Steps
from r2med_ray.errors import ConfigError
from r2med_ray.protocols import Candidates
from r2med_ray.reranking.asking import AskingReranker, Read
from r2med_ray.reranking.llm_prompts import LlmReranking, load_llm_prompt, window_prompt
from r2med_ray.reranking.orderings import Ordering, averaged, fused, passes_over, window_starts
from r2med_ray.reranking.pair_asking import NumberReranker, ProbabilityReranker
from r2med_ray.reranking.passages import Tokenizer, no_tokenizer
from r2med_ray.reranking.prompt_files import EXPRESSIONS, Passage, refuse_expressions
from r2med_ray.reranking.setwise import SORTS, Picking
from r2med_ray.types import Reranking

_WITHOUT_IDS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "groupwise": (EXPRESSIONS[1:], "grades beside ids"),
    "probability": (EXPRESSIONS, "the token after the reasoning"),
}
"""Strategy → the expressions of a prompt file that have no meaning for its answers, and what is read of these."""


class LlmReranker(AskingReranker):
    """Has a language model order windows, grade groups, or pick the best of a few."""

    def _order(self, work: Sequence[Candidates]) -> Steps[Reranking]:
        settings = self._settings
        queries = [
            passes_over(each, passes=settings.passes, seed=settings.seed, shuffle_first=settings.shuffle_first)
            for each in work
        ]
        contested = [ordering for passes in queries for ordering in passes if len(ordering.order) > 1]
        ask = {"listwise": self._order_windows, "groupwise": self._grade_groups, "setwise": self._pick}
        yield from ask[settings.strategy](contested)
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
                ordering.reorder(at, self._told(answer, ordering.counts), flaw, window=size)

    def _grade_groups(self, orderings: Sequence[Ordering]) -> Steps[None]:
        """Have all groups of all queries and passes graded at once."""
        size = self._settings.window
        asked = [(each, each.order[at : at + size]) for each in orderings for at in range(0, len(each.order), size)]
        answers = yield from self._ask(asked, 0)
        for (ordering, shown), (answer, flaw) in zip(asked, answers, strict=True):
            ordering.grade(shown, self._told(answer, ordering.counts), flaw, best=self._settings.best_grade)
        for ordering in orderings:
            ordering.order_by_grades()

    def _pick(self, orderings: Sequence[Ordering]) -> Steps[None]:
        """Have each ranking sorted. The questions of all sorts are asked together, turn by turn."""
        settings = self._settings
        sorts = [SORTS[settings.sort](each.order, settings.window, settings.top) for each in orderings]
        shown: dict[int, list[int]] = {}
        _go_on(sorts, orderings, shown, dict.fromkeys(range(len(sorts))))
        turn = 0
        while shown:
            asked = [(orderings[number], positions) for number, positions in shown.items()]
            answers = yield from self._ask(asked, turn)
            picked = {
                number: orderings[number].choose(positions, self._told(answer, orderings[number].counts), flaw)
                for (number, positions), (answer, flaw) in zip(shown.items(), answers, strict=True)
            }
            _go_on(sorts, orderings, shown, picked)
            turn += 1

    def _ask(self, asked: Sequence[tuple[Ordering, Sequence[int]]], turn: int) -> Steps[list[tuple[str, str]]]:
        if not asked:
            return []
        prompts = tuple(
            window_prompt(self._prompt, self._settings, self._limit, ordering, shown, turn=turn)
            for ordering, shown in asked
        )
        completions: list[Completion | None] = yield Ask(model=self._model, prompts=prompts)
        return [self._answer(each) for each in completions]


def _go_on(
    sorts: Sequence[Picking],
    orderings: Sequence[Ordering],
    shown: dict[int, list[int]],
    picked: Mapping[int, int | None],
) -> None:
    """Tell sorts what was picked, and note what each shows next. A sort that ends gives its ordering the order."""
    for number, place in picked.items():
        try:
            shown[number] = next(sorts[number]) if place is None else sorts[number].send(place)
        except StopIteration as end:
            shown.pop(number, None)
            orderings[number].order = end.value


def build_llm_reranker(
    model: LanguageModel,
    read: Read,
    settings: LlmReranking,
    *,
    think: bool = False,
    prompt: str | None = None,
    places: Mapping[str, str] | None = None,
    name: str = "",
    open_tokenizer: Callable[[], Tokenizer] = no_tokenizer,
) -> AskingReranker:
    """Return the reranker that a row of the catalogue describes.

    Args:
        model: the row of the reranker's language model.
        read: cuts the answer out of the model's text.
        settings: strategy, windows, passes.
        think: whether the shipped prompt asks for reasoning first.
        prompt: another prompt file, see `llm_prompts.load_llm_prompt`.
        places: further places of the prompt file, with their texts.
        name: the name of its row, for errors.
        open_tokenizer: loads the tokenizer that counts the tokens of passages.

    Raises:
        ConfigError: the prompt file can't be read, has no version, or has wrong places; or an expression that the
            strategy can't use; or several messages, where it is to be continued without a chat template.
    """
    loaded = load_llm_prompt(settings.strategy, think=think, prompt=prompt, places=places)
    if settings.strategy in _WITHOUT_IDS:
        keys, what = _WITHOUT_IDS[settings.strategy]
        refuse_expressions(loaded, keys, f"reranker {name!r} reads {what}")
    if settings.is_raw and len(loaded.messages("", [Passage("", 0.0)], show_scores=False)) > 1:
        raise ConfigError(
            f"prompt {prompt}: a prompt that is continued without a chat template is one text; leave out "
            "`system_message`, `prefix_assistant` and `body_assistant`"
        )
    limit = settings.limit(open_tokenizer)
    if settings.strategy == "pointwise":
        return NumberReranker(model, read, loaded, settings, limit)
    if settings.strategy == "probability":
        return ProbabilityReranker(model, read, loaded, settings, limit)
    return LlmReranker(model, read, loaded, settings, limit)
