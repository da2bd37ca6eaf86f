import json
import threading
from pathlib import Path
from typing import Any

import pytest

from r2med_ray.errors import ArtifactError, StageError
from r2med_ray.protocols import ChatPrompt, Completion
from r2med_ray.rewriting.generations import KIND, StoredGenerator
from r2med_ray.storage.artifacts import ArtifactStore
from tests.fakes import ScriptedGenerator


def prompt(text: str, *, seed: int = 42, **more: Any) -> ChatPrompt:
    return ChatPrompt(unit=f"query {text!r}", messages=({"role": "user", "content": text},), seed=seed, **more)


PROMPTS = [prompt("a"), prompt("b"), prompt("c")]
ANSWERS: dict[str, str | Completion] = {"a": "A", "b": "B", "c": "C"}


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(str(tmp_path))


class OtherModel(ScriptedGenerator):
    def inputs(self) -> dict[str, str]:
        return {"model": "other"}


class FailsAtB(ScriptedGenerator):
    """Answers what comes before b, and then fails."""

    def generate(self, prompts, *, keep=None):  # type: ignore[no-untyped-def]
        contents = [prompt.messages[-1]["content"] for prompt in prompts]
        super().generate(prompts[: contents.index("b")], keep=keep)
        raise StageError("generate", prompts[contents.index("b")].unit, "HTTP 500")


def test_a_text_is_asked_for_once(store: ArtifactStore) -> None:
    model = ScriptedGenerator(ANSWERS)

    first = StoredGenerator(model, store).generate(PROMPTS)
    again = StoredGenerator(ScriptedGenerator({}), store).generate(PROMPTS)

    assert [completion.text for completion in first] == ["A", "B", "C"]
    assert again == first
    assert len(model.calls) == 1


def test_order_and_number_of_prompts_change_no_key(store: ArtifactStore) -> None:
    StoredGenerator(ScriptedGenerator(ANSWERS), store).generate([PROMPTS[2], PROMPTS[0]])
    model = ScriptedGenerator(ANSWERS)

    completions = StoredGenerator(model, store).generate(PROMPTS)

    assert [completion.text for completion in completions] == ["A", "B", "C"]
    assert model.calls == [(PROMPTS[1],)]


def test_a_text_says_which_model_wrote_it_about_what_and_neither_changes_its_key(store: ArtifactStore) -> None:
    StoredGenerator(ScriptedGenerator(ANSWERS), store, name="qwen-7b").generate(PROMPTS[:1])

    assert [artifact.attributes for artifact in store.all()] == [{"model": "qwen-7b", "unit": "query 'a'"}]
    assert StoredGenerator(ScriptedGenerator({}), store, name="other").unfinished(PROMPTS[:1]) == 0


def test_two_prompts_that_say_the_same_are_one(store: ArtifactStore) -> None:
    model = ScriptedGenerator(ANSWERS)
    again = ChatPrompt(unit="query 'same words'", messages=PROMPTS[0].messages, seed=42)

    completions = StoredGenerator(model, store).generate([PROMPTS[0], again])

    assert [completion.text for completion in completions] == ["A", "A"]
    assert len(model.calls[0]) == 1


def test_what_changes_a_text_is_another_text(store: ArtifactStore) -> None:
    shorter = (({"role": "user", "content": "a"},),)
    stored = StoredGenerator(ScriptedGenerator(ANSWERS), store)
    for changed in (prompt("a"), prompt("a", seed=43), prompt("a", stop=("x",)), prompt("a", shorter=shorter)):
        assert stored.unfinished([changed]) == 1
        stored.generate([changed])
    StoredGenerator(OtherModel(ANSWERS), store).generate([prompt("a")])

    assert len(store.names_of(KIND)) == 5


def test_r13_what_was_written_before_a_failure_is_not_asked_for_again(store: ArtifactStore) -> None:
    with pytest.raises(StageError, match="query 'b'"):
        StoredGenerator(FailsAtB(ANSWERS), store).generate(PROMPTS)
    model = ScriptedGenerator(ANSWERS)
    stored = StoredGenerator(model, store)

    assert stored.unfinished(PROMPTS) == 2
    assert [completion.text for completion in stored.generate(PROMPTS)] == ["A", "B", "C"]
    assert model.calls == [(PROMPTS[1], PROMPTS[2])]
    assert stored.unfinished(PROMPTS) == 0


def test_everything_about_a_text_is_kept(store: ArtifactStore) -> None:
    whole = Completion(
        text="a\u2028\x00\ud800é",
        reasoning="so",
        finish_reason="length",
        prompt_tokens=3,
        completion_tokens=9,
        shortened=1,
    )

    StoredGenerator(ScriptedGenerator({"a": whole}), store).generate([prompt("a")])

    assert StoredGenerator(ScriptedGenerator({}), store).generate([prompt("a")]) == [whole]


def test_what_the_store_holds_is_what_counts(store: ArtifactStore) -> None:
    class Raced(ScriptedGenerator):
        def generate(self, prompts, *, keep=None):  # type: ignore[no-untyped-def]
            super().generate(prompts, keep=keep)
            return super().generate(prompts[::-1])

    completions = StoredGenerator(Raced(ANSWERS), store).generate(PROMPTS)

    assert [completion.text for completion in completions] == ["A", "B", "C"]


def test_every_completion_is_passed_on_with_its_position(store: ArtifactStore) -> None:
    kept: dict[int, str] = {}
    lock = threading.Lock()

    def keep(position: int, completion: Completion) -> None:
        with lock:
            kept[position] = completion.text

    StoredGenerator(ScriptedGenerator(ANSWERS), store).generate(PROMPTS[:1])
    StoredGenerator(ScriptedGenerator(ANSWERS), store).generate(PROMPTS, keep=keep)

    assert kept == {0: "A", 1: "B", 2: "C"}


def test_a_damaged_text_is_an_error(store: ArtifactStore, tmp_path: Path) -> None:
    StoredGenerator(ScriptedGenerator(ANSWERS), store).generate(PROMPTS[:1])
    (file,) = tmp_path.glob("generation/*/*/completion.json")
    file.write_text(json.dumps({"text": "B"}))

    with pytest.raises(ArtifactError, match=r"completion\.json"):
        StoredGenerator(ScriptedGenerator(ANSWERS), store).generate(PROMPTS[:1])
