"""Texts of language models as artefacts: one per prompt and seed, made once and the same ever after.

Many texts together are also packed (`packed_texts`), and then read from there.

What is kept is what the model wrote and why it ended. Answer and flag are worked out anew by whoever reads it, so
that a better rule of `rewriting.answers` never asks a model again.
"""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from r2med_ray.activity import Activity, doing
from r2med_ray.chat import ChatPrompt, Completion, LanguageModel, Message, TextGenerator
from r2med_ray.errors import ContextError, StageError
from r2med_ray.errors import named as named_units
from r2med_ray.storage.artifact import Artifact
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import ArtifactKey, Json, fingerprint
from r2med_ray.storage.places import at_once
from r2med_ray.workbench.longest_first import Lengths, LongestFirst
from r2med_ray.workbench.packed_texts import PackedTexts

logger = logging.getLogger(__name__)

KIND = "generation"
FILE = "completion.json"


class Texts:
    """The texts in a store.

    Args:
        store: where they are kept.
        may_write: whether texts that are found one by one may be packed.
    """

    def __init__(self, store: ArtifactStore, *, may_write: bool = True) -> None:
        self._store = store
        self._may_write = may_write
        self._packed = PackedTexts(store)
        self._listed: dict[str, set[str]] = {}

    def keys(self, model: LanguageModel, prompts: Sequence[ChatPrompt]) -> list[ArtifactKey]:
        """Return a key per prompt, which depends on no prompt beside it, nor on their order or number."""
        generator = dict(model.generation_inputs())
        return [
            ArtifactKey(
                KIND,
                {
                    "generator": generator,
                    "seed": prompt.seed,
                    "stop": list(prompt.stop),
                    "prompt": fingerprint([_plain(messages) for messages in (prompt.messages, *prompt.shorter)]),
                    **({"raw": True, "top_tokens": prompt.top_tokens} if prompt.is_raw else {}),
                    **({"tools": fingerprint([*prompt.tools])} if prompt.tools else {}),
                },
                is_text=True,
            )
            for prompt in prompts
        ]

    def find(self, keys: Sequence[ArtifactKey]) -> dict[str, Completion]:
        """Return the stored texts by the digest of their key.

        Raises:
            ArtifactError: a stored text is damaged.
        """
        by_digest = {key.digest: key for key in keys}
        found = self._packed.find(by_digest)
        left = [key for digest, key in by_digest.items() if digest not in found]
        artifacts = zip(left, self._store.find_all(left, self._listed), strict=True)
        there = {key.digest: artifact for key, artifact in artifacts if artifact is not None}
        alone = dict(zip(there, at_once(_completion, there.values()), strict=True))
        if self._may_write:
            self._packed.keep(alone)
        return found | alone

    def write(
        self,
        model: LanguageModel,
        generator: TextGenerator,
        asked: Mapping[str, tuple[ArtifactKey, ChatPrompt]],
        lengths: Lengths | None = None,
    ) -> dict[str, Completion | None]:
        """Have texts written, and keep each as soon as it is there.

        Args:
            model: the language model; its name is stored with each text.
            generator: writes them.
            asked: digest of a text's key → the key, and the prompt; no two prompts have one unit.
            lengths: has what is known of the model's answers, and gets those that are written.

        Returns:
            The text by the digest of its key; None for a prompt that is too long in its shortest version.

        Raises:
            StageError: prompts failed for good; names their units. What was written until then is kept.
        """
        written: dict[str, Completion | None] = {}
        try:
            with doing(f"write with {model.name}", len(asked), "texts") as activity:
                keep = partial(self._keep, model, activity)
                have_written(model, generator, asked, written, keep, lengths or Lengths())
        finally:
            self._packed.keep({digest: text for digest in asked if (text := written.get(digest)) is not None})
        return written

    def _keep(
        self, model: LanguageModel, activity: Activity, key: ArtifactKey, prompt: ChatPrompt, completion: Completion
    ) -> None:
        content = json.dumps(completion.to_json(), ensure_ascii=False)
        with self._store.create(key) as writer:
            writer.attributes.update(model=model.name, unit=prompt.unit)
            writer.write(FILE, content.encode("utf-8", "surrogatepass"))
        activity.add(1, completion.completion_tokens or 0)


def _completion(artifact: Artifact) -> Completion:
    return Completion.from_json(json.loads(artifact.read(FILE).to_pybytes().decode("utf-8", "surrogatepass")))


def have_written(
    model: LanguageModel,
    generator: TextGenerator,
    asked: Mapping[str, tuple[ArtifactKey, ChatPrompt]],
    written: dict[str, Completion | None],
    keep: Callable[[ArtifactKey, ChatPrompt, Completion], None],
    lengths: Lengths,
) -> None:
    """Have texts written, those first that should become the longest.

    Args:
        model: the language model.
        generator: writes them.
        asked: digest of a text's key → the key, and the prompt; no two prompts have one unit.
        written: gets each text as soon as it is there; None for a prompt that is too long in its shortest version.
        keep: keeps a text; called from any thread.
        lengths: has what is known of the model's answers, and gets those that are written.

    Raises:
        StageError: prompts failed for good; names their units.
    """
    while waiting := {digest: item for digest, item in asked.items() if digest not in written}:
        items = list(waiting.values())
        try:
            prompts = [prompt for _, prompt in items]
            order = LongestFirst(prompts, lengths)
            generator.generate(prompts, keep=partial(_receive, items, written, keep, order), order=order)
        except ContextError as error:
            too_long = {key.digest: None for key, prompt in items if prompt.unit in error.units}
            if not too_long:
                raise
            logger.warning("%s has no room for %d prompts: %s", model.name, len(too_long), error)
            written.update(too_long)
        else:
            lost = [prompt.unit for key, prompt in items if key.digest not in written]
            if lost:
                raise StageError(f"generate with {model.name}", named_units(lost), "there is no answer")


def _receive(
    items: Sequence[tuple[ArtifactKey, ChatPrompt]],
    written: dict[str, Completion | None],
    keep: Callable[[ArtifactKey, ChatPrompt, Completion], None],
    order: LongestFirst,
    place: int,
    completion: Completion,
) -> None:
    key, prompt = items[place]
    keep(key, prompt, completion)
    written[key.digest] = completion
    order.note(place, completion)


def named(part: str, prompts: Sequence[ChatPrompt]) -> list[ChatPrompt]:
    """Return prompts that say which part asks, and whose units begin with it, so that no two of a batch are alike."""
    return [replace(prompt, part=part, unit=f"{part}, {prompt.unit}") for prompt in prompts]


def _plain(messages: Sequence[Message]) -> list[Json]:
    return [dict(message) for message in messages]
