"""The last checks before a passage is released: is it ranked above its positive, and does it answer the query?

The first judge ranks each text and its positive, in both orders. Then it answers the query from the text alone. If
this answer agrees with the right one, the text is dropped. The right answer is the task's, or else what the judge
answers from the positive alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from r2med_ray.chat import ChatPrompt
from r2med_ray.demands import Steps
from r2med_ray.negatives.drafts import FOUND_POSITIVE, Draft, open_of, seed_of
from r2med_ray.negatives.judging import UNREADABLE
from r2med_ray.negatives.material import Material, Said, asked
from r2med_ray.negatives.near_copies import words_of
from r2med_ray.reranking.permutations import Reordering, read_permutation
from r2med_ray.reranking.shown_ids import NO_LIST

ANSWERS = "answers the query"
NO_ANSWER = ["no", "answer"]
NO_GOLD = "no right answer known"


def released(material: Material, drafts: Sequence[Draft]) -> Steps[list[Draft]]:
    """Return the drafts with both checks."""
    ranked = yield from _ranked(material, drafts)
    answered = yield from _answered(material, open_of(ranked))
    return [*(draft for draft in ranked if draft.verdict), *answered]


def _ranked(material: Material, drafts: Sequence[Draft]) -> Steps[list[Draft]]:
    prompts = []
    for draft in drafts:
        pair = (material.positive(draft), draft.text)
        for first, second in (pair, pair[::-1]):
            prompt = material.prompt(draft, "rank", query=material.query(draft), first=first, second=second)
            order = "positive first" if first is pair[0] else "text first"
            prompts.append(replace(prompt, unit=f"{prompt.unit}, {order}"))
    said = yield from asked(material.tools.judges[0], prompts)
    orders = [read_permutation(each.text, 2) for each in said]
    return [
        _with_ranks(draft, positive_first, text_first)
        for draft, positive_first, text_first in zip(drafts, orders[::2], orders[1::2], strict=True)
    ]


def _with_ranks(draft: Draft, positive_first: Reordering, text_first: Reordering) -> Draft:
    """Add the check; the positive has to be above the text in both orders. A tie is not above."""
    if NO_LIST in positive_first.repairs or NO_LIST in text_first.repairs:
        return draft.checked("rank", "unreadable", False, f"{UNREADABLE}: rank")
    below = (0,) in positive_first.levels[:1], (1,) in text_first.levels[:1]
    return draft.checked("rank", f"below the positive in {sum(below)} of 2", all(below), f"{FOUND_POSITIVE}: rank")


def _answered(material: Material, drafts: Sequence[Draft]) -> Steps[list[Draft]]:
    judge = material.tools.judges[0]
    right = yield from _right_answers(material, drafts)
    prompts = [material.prompt(draft, "answer", query=material.query(draft), passage=draft.text) for draft in drafts]
    said = yield from asked(judge, prompts)
    decided = {
        draft.name: done
        for draft, each in zip(drafts, said, strict=True)
        if (done := _without_asking(draft, each, right[draft.name])) is not None
    }
    pairs = [(draft, each.text) for draft, each in zip(drafts, said, strict=True) if draft.name not in decided]
    prompts = [
        material.prompt(draft, "agree", query=material.query(draft), first=right[draft.name].text, second=answer)
        for draft, answer in pairs
    ]
    verdicts = yield from asked(judge, prompts)
    for (draft, answer), each in zip(pairs, verdicts, strict=True):
        decided[draft.name] = _with_agreement(draft, answer, read_yes(each.text))
    return [decided[draft.name] for draft in drafts]


def _without_asking(draft: Draft, said: Said, right: Said) -> Draft | None:
    """Return the draft with its check, if nobody has to be asked whether two answers agree."""
    if not said.text:
        return draft.checked("answer", said.flag, False, f"{UNREADABLE}: answer")
    if not right.text:
        return draft.checked("answer", right.flag, False, f"{UNREADABLE}: right answer")
    if words_of(right.text)[:2] == NO_ANSWER:
        return draft.checked("answer", NO_GOLD, True)
    if words_of(said.text)[:2] == NO_ANSWER:
        return draft.checked("answer", "none", True)
    return _with_agreement(draft, said.text, True) if words_of(said.text) == words_of(right.text) else None


def _with_agreement(draft: Draft, answer: str, agrees: bool | None) -> Draft:
    return draft.checked("answer", answer, agrees is False, ANSWERS if agrees else f"{UNREADABLE}: agreement")


def read_yes(answer: str) -> bool | None:
    """Return whether an answer says yes; None if neither `yes` nor `no` is among its words, or both are."""
    said = {"yes", "no"}.intersection(words_of(answer))
    return said == {"yes"} if len(said) == 1 else None


def _right_answers(material: Material, drafts: Sequence[Draft]) -> Steps[Mapping[str, Said]]:
    """Return the right answer by name of a draft: the task's, or what the judge said of the positive."""
    lacking = {
        (draft.slot.query_id, draft.slot.positive_id): draft
        for draft in drafts
        if draft.slot.query_id not in material.answers
    }
    prompts = [_from_positive(material, draft) for draft in lacking.values()]
    said = yield from asked(material.tools.judges[0], prompts)
    read = dict(zip(lacking, said, strict=True))
    return {
        draft.name: Said(material.answers[draft.slot.query_id], "none")
        if draft.slot.query_id in material.answers
        else read[draft.slot.query_id, draft.slot.positive_id]
        for draft in drafts
    }


def _from_positive(material: Material, draft: Draft) -> ChatPrompt:
    """Return the prompt for an answer from the positive alone, the same for all drafts of query and positive."""
    prompt = material.prompt(draft, "answer", query=material.query(draft), passage=material.positive(draft))
    query_id, positive_id, *_ = draft.slot
    return replace(
        prompt,
        unit=f"{query_id}, answer from {positive_id}",
        seed=seed_of(material.config.seed, "answer", query_id, positive_id),
    )
