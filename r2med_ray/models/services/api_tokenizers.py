"""Tokenizers of models behind an API: how long a text is for a service, and where it is cut before it is sent.

tiktoken:NAME    an encoding of OpenAI's `tiktoken`
/a/b ./a ../a ~  a folder with a `tokenizer.json`
org/name         the `tokenizer.json` of a model of the Hub, at a commit: from the local cache, or from the Hub
"""

import hashlib
from pathlib import Path
from typing import Protocol

from r2med_ray.errors import NotAtHand
from r2med_ray.models.catalog.sources import is_folder

TIKTOKEN = "tiktoken:"
_FILE = "tokenizer.json"


class Tokenizer(Protocol):
    def count(self, text: str) -> int:
        """Return the number of a text's tokens, without special ones."""
        ...

    def cut(self, text: str, most: int) -> str:
        """Return the longest beginning of a text that its first `most` tokens cover with whole characters."""
        ...


def open_tokenizer(name: str, revision: str | None, *, ask_hub: bool = True) -> Tokenizer:
    """Load a tokenizer.

    Args:
        name: spelled as in the module's table.
        revision: commit on the Hub.
        ask_hub: download what is not in the Hub's cache.

    Raises:
        NotAtHand: it isn't on this machine and can't be had; says how to get it.
    """
    if name.startswith(TIKTOKEN):
        return _Tiktoken(name.removeprefix(TIKTOKEN))
    return _HuggingFace(_local_file(name) if is_folder(name) else _hub_file(name, revision, ask_hub))


def tokenizer_identity(name: str, revision: str | None) -> dict[str, str]:
    """Return what names the bytes of a tokenizer, for an artefact's key.

    Raises:
        NotAtHand: a tokenizer of the Hub has no revision, or a folder has none.
    """
    if name.startswith(TIKTOKEN):
        return {"tokenizer": name}
    if is_folder(name):
        return {"tokenizer": hashlib.sha256(_local_file(name).read_bytes()).hexdigest()}
    return {"tokenizer": name, "revision": _pinned(name, revision)}


class _Tiktoken:
    def __init__(self, name: str) -> None:
        what = f"tiktoken's encoding {name}"
        try:
            import tiktoken
        except ImportError as error:
            raise NotAtHand(what, f"{what} cuts and counts texts: pip install 'r2med-ray[openai]'") from error
        try:
            self._encoding = tiktoken.get_encoding(name)
        except OSError as error:  # every error of a download is one
            how = (
                f"{what} could not be downloaded: {error}. Copy a folder of tiktoken's cache from a machine with a "
                f"network and name it in the environment variable TIKTOKEN_CACHE_DIR"
            )
            raise NotAtHand(what, how) from error

    def count(self, text: str) -> int:
        return len(self._encoding.encode_ordinary(text))

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

    def cut(self, text: str, most: int) -> str:
        encoded = self._tokenizer.encode(text, add_special_tokens=False)
        return text if len(encoded) <= most else text[: encoded.offsets[most - 1][1]]


def _local_file(folder: str) -> Path:
    path = Path(folder).expanduser() / _FILE
    if not path.is_file():
        raise NotAtHand(str(path), f"tokenizer {folder!r}: there is no {path}")
    return path


def _pinned(name: str, revision: str | None) -> str:
    if revision is None:
        what = f"a revision of the tokenizer {name}"
        how = (
            f"tokenizer {name!r} has no revision, so it could change under the benchmark: give `revision:`, "
            f"a commit of it on the Hub, in a row of your own, or download it with\n"
            f"      hf download {name} {_FILE} --local-dir FOLDER\n"
            f"    and name the folder as `tokenizer: ./FOLDER`"
        )
        raise NotAtHand(what, how)
    return revision


def _hub_file(name: str, revision: str | None, ask_hub: bool) -> Path:
    from huggingface_hub import hf_hub_download

    revision = _pinned(name, revision)
    try:
        return Path(hf_hub_download(name, _FILE, revision=revision, local_files_only=not ask_hub))
    except OSError as error:  # every error of the Hub is one
        what = f"the tokenizer {name} at {revision[:12]}"
        how = f"{what} is not on this machine, and the Hub did not give it: hf download {name} {_FILE}"
        raise NotAtHand(what, f"{how} --revision {revision}") from error
