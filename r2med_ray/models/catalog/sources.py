"""Finds the files of a checkpoint, and names their bytes for keys.

package:NAME     a folder `model` inside an installed Python package
/a/b ./a ../a ~  a folder
org/name         a model of the Hub, at a commit: first from the local cache, then from the Hub
"""

import hashlib
import importlib.util
import json
from functools import cache
from pathlib import Path

from r2med_ray.errors import ConfigError, NotAtHand
from r2med_ray.storage.keys import sha256_of

PACKAGE = "package:"
HUB_TIMEOUT_S = 10.0
CONFIGURATIONS = ("config.json", "adapter_config.json", "modules.json")
_FOLDER_STARTS = ("/", "./", "../", "~")
_IDENTITY_SUFFIXES = (".safetensors", ".bin", ".json", ".txt", ".model", ".py", ".metadata")
_OTHER_FRAMEWORKS = ["*.onnx", "onnx/*", "openvino/*", "coreml/*", "*.h5", "*.msgpack", "*.ot", "*.gguf"]


def is_folder(model: str) -> bool:
    """Return whether `model` is spelled as a path."""
    return model.startswith(_FOLDER_STARTS)


def is_on_hub(model: str) -> bool:
    """Return whether `model` is spelled as a model of the Hub."""
    return bool(model) and not is_folder(model) and not model.startswith(PACKAGE)


def locate(model: str, revision: str | None) -> Path:
    """Return the folder that holds a checkpoint. A model of the Hub that isn't cached is downloaded.

    Raises:
        ConfigError: a package or a folder has no checkpoint.
        NotAtHand: a Hub model has no revision, or the model is not in the cache and the Hub doesn't give it; says
            which snapshot to put where.
    """
    if not model.startswith(PACKAGE) and not is_folder(model):
        return _snapshot(model, revision)
    folder = _package_folder(model) if model.startswith(PACKAGE) else Path(model).expanduser()
    if not any((folder / name).is_file() for name in CONFIGURATIONS):
        raise ConfigError(f"model {model!r}: {folder} holds no checkpoint, because it has no config.json")
    return folder


def require_at_hand(model: str, revision: str | None, *, ask_hub: bool) -> Path | None:
    """Check that `locate` would find a checkpoint. Nothing is downloaded.

    Returns:
        The checkpoint's folder; None if the Hub has still to give it.

    Args:
        model: spelled as for `locate`.
        revision: the model's commit on the Hub.
        ask_hub: whether the Hub is asked if it would give the files that are not in the cache.

    Raises:
        ConfigError, NotAtHand: see `locate`.
    """
    if model.startswith(PACKAGE) or is_folder(model):
        return locate(model, revision)
    revision = _pinned(model, revision)
    try:
        return _fetched(model, revision, cached_only=True)
    except OSError as problem:
        if not ask_hub or not _hub_gives(model, revision):
            raise NotAtHand(f"{model} at {revision[:12]}", _how_to_get(model, revision)) from problem
        return None


def cached(model: str, revision: str | None) -> Path | None:
    """Return the folder of a checkpoint that is on this machine; None if it isn't, or if its commit is not known.

    Raises:
        ConfigError: a package or a folder has no checkpoint.
    """
    if model.startswith(PACKAGE) or is_folder(model):
        return locate(model, revision)
    if revision is None:
        return None
    try:
        return _fetched(model, revision, cached_only=True)
    except OSError:
        return None


def hub_answers() -> bool:
    """Ask once whether the Hub can be reached. If not, this process looks in the cache only.

    Otherwise each look-up would try for half a minute, and a benchmark makes hundreds of look-ups.
    """
    from huggingface_hub import constants
    from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]
    from huggingface_hub.utils import get_session  # type: ignore[attr-defined]

    if constants.HF_HUB_OFFLINE:
        return False
    try:
        get_session().head(constants.ENDPOINT, timeout=HUB_TIMEOUT_S)
    except HTTPError:
        constants.HF_HUB_OFFLINE = True
        return False
    return True


