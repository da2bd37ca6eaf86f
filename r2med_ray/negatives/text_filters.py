"""What is asked of a text alone: its length, its language, and that it copies neither the query nor a positive."""

from collections.abc import Iterable

from r2med_ray.negatives.drafts import Draft
from r2med_ray.negatives.generation_settings import FiltersConfig
from r2med_ray.negatives.near_copies import copied_share, runs_of, words_of

FUNCTION_WORDS = frozenset(
    words_of(
        "the of and to is are were be been by for with that this these those at or not but which who it its their "
        "they he she his her has have had may can will should would than when if after between within without into "
        "during about while because there often usually most more"
    )
)
"""Frequent words of English that other languages lack, or need rarely."""


def english_share(text: str) -> float:
    """Return the share of a text's words that are English function words; 0 for a text without words."""
    words = words_of(text)
    return sum(word in FUNCTION_WORDS for word in words) / len(words) if words else 0.0


def band(positive: str, limits: FiltersConfig) -> tuple[int, int]:
    """Return the fewest and the most words of a text that is made from a positive; at least 1."""
    words = len(positive.split())
    low, high = limits.length
    return max(1, round(words * low)), max(1, round(words * high))


def filtered(draft: Draft, positive: str, sources: Iterable[str], limits: FiltersConfig) -> Draft:
    """Return a draft with the checks of its text; the first that isn't passed is its verdict.

    Args:
        draft: has a text.
        positive: the text that it was made from.
        sources: the query, and all of its positives: what it may not copy.
        limits: the limits.
    """
    low, high = band(positive, limits)
    words = len(draft.text.split())
    draft = draft.checked("length", words, low <= words <= high)
    if not draft.verdict:
        share = english_share(draft.text)
        draft = draft.checked("language", share, share >= limits.english)
    if not draft.verdict:
        runs = runs_of(draft.text)
        copied = max(copied_share(runs, runs_of(source)) for source in sources)
        draft = draft.checked("copy", copied, copied <= limits.copied)
    return draft
