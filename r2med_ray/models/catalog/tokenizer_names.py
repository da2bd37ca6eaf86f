"""The tokenizers of embedding services: how a row spells a tokenizer, and the name of its bytes for keys.

tiktoken:NAME    an encoding of OpenAI's `tiktoken`
/a/b ./a ../a ~  a folder with a `tokenizer.json`
org/name         the `tokenizer.json` of a model of the Hub, at a commit: from the local cache, or from the Hub
"""

from pathlib import Path

from r2med_ray.errors import NotAtHand
from r2med_ray.models.catalog.sources import is_folder
from r2med_ray.storage.keys import sha256_of

TIKTOKEN = "tiktoken:"
TOKENIZER_FILE = "tokenizer.json"


def tokenizer_identity(name: str, revision: str | None) -> dict[str, str]:
    """Return the name of a tokenizer's bytes, for an artefact's key.

    Raises:
        NotAtHand: a tokenizer of the Hub has no revision, or a folder holds no tokenizer.
    """
    if name.startswith(TIKTOKEN):
        return {"tokenizer": name}
    if is_folder(name):
        return {"tokenizer": sha256_of(local_tokenizer(name))}
    return {"tokenizer": name, "revision": pinned_tokenizer(name, revision)}


def local_tokenizer(folder: str) -> Path:
    """Return the file of a folder's tokenizer.

    Raises:
        NotAtHand: the folder has no tokenizer.
    """
    path = Path(folder).expanduser() / TOKENIZER_FILE
    if not path.is_file():
        raise NotAtHand(str(path), f"tokenizer {folder!r}: there is no {path}")
    return path


def pinned_tokenizer(name: str, revision: str | None) -> str:
    """Return the commit of a tokenizer of the Hub.

    Raises:
        NotAtHand: there is no commit; says how to pin one.
    """
    if revision is None:
        what = f"a revision of the tokenizer {name}"
        how = (
            f"tokenizer {name!r} has no revision, so it could change under the benchmark: give `revision:`, "
            f"a commit of it on the Hub, in a row of your own, or download it with\n"
            f"      hf download {name} {TOKENIZER_FILE} --local-dir FOLDER\n"
            f"    and name the folder as `tokenizer: ./FOLDER`"
        )
        raise NotAtHand(what, how)
    return revision
