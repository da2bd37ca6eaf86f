"""What a manifest says of an artefact and its files. Whatever is read is checked against what was written."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from r2med_ray.errors import ArtifactError
from r2med_ray.storage.keys import ArtifactKey, Json, canonical_json, fingerprint_of
from r2med_ray.storage.places import Place

MANIFEST = "manifest.json"
DIGEST = "digest"
"""Field of a manifest: the fingerprint of its other fields."""

PART_BYTES = 2**22
"""Bytes of a file that are read at once where it is read in parts."""

REMEDY = "Remove it with `r2med artifacts gc --damaged` and run the job again."
"""What helps against a damaged artefact."""


def manifest_path(base: str, *, is_text: bool) -> str:
    """Return the path of an artefact's manifest.

    Args:
        base: the artefact's path, which is that of its folder if it has one.
        is_text: whether the manifest is all of it.
    """
    return f"{base}.{MANIFEST}" if is_text else f"{base}/{MANIFEST}"


def is_manifest(file_name: str) -> bool:
    """Return whether a file's name is that of a manifest."""
    return file_name == MANIFEST or file_name.endswith(f".{MANIFEST}")


def name_of(path: str) -> str:
    """Return an artefact's path from that of its manifest or its folder."""
    return path.removesuffix(f".{MANIFEST}").removesuffix(f"/{MANIFEST}")


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of an artefact.

    Args:
        path: where it is in the store's file system; the manifest's path if the manifest holds the text of the file.
        num_bytes: its size.
        sha256: of its bytes; nothing if the manifest holds the text, for a manifest has a digest of its own.
        content: its bytes, if the manifest holds them.
    """

    path: str
    num_bytes: int
    sha256: str = ""
    content: bytes | None = None

    def load(self, place: Place) -> tuple[str | None, pa.Buffer | None]:
        """Read it, and return (what is wrong, None) or (None, the bytes)."""
        if self.content is not None:
            return None, pa.py_buffer(self.content)
        try:
            content = place.read(self.path)
        except FileNotFoundError:
            return f"{self.path} is missing", None
        problem = self._problem(content.size, hashlib.sha256(content).hexdigest())
        return (problem, None) if problem else (None, content)

    def open(self, place: Place) -> tuple[str | None, pa.NativeFile | None]:
        """Read it in parts, and return (what is wrong, None) or (None, the file, open to be read again).

        It must be a file of its own: one that the manifest holds is small, and `load` has it.
        """
        try:
            file, digest = place.open(self.path), hashlib.sha256()
        except FileNotFoundError:
            return f"{self.path} is missing", None
        with place.reaching("can't be read"):
            part = bytearray(PART_BYTES)
            while count := file.readinto(part):
                digest.update(memoryview(part)[:count])
            problem = self._problem(file.tell(), digest.hexdigest())
            file.seek(0)
        if problem:
            file.close()
        return (problem, None) if problem else (None, file)

    def _problem(self, num_bytes: int, digest: str) -> str | None:
        if num_bytes != self.num_bytes:
            return f"{self.path} has {num_bytes} bytes, its manifest says {self.num_bytes}"
        if digest != self.sha256:
            return f"{self.path} has SHA-256 {digest}, its manifest says {self.sha256}"
        return None


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a manifest says: what the artefact was made from, what its writer noted, and its files by name."""

    inputs: Mapping[str, Json]
    attributes: Mapping[str, Json]
    files: Mapping[str, StoredFile]


def manifest_bytes(
    key: ArtifactKey, base: str, attributes: Mapping[str, Json], files: Mapping[str, StoredFile]
) -> bytes:
    """Return a manifest as bytes: JSON in UTF-8.

    Args:
        key: the artefact's key.
        base: the folder that the manifest gives paths in.
        attributes: what the writer noted.
        files: the artefact's files by name.
    """
    said = {
        "kind": key.kind,
        "inputs": key.inputs,
        "attributes": attributes,
        "files": {name: _said(stored, base) for name, stored in files.items()},
    }
    text = canonical_json(json.loads(json.dumps(said, ensure_ascii=False)))  # as a reader gets it: all keys are texts
    return f'{{"{DIGEST}":"{fingerprint_of(text)}",{text[1:]}'.encode("utf-8", "surrogatepass")


def _said(stored: StoredFile, base: str) -> dict[str, Json]:
    if stored.content is not None:
        return {"text": stored.content.decode("utf-8", "surrogatepass")}
    return {"path": stored.path.removeprefix(f"{base}/"), "num_bytes": stored.num_bytes, "sha256": stored.sha256}


def read_manifest(name: str, path: str, content: bytes) -> Manifest:
    """Read a manifest.

    Args:
        name: the artefact's name, for errors.
        path: the manifest's path.
        content: its bytes.

    Raises:
        ArtifactError: it isn't what was written.
    """
    folder = path.rpartition("/")[0]
    try:
        said = json.loads(content)
        digest = said.pop(DIGEST, None)
        if digest not in (None, fingerprint_of(canonical_json(said))):  # None: written without a digest
            raise ArtifactError(f"artefact {name}: its manifest is not what its digest says. {REMEDY}")
        files = {file: _file(stored, folder, path) for file, stored in said["files"].items()}
        return Manifest(said["inputs"], said["attributes"], files)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArtifactError(f"artefact {name}: its manifest can't be read ({error!r}). {REMEDY}") from error


def _file(stored: Mapping[str, Json], folder: str, path: str) -> StoredFile:
    if "text" in stored:
        content = stored["text"].encode("utf-8", "surrogatepass")
        return StoredFile(path, len(content), content=content)
    return StoredFile(f"{folder}/{stored['path']}", stored["num_bytes"], stored["sha256"])
