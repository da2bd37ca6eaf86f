"""Tells what a network reads: the tokens that it is given, and where its texts are cut."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from r2med_ray.cuts import NO_LIMIT, Side
from r2med_ray.models.networks.pair_cuts import PairCut, cut_pair
from r2med_ray.models.networks.tokens import whole_lengths
from r2med_ray.readings import Reading, TextRead, tell


def tell_texts(
    side: Side,
    tokenizer: Any,
    texts: Sequence[str],
    ids_of: Callable[[int], Sequence[int]],
    lost: Sequence[int],
    limit: int,
    *,
    prompt: str = "",
    seconds: Sequence[str] | None = None,
    remarks: tuple[str, ...] = (),
) -> None:
    """Tell what is read of each text, or of each title and text if there are `seconds`.

    Args:
        side: what the texts are.
        tokenizer: has read the texts.
        texts: the texts behind their prompt.
        ids_of: returns the ids of the tokens that the network is given of the text at a position.
        lost: tokens that were cut off each.
        limit: most tokens that are read of each.
        prompt: what each text begins with.
        seconds: the second texts of pairs.
        remarks: what else is done with the texts.
    """

    def reading(at: int) -> Reading:
        first = TextAround(prompt, texts[at].removeprefix(prompt))
        if seconds is None:
            parts: tuple[TextRead, ...] = (first.read(side, tokenizer, lost[at]),)
        else:
            lengths = whole_lengths(tokenizer, [texts[at], seconds[at]], special=False)
            cut = cut_pair(lengths[0], lengths[1], sum(lengths) - lost[at])
            parts = (
                first.read(side, tokenizer, cut.query - cut.kept_query),
                TextAround("", seconds[at]).read(side, tokenizer, cut.document - cut.kept_document),
            )
        return _reading(tokenizer, parts, ids_of(at), limit, remarks)

    tell(reading(at) for at in range(len(texts)))


class TextAround(NamedTuple):
    """A text, and what is put before and after it."""

    prompt: str
    text: str
    after: str = ""

    def read(self, side: Side, tokenizer: Any, lost: int) -> TextRead:
        """Return what is read of the text if so many of its tokens are cut off."""
        span = _span(tokenizer, self.prompt + self.text, lost)
        return TextRead(side=side, prompt=self.prompt, text=self.text, after=self.after, read=span, lost=lost)


def tell_pairs(
    tokenizer: Any,
    pairs: Sequence[tuple[TextAround, TextAround]],
    ids: Sequence[Sequence[int]],
    cuts: Sequence[PairCut],
    limit: int,
) -> None:
    """Tell what is read of each pair of a query and a document; see `tell_texts`."""

    def reading(at: int) -> Reading:
        (query, document), cut = pairs[at], cuts[at]
        parts = (
            query.read("query", tokenizer, cut.query - cut.kept_query),
            document.read("document", tokenizer, cut.document - cut.kept_document),
        )
        return _reading(tokenizer, parts, ids[at], limit)

    tell(reading(at) for at in range(len(pairs)))


def _reading(
    tokenizer: Any, parts: tuple[TextRead, ...], ids: Sequence[int], limit: int, remarks: tuple[str, ...] = ()
) -> Reading:
    return Reading(
        parts=parts,
        tokens=tuple(tokenizer.convert_ids_to_tokens(list(ids))),
        ids=tuple(ids),
        limit=limit if limit < NO_LIMIT else None,
        remarks=remarks,
    )


def _span(tokenizer: Any, text: str, lost: int) -> tuple[int, int] | None:
    """Return where the characters of a text begin and end that are read, if so many tokens are cut off it.

    Returns:
        None if the tokenizer doesn't say which characters a token holds.
    """
    if not lost:
        return 0, len(text)
    if not tokenizer.is_fast:
        return None
    encoded = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    offsets = encoded["offset_mapping"]
    if len(offsets) <= lost:
        return 0, 0
    if tokenizer.truncation_side == "left":
        return offsets[lost][0], len(text)
    return 0, offsets[-lost - 1][1]
