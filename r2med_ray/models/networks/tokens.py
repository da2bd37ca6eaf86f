"""Turns texts into the tokens that a network reads, cut to the network's length.

Shape letters: B texts of a micro-batch, T tokens of the longest one.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from r2med_ray.errors import ConfigError, DataError
from r2med_ray.models.catalog.encoders import EncoderRow
from r2med_ray.models.networks.checkpoints import Features, Network
from r2med_ray.models.networks.token_budget import pad
from r2med_ray.sentences import Span

Tokens: TypeAlias = Mapping[str, list[int]]
"""The tokens of one text: `input_ids`, and `token_type_ids` if the tokenizer tells the two texts of a pair apart."""

NoteTokens: TypeAlias = Callable[[Sequence[Sequence[int]], Sequence[int], int], None]
"""A function that is given the ids of the tokens kept of each text, how many were cut off it, and the most that are
kept."""


def tokenize(
    network: Network,
    texts: Sequence[str],
    max_length: int,
    *,
    seconds: Sequence[str] | None = None,
    end: Sequence[int] = (),
    note: NoteTokens | None = None,
) -> list[Tokens]:
    """Return the tokens of each text, or of each pair if there are `seconds`. The longer text of a pair is cut.

    Args:
        network: has the tokenizer.
        texts: the texts, or the first texts of pairs.
        max_length: most tokens, those of `end` included; never more than the network allows.
        seconds: the second texts of pairs.
        end: tokens at the end of every text, whether the text was cut or not.
        note: counts what is cut, and tells what is read.

    Raises:
        DataError: a text has no tokens at all; names its position.
    """
    if not texts:
        return []
    longest = min(max_length, network.max_length)
    encoded = _encoded(network, texts, seconds, longest - len(end))
    encoded["input_ids"] = [[*ids, *end] for ids in encoded["input_ids"]]
    for position, ids in enumerate(encoded["input_ids"]):
        if not ids:
            which = f"the text at position {position} of the batch" if len(texts) > 1 else "its text"
            raise DataError(f"{which} has no tokens: {texts[position]!r:.80}")
    if note is not None:
        lost = lost_tokens(network.tokenizer, encoded, texts, seconds, longest - len(end))
        note(encoded["input_ids"], lost, longest)
    return [dict(zip(encoded, values, strict=True)) for values in zip(*encoded.values(), strict=True)]


def spans(network: Network, text: str, max_length: int, *, end: Sequence[int] = ()) -> list[Span]:
    """Return the characters of each token that `tokenize` returns of a text; none of a token that isn't the text's.

    No token has characters if the tokenizer is a slow one, which doesn't say them.
    """
    encoded = _encoded(network, [text], None, min(max_length, network.max_length) - len(end))
    [ids] = encoded["input_ids"]
    return [*(encoded.encodings[0].offsets if encoded.encodings else [(0, 0)] * len(ids)), *[(0, 0)] * len(end)]


def _encoded(network: Network, texts: Sequence[str], seconds: Sequence[str] | None, max_length: int) -> Any:
    return network.tokenizer(
        list(texts),
        None if seconds is None else list(seconds),
        truncation=True,
        max_length=max_length,
        return_attention_mask=False,
        return_token_type_ids=None if seconds is not None else False,
    )


def lost_tokens(
    tokenizer: Any, encoded: Any, texts: Sequence[str], seconds: Sequence[str] | None, max_length: int
) -> list[int]:
    """Return how many tokens were cut off each text, or off each pair if there are `seconds`.

    Args:
        tokenizer: cut the texts.
        encoded: its output.
        texts: the texts, or the first texts of pairs.
        seconds: the second texts of pairs.
        max_length: the length to which the tokenizer cut.
    """
    if seconds is None and encoded.encodings:  # a fast tokenizer keeps what it cut off
        return [
            sum(len(piece) - sum(piece.special_tokens_mask) for piece in encoding.overflowing)
            for encoding in encoded.encodings
        ]
    return lost_of_full(tokenizer, [len(ids) for ids in encoded["input_ids"]], texts, max_length, seconds=seconds)


def lost_of_full(
    tokenizer: Any,
    kept: Sequence[int],
    texts: Sequence[str],
    max_length: int,
    *,
    seconds: Sequence[str] | None = None,
    special: bool = True,
) -> list[int]:
    """Return how many tokens were cut off each text or pair. Those of the full length are tokenised again, whole.

    Args:
        tokenizer: cut the texts.
        kept: tokens that are left of each text or pair.
        texts: the texts, or the first texts of pairs.
        max_length: the length to which the tokenizer cut.
        seconds: the second texts of pairs.
        special: whether special tokens are among those that are left.
    """
    full = [position for position, length in enumerate(kept) if length >= max_length]
    others = None if seconds is None else [seconds[position] for position in full]
    whole = whole_lengths(tokenizer, [texts[position] for position in full], others, special=special)
    lost = [0] * len(kept)
    for position, length in zip(full, whole, strict=True):
        lost[position] = max(0, length - kept[position])
    return lost


def whole_lengths(
    tokenizer: Any, texts: Sequence[str], seconds: Sequence[str] | None = None, *, special: bool = True
) -> list[int]:
    """Return the number of tokens of each whole text or pair, with its special tokens if `special`."""
    if not texts:
        return []
    others = None if seconds is None else list(seconds)
    tokens = tokenizer(list(texts), others, truncation=False, add_special_tokens=special, verbose=False)
    return [len(ids) for ids in tokens["input_ids"]]


def lengths(tokens: Sequence[Tokens]) -> list[int]:
    """Return the number of tokens of each text."""
    return [len(of_text["input_ids"]) for of_text in tokens]


def features(network: Network, tokens: Sequence[Tokens]) -> Features:
    """Return tensors of shape (B, T) on the network's device, padded on the right."""
    import torch

    arrays = {name: pad([of_text[name] for of_text in tokens], 0) for name in tokens[0]}
    arrays["input_ids"] = pad([of_text["input_ids"] for of_text in tokens], network.tokenizer.pad_token_id or 0)
    arrays["attention_mask"] = pad([[1] * length for length in lengths(tokens)], 0)
    return {name: torch.from_numpy(values).to(network.device) for name, values in arrays.items()}


def count_prompt_tokens(network: Network, prompt: str) -> int:
    """Return how many tokens a prompt takes at the start of a text. The token that ends every text isn't counted."""
    if not prompt:
        return 0
    ids = network.tokenizer(prompt)["input_ids"]
    return len(ids) - (ids[-1] in network.tokenizer.all_special_ids)


def missing_end(row: EncoderRow, network: Network) -> list[int]:
    """Return the end token in a list if the row wants one that the tokenizer doesn't write; else an empty list.

    Raises:
        ConfigError: the row wants an end token, and the tokenizer has none, or not the one that the row names.
    """
    if not row.append_eos:
        return []
    end = network.tokenizer.eos_token_id
    if row.end_token:
        end = network.tokenizer.get_vocab().get(row.end_token)
    if end is None:
        lacks = f"no {row.end_token!r}" if row.end_token else "none"
        raise ConfigError(f"encoder {row.name!r}: `append_eos` needs an end token, and the tokenizer has {lacks}")
    return [] if network.tokenizer("a")["input_ids"][-1] == end else [end]
