"""Texts of a language model as artefacts: one per prompt and seed, made once and identical afterwards.

What is kept is what the model wrote and why it ended. Answer and flag are worked out anew by whoever reads it, so
that a better rule of `answers` never asks a model again.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from r2med_ray.protocols import ChatPrompt, Completion, Message, TextGenerator
from r2med_ray.rewriting.published_generations import FILE_NAME
from r2med_ray.storage.artifacts import ArtifactKey, ArtifactStore, Json, fingerprint
from r2med_ray.types import Query

KIND = "generation"
FILE = "completion.json"

READERS = 16
"""Generations that are looked up at once: they are small, and an object store takes its time."""


class StoredGenerator:
    """A language model whose texts are kept; fulfils `protocols.TextGenerator`.

    What it returns is what the store holds, so a text is the same for everybody who asks for it, ever after.

    Args:
        generator: writes what isn't stored yet.
        store: of the texts.
        name: of the language model; stands beside each text with what the text is about.
    """

    def __init__(self, generator: TextGenerator, store: ArtifactStore, *, name: str = "") -> None:
        self._generator = generator
        self._store = store
        self._name = name

    def inputs(self) -> Mapping[str, Json]:
        """Return everything about model and sampling, except seeds, that changes a text, for artefact keys."""
        return self._generator.inputs()

    def unfinished(self, prompts: Sequence[ChatPrompt]) -> int:
        """Return how many texts are yet to be written."""
        keys = self._keys(prompts)
        return len({key.digest for key in keys}) - len(self._find(keys))

    def generate(
        self, prompts: Sequence[ChatPrompt], *, keep: Callable[[int, Completion], None] | None = None
    ) -> list[Completion]:
        """Return one completion per prompt, in order; only those that aren't stored are asked for.

        Raises:
            StageError: prompts failed for good; names their units. What was written until then is kept.
            ArtifactError: a stored text is damaged.
        """
        keys = self._keys(prompts)
        found = self._find(keys)
        missing = list({key.digest: at for at, key in enumerate(keys) if key.digest not in found}.values())
        if missing:

            def store(place: int, completion: Completion) -> None:
                key, prompt = keys[missing[place]], prompts[missing[place]]
                self._keep(key, prompt.unit, completion)
                found[key.digest] = completion

            self._generator.generate([prompts[at] for at in missing], keep=store)
        completions = [found[key.digest] for key in keys]
        if keep is not None:
            for at, completion in enumerate(completions):
                keep(at, completion)
        return completions

    def _keys(self, prompts: Sequence[ChatPrompt]) -> list[ArtifactKey]:
        """Return a key per prompt, which depends on no prompt beside it, nor on their order or number."""
        generator = dict(self.inputs())
        return [
            ArtifactKey(
                KIND,
                {
                    "generator": generator,
                    "seed": prompt.seed,
                    "stop": list(prompt.stop),
                    "prompt": fingerprint([_plain(messages) for messages in (prompt.messages, *prompt.shorter)]),
                },
            )
            for prompt in prompts
        ]

    def _keep(self, key: ArtifactKey, unit: str, completion: Completion) -> None:
        content = json.dumps(asdict(completion), ensure_ascii=False, indent=1)
        with self._store.create(key) as writer:
            writer.attributes.update(model=self._name, unit=unit)
            writer.write(FILE, content.encode("utf-8", "surrogatepass"))

    def _find(self, keys: Sequence[ArtifactKey]) -> dict[str, Completion]:
        """Return the stored texts by the digest of their key."""
        by_digest = {key.digest: key for key in keys}
        with ThreadPoolExecutor(READERS) as pool:
            found = zip(by_digest, pool.map(self._find_one, by_digest.values()), strict=True)
            return {digest: completion for digest, completion in found if completion is not None}

    def _find_one(self, key: ArtifactKey) -> Completion | None:
        artifact = self._store.find(key)
        if artifact is None:
            return None
        return Completion(**json.loads(artifact.read(FILE).to_pybytes().decode("utf-8", "surrogatepass")))


def export_generations(
    queries: Sequence[Query], raw_of: Callable[[Query], tuple[str, str]], folder: Path, name: str
) -> Path:
    """Write texts in R2MED's layout, for others to replay.

    Args:
        queries: one line each, in their order.
        raw_of: returns a query's text with its reasoning, and why it ended.
        folder: the task's, or any.
        name: method and writer, e.g. `hyde/qwen-7b`.

    Returns:
        The file that was written.
    """
    path = folder / name / FILE_NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", errors="surrogatepass") as stream:
        for query in queries:
            raw, finish_reason = raw_of(query)
            row = {"id": query.query_id, "text": query.text, "hy_doc": raw, "finish_reason": finish_reason}
            stream.write(json.dumps(row, ensure_ascii=False) + "\n")
    return path


def _plain(messages: Sequence[Message]) -> list[Json]:
    return [dict(message) for message in messages]