def _hub_gives(model: str, revision: str) -> bool:
    """Ask the Hub for the headers of a few small files, which it refuses if a licence has to be accepted first."""
    from huggingface_hub import snapshot_download

    try:
        snapshot_download(model, revision=revision, allow_patterns=["*config.json"], dry_run=True)
    except OSError:
        return False
    return True


def identity(model: str, revision: str | None) -> dict[str, str]:
    """Return the name of a model's bytes: its commit on the Hub, or the digest of its local files."""
    if model.startswith(PACKAGE) or is_folder(model):
        return {"weights": weights_digest(locate(model, revision))}
    return {"model": model, "revision": _pinned(model, revision)}


def dimension_of_modules(folder: Path) -> int | None:
    """Return the components of the vectors of a checkpoint of sentence-transformers; None if its files don't tell.

    The last of its modules that tells a size is asked: a layer after pooling, or pooling itself.
    """
    if not (folder / "modules.json").is_file():
        return None
    modules = json.loads((folder / "modules.json").read_text("utf-8"))
    keys = ("out_features", "word_embedding_dimension")
    sizes = [read_number(folder / module["path"] / "config.json", key) for module in modules for key in keys]
    return next((size for size in reversed(sizes) if size), None)


def read_number(file: Path, key: str) -> int | None:
    """Return a whole number of a JSON file; None if the file or the number isn't there."""
    value = json.loads(file.read_text("utf-8")).get(key) if file.is_file() else None
    return value if isinstance(value, int) else None


def weights_digest(folder: Path) -> str:
    """Return the SHA-256 over names and bytes of a checkpoint's weights, tokenizer, configuration and code."""
    files = sorted(path for path in folder.rglob("*") if path.suffix in _IDENTITY_SUFFIXES and path.is_file())
    digest = hashlib.sha256()
    for path in files:
        status = path.stat()
        content = _digest_while_unchanged(path, status.st_size, status.st_mtime_ns)
        digest.update(f"{path.relative_to(folder).as_posix()}\0{content}\n".encode())
    return digest.hexdigest()


@cache
def _digest_while_unchanged(path: Path, num_bytes: int, modified_ns: int) -> str:
    return sha256_of(path)


def _package_folder(model: str) -> Path:
    package = model.removeprefix(PACKAGE)
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise ConfigError(f"model {model!r}: the Python package {package!r} is not installed")
    return Path(found.submodule_search_locations[0]) / "model"


def _pinned(model: str, revision: str | None) -> str:
    if revision is None:
        raise NotAtHand(
            f"the commit of {model}",
            f"model {model!r} has no revision, so it could change under the benchmark: give `revision:`, the commit "
            f"of its weights, in your own row. (A local folder is written ./{model})",
        )
    return revision


def _snapshot(model: str, revision: str | None) -> Path:
    revision = _pinned(model, revision)
    problem: OSError | None = None
    for cached_only in (True, False):
        try:
            return _fetched(model, revision, cached_only=cached_only)
        except OSError as error:
            problem = error
    raise NotAtHand(f"{model} at {revision[:12]}", _how_to_get(model, revision)) from problem


def _fetched(model: str, revision: str, *, cached_only: bool) -> Path:
    """Return the folder of a checkpoint from the cache, or else from the Hub.

    Raises:
        OSError: it is not there; every error of the Hub is one.
    """
    from huggingface_hub import snapshot_download

    return Path(
        snapshot_download(model, revision=revision, local_files_only=cached_only, ignore_patterns=_OTHER_FRAMEWORKS)
    )


def _how_to_get(model: str, revision: str) -> str:
    from huggingface_hub import constants

    cached = Path(constants.HF_HUB_CACHE) / f"models--{model.replace('/', '--')}" / "snapshots" / revision
    return (
        f"model {model!r} at revision {revision} is not on this machine, and the Hub did not give it. Run\n"
        f"      hf download {model} --revision {revision}\n"
        f"    on a machine with a network and copy that snapshot to\n"
        f"      {cached}\n"
        f"    or to any folder, and name the folder as `model:` in a row of your own"
    )
