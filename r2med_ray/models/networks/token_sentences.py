"""The sentence that each token of a text lies in, by the characters that the tokenizer says a token holds."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from r2med_ray.sentences import NO_SENTENCE, Span, sentences, sentences_of_tokens


def token_sentences(tokenizer: Any, prompt: str, text: str, ids_T: Sequence[int]) -> npt.NDArray[np.int32]:
    """Return the number of the sentence of each token, int32 of shape (T,).

    Tokens that are not the text's own, such as special tokens and those of the prompt, belong to `NO_SENTENCE`. So do
    all tokens of a tokenizer that doesn't say which characters they hold.

    Args:
        tokenizer: made the tokens of the text behind its prompt.
        prompt: what is put before the text.
        text: the text.
        ids_T: the tokens that have a vector. Tokens of the whole text may be missing among them, and others be added.
    """
    if not tokenizer.is_fast:
        return np.full(len(ids_T), NO_SENTENCE, np.int32)
    encoded = tokenizer(prompt + text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
    whole = list(zip(encoded["input_ids"], encoded["offset_mapping"], strict=True))
    return sentences_behind(prompt, text, _placed(ids_T, whole))


def sentences_behind(prompt: str, text: str, spans_T: Sequence[Span]) -> npt.NDArray[np.int32]:
    """Return the number of the sentence of each token, int32 of shape (T,); see `token_sentences`.

    Args:
        prompt: what is put before the text.
        text: the text.
        spans_T: the characters of each token in both together; none of a token that is in neither.
    """
    start = len(prompt)
    behind = [(max(0, first - start), max(0, stop - start)) for first, stop in spans_T]
    return sentences_of_tokens(sentences(text), behind)


def _placed(ids_T: Sequence[int], whole: Sequence[tuple[int, Span]]) -> list[Span]:
    """Return the characters of each token, none for one that the whole text lacks. Both are in the text's order."""
    places = defaultdict[int, list[int]](list)
    for place, (token, _) in enumerate(whole):
        places[token].append(place)
    spans, at = list[Span](), 0
    for token in ids_T:
        later = places[token][bisect_left(places[token], at) :]
        spans.append(whole[later[0]][1] if later else (0, 0))
        at = later[0] + 1 if later else at
    return spans
