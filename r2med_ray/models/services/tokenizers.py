"""Tokenizers of embedding services: they count a text's tokens, and cut the text before it is sent."""

from pathlib import Path
from typing import Protocol

from r2med_ray.errors import NotAtHand
from r2med_ray.models.catalog.sources import is_folder
from r2med_ray.models.catalog.tokenizer_names import TIKTOKEN, TOKENIZER_FILE, local_tokenizer, pinned_tokenizer


class Tokenizer(Protocol):
    def count(self, text: str) -> int:
        """Return the number of a text's tokens, without special tokens."""
        ...

    def tokens(self, text: str) -> list[str]:
        """Return a text's tokens as texts, without special tokens."""
        ...

    def cut(self, text: str, most: int) -> str:
        """Return the beginning of a text: the whole characters that its first `most` tokens hold."""
        ...


def open_tokenizer(name: str, revision: str | None, *, ask_hub: bool = True) -> Tokenizer:
    """Load a tokenizer.

    Args:
        name: spelled as in the table of `catalog.tokenizer_names`.
        revision: the tokenizer's commit on the Hub.
        ask_hub: whether the tokenizer is downloaded from the Hub if it is not in the cache.

    Raises:
        NotAtHand: the tokenizer is not on this machine and can't be downloaded; says how to get it.
    """
    if name.startswith(TIKTOKEN):
        return _Tiktoken(name.removeprefix(TIKTOKEN))
    return _HuggingFace(local_tokenizer(name) if is_folder(name) else _hub_file(name, revision, ask_hub))


class _Tiktoken:
    def __init__(self, name: str) -> None:
        what = f"tiktoken's encoding {name}"
        try:
            import tiktoken
        except ImportError as error:
            raise NotAtHand(what, f"{what} cuts and counts texts: pip install 'r2med-ray[openai]'") from error
        try:
            self._encoding = tiktoken.get_encoding(name)
        except OSError as error:  # every error of a download is an OSError
            how = (
                f"{what} could not be downloaded: {error}. Copy a folder of tiktoken's cache from a machine with a "
                f"network and name it in the environment variable TIKTOKEN_CACHE_DIR"
            )
            raise NotAtHand(what, how) from error

    def count(self, text: str) -> int:
        return len(self._encoding.encode_ordinary(text))

    def tokens(self, text: str) -> list[str]:
        ids = self._encoding.encode_ordinary(text)
        return [self._encoding.decode_single_token_bytes(each).decode(errors="backslashreplace") for each in ids]

    def cut(self, text: str, most: int) -> str:
        tokens = self._encoding.encode_ordinary(text)
        return text if len(tokens) <= most else self._encoding.decode_bytes(tokens[:most]).decode(errors="ignore")


class _HuggingFace:
    def __init__(self, path: Path) -> None:
        from tokenizers import Tokenizer as Loaded

        self._tokenizer = Loaded.from_file(str(path))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def count(self, text: str) -> int:
        return len(self._tokenizer.encode(text, add_special_tokens=False))

    def tokens(self, text: str) -> list[str]:
        tokens: list[str] = self._tokenizer.encode(text, add_special_tokens=False).tokens
        return tokens

    def cut(self, text: str, most: int) -> str:
        encoded = self._tokenizer.encode(text, add_special_tokens=False)
        return text if len(encoded) <= most else text[: encoded.offsets[most - 1][1]]


def _hub_file(name: str, revision: str | None, ask_hub: bool) -> Path:
    from huggingface_hub import hf_hub_download

    revision = pinned_tokenizer(name, revision)
    try:
        return Path(hf_hub_download(name, TOKENIZER_FILE, revision=revision, local_files_only=not ask_hub))
    except OSError as error:  # every error of the Hub is an OSError
        what = f"the tokenizer {name} at {revision[:12]}"
        how = f"{what} is not on this machine, and the Hub did not give it: hf download {name} {TOKENIZER_FILE}"
        raise NotAtHand(what, f"{how} --revision {revision}") from error
