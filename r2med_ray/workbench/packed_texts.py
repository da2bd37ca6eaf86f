"""Texts of language models, many in one artefact: an object store takes as long for a small text as for thousands.

Each text also has an artefact of its own, which is written as soon as the text is there. Packs are made of these
artefacts, and are read first. A text that two packs hold is read from the first of them by name.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import islice

import pyarrow as pa

from r2med_ray.chat import Completion
from r2med_ray.storage.artifact import Artifact
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import ArtifactKey
from r2med_ray.storage.places import at_once

KIND = "generations"
FILE = "texts.parquet"

FEWEST = 32
"""So many texts that were written, or read one by one, are packed."""

MOST = 2000
"""Texts of one pack: about 5 MB, and a manifest of 80 kB."""


class PackedTexts:
    """The packs of a store. The store is listed once, when they are asked for first.

    Args:
        store: where they are kept.
    """

    def __init__(self, store: ArtifactStore) -> None:
        self._store = store
        self._pack_of: dict[str, Artifact] | None = None

    def find(self, digests: Iterable[str]) -> dict[str, Completion]:
        """Return the texts that a pack holds, by the digest of their key.

        Raises:
            ArtifactError: a pack is damaged.
        """
        wanted: defaultdict[str, set[str]] = defaultdict(set)
        packs = self._packs()
        for digest in digests:
            if digest in packs:
                wanted[packs[digest].name].add(digest)
        artifacts = {artifact.name: artifact for artifact in packs.values() if artifact.name in wanted}
        found: dict[str, Completion] = {}
        for texts in at_once(lambda name: _texts(artifacts[name], wanted[name]), wanted):
            found |= texts
        return found

    def keep(self, texts: Mapping[str, Completion]) -> None:
        """Pack texts that are not packed and are not few: digest of the key → text.

        Whoever asks for some of them later asks for neighbours, so they stay in their order.
        """
        if len(texts) < FEWEST:
            return
        packs = self._packs()
        left = iter([digest for digest in texts if digest not in packs])
        while len(digests := list(islice(left, MOST))) >= FEWEST:
            key = ArtifactKey(KIND, {"texts": digests})
            rows = [{"digest": digest, "completion": json.dumps(texts[digest].to_json())} for digest in digests]
            with self._store.create(key) as writer:
                writer.attributes["unit"] = f"{len(digests)} texts"
                writer.write_table(FILE, pa.Table.from_pylist(rows))
            packs.update(dict.fromkeys(digests, self._store.get(key)))

    def _packs(self) -> dict[str, Artifact]:
        """Return digest of a text's key → the pack that holds it."""
        if self._pack_of is None:
            pack_of: dict[str, Artifact] = {}
            for artifact in self._store.all(KIND):
                for digest in artifact.inputs["texts"]:
                    pack_of.setdefault(digest, artifact)
            self._pack_of = pack_of
        return self._pack_of


def _texts(pack: Artifact, digests: set[str]) -> dict[str, Completion]:
    table = pack.table(FILE)
    rows = zip(table["digest"].to_pylist(), table["completion"].to_pylist(), strict=True)
    return {digest: Completion.from_json(json.loads(content)) for digest, content in rows if digest in digests}
