"""What planning and resuming cost in an object store that takes 30 ms per request: nothing waits, requests count."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pytest
from pyarrow import fs
from pyarrow._fs import _MockFileSystem

from r2med_ray.chat import ChatPrompt, Completion
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import ArtifactKey
from r2med_ray.storage.places import READERS
from r2med_ray.workbench import packed_texts
from r2med_ray.workbench.texts import FILE, KIND, Texts
from tests.fakes import ScriptedGenerator
from tests.object_store import Clock, Requests
from tests.unit.scripted_runner import ScriptedModel

MODEL = ScriptedModel()


@pytest.fixture
def clock(store: ArtifactStore) -> Clock:
    """The store's clock: the store is in memory, has no folders to make, and copies."""
    clock = Clock(READERS)
    filesystem = fs.PyFileSystem(Requests(_MockFileSystem(), clock))
    object.__setattr__(store.place, "filesystem", filesystem)
    object.__setattr__(store.place, "root", "store")
    store.filesystem.create_dir("store")
    return clock


def said(text: str) -> Completion:
    return Completion(text=text, reasoning="", finish_reason="stop")


def prompts(count: int, text: str = "t") -> list[ChatPrompt]:
    return [
        ChatPrompt(unit=f"{text} {number}", messages=({"role": "user", "content": f"{text} {number}"},), seed=42)
        for number in range(count)
    ]


def written_one_by_one(store: ArtifactStore, keys: Sequence[ArtifactKey]) -> None:
    """Store texts as they were stored before there were packs."""
    for number, key in enumerate(keys):
        with store.create(key) as writer:
            writer.attributes.update(model="m", unit="u")
            writer.write(FILE, json.dumps(asdict(said(f"answer {number}"))).encode())


def write(store: ArtifactStore, asked: Sequence[ChatPrompt]) -> dict[str, Any]:
    texts = Texts(store)
    keys = texts.keys(MODEL, asked)
    answers: dict[str, str | Completion] = {prompt.messages[-1]["content"]: f"of {prompt.unit}" for prompt in asked}
    pairs = zip(keys, asked, strict=True)
    return texts.write(MODEL, ScriptedGenerator(answers), {key.digest: (key, prompt) for key, prompt in pairs})


def test_a_store_of_a_hundred_thousand_artefacts_is_asked_for_texts_within_seconds(
    store: ArtifactStore, clock: Clock
) -> None:
    # 100 parts ask for 1000 texts each. The store has 50 packs of 2000 texts: the listing is 1 request, and their
    # manifests 2 × 50, 24 at once. A part's texts lie together, in one pack, which is 2 requests; the parts come one
    # after the other: 0.03 + (2 × 50 + 100 × 2) × 0.03 / 24 = 0.4 s.
    texts = Texts(store)
    asked = prompts(100_000)
    keys = texts.keys(MODEL, asked)
    texts._packed.keep({key.digest: said(prompt.unit) for key, prompt in zip(keys, asked, strict=True)})
    clock.seconds, clock.calls = 0.0, []

    again = Texts(store)
    found = [again.find(keys[start : start + 1000]) for start in range(0, len(keys), 1000)]

    assert sum(map(len, found)) == 100_000
    assert found[7][keys[7_001].digest].text == "t 7001"
    assert clock.seconds == pytest.approx(0.03 + 300 * 0.03 / READERS)


def test_texts_that_nobody_wrote_cost_one_listing(store: ArtifactStore, clock: Clock) -> None:
    texts = Texts(store)
    written_one_by_one(store, texts.keys(MODEL, prompts(1500, "other")))
    clock.seconds, clock.calls = 0.0, []

    fresh = Texts(store, may_write=False)
    for part in range(20):
        assert fresh.find(fresh.keys(MODEL, prompts(1000, f"part {part}"))) == {}

    # The packs' folder once, and 1500 names on two pages once.
    assert [call for call, _ in clock.calls] == ["list"] * 3


def test_an_old_store_answers_with_the_same_keys_and_is_quick_from_the_second_time_on(
    store: ArtifactStore, clock: Clock
) -> None:
    texts = Texts(store)
    keys = texts.keys(MODEL, prompts(300))
    written_one_by_one(store, keys)
    clock.calls = []

    def gets() -> int:
        count = sum(call == "get" for call, _ in clock.calls)
        clock.calls = []
        return count

    planned = Texts(store, may_write=False).find(keys)
    assert gets() == 300  # the one file of each
    assert store.names_of(packed_texts.KIND) == []
    clock.calls = []
    first = Texts(store).find(keys)
    assert gets() == 301  # and the manifest of the pack that was made
    second = Texts(store).find(keys)
    assert gets() == 2  # manifest and texts of the pack
    assert planned == first == second
    assert [first[key.digest].text for key in keys] == [f"answer {number}" for number in range(300)]


def test_what_is_written_together_is_packed_and_kept_one_by_one(store: ArtifactStore) -> None:
    asked = prompts(packed_texts.FEWEST)
    written = write(store, asked)
    keys = Texts(store).keys(MODEL, asked)

    assert len(store.names_of(KIND)) == packed_texts.FEWEST
    assert len(store.names_of(packed_texts.KIND)) == 1
    for key in keys:
        store.remove(key.name)
    assert Texts(store).find(keys) == written


def test_few_texts_are_not_packed(store: ArtifactStore) -> None:
    write(store, prompts(packed_texts.FEWEST - 1))

    assert store.names_of(packed_texts.KIND) == []


def test_a_text_without_a_form_in_utf_8_is_packed_unchanged(store: ArtifactStore) -> None:
    odd = {f"{number:032x}": said(f"\ud800 {number}") for number in range(packed_texts.FEWEST)}
    packed_texts.PackedTexts(store).keep(odd)

    assert packed_texts.PackedTexts(store).find(odd) == odd


def test_a_kind_is_listed_alone(store: ArtifactStore, clock: Clock) -> None:
    written_one_by_one(store, Texts(store).keys(MODEL, prompts(1500)))
    clock.calls = []

    assert store.names_of("corpus") == []
    assert clock.calls == [("list", "store/corpus")]


def test_a_thousand_shards_are_looked_up_within_seconds(store: ArtifactStore, clock: Clock) -> None:
    keys = [ArtifactKey("vectors", {"shard": number}) for number in range(1000)]
    for key in keys:
        with store.create(key) as writer:
            writer.write("v", b"x")
    clock.seconds = 0.0

    # One list, which the other requests wait for, then 2 requests each, 24 at once: 0.03 + 2 × 1000 × 0.03 / 24 s.
    assert all(store.find_all(keys))
    assert clock.seconds == pytest.approx(0.03 + 2.5)


def test_a_thousand_shards_that_are_not_there_cost_one_listing(store: ArtifactStore, clock: Clock) -> None:
    keys = [ArtifactKey("vectors", {"shard": number}) for number in range(1000)]
    clock.calls = []

    assert store.find_all(keys) == [None] * 1000
    assert clock.calls == [("list", "store/vectors")]
