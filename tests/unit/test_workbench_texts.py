"""A text is asked for once, stored unchanged, and the same for every part that asks for it later."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from r2med_ray.chat import ChatPrompt, Completion, TextGenerator, ToolCall
from r2med_ray.errors import ArtifactError, ContextError, StageError
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.storage.keys import ArtifactKey
from r2med_ray.workbench.texts import FILE, KIND, Texts
from tests.fakes import ScriptedGenerator
from tests.unit.scripted_runner import ScriptedModel

ANSWERS: dict[str, str | Completion] = {"a": "A", "b": "B", "c": "C"}
MODEL = ScriptedModel()


def prompt(text: str, *, seed: int = 42, **more: Any) -> ChatPrompt:
    return ChatPrompt(unit=f"query {text!r}", messages=({"role": "user", "content": text},), seed=seed, **more)


PROMPTS = [prompt("a"), prompt("b"), prompt("c")]


def unfinished(store: ArtifactStore, prompts: Sequence[ChatPrompt], model: ScriptedModel = MODEL) -> int:
    texts = Texts(store)
    keys = texts.keys(model, prompts)
    return len({key.digest for key in keys}) - len(texts.find(keys))


def write(
    store: ArtifactStore, generator: TextGenerator, prompts: Sequence[ChatPrompt], model: ScriptedModel = MODEL
) -> list[Completion | None]:
    """Have the texts written that aren't stored, as the driver does. Return all texts in the order of the prompts."""
    texts = Texts(store)
    keys = texts.keys(model, prompts)
    found: dict[str, Completion | None] = dict(texts.find(keys))
    asked = {key.digest: (key, item) for key, item in zip(keys, prompts, strict=True) if key.digest not in found}
    found |= texts.write(model, generator, asked) if asked else {}
    return [found[key.digest] for key in keys]


def said(completions: Sequence[Completion | None]) -> list[str | None]:
    return [completion.text if completion else None for completion in completions]


class FailsAtB(ScriptedGenerator):
    """A model that answers the prompts before `b`, and then fails."""

    def generate(self, prompts, *, keep=None, order=None):  # type: ignore[no-untyped-def]
        contents = [prompt.messages[-1]["content"] for prompt in prompts]
        super().generate(prompts[: contents.index("b")], keep=keep)
        raise StageError("generate", prompts[contents.index("b")].unit, "HTTP 500")


def test_a_text_is_asked_for_once(store: ArtifactStore) -> None:
    model = ScriptedGenerator(ANSWERS)

    first = write(store, model, PROMPTS)
    again = write(store, ScriptedGenerator({}), PROMPTS)

    assert said(first) == ["A", "B", "C"]
    assert again == first
    assert len(model.calls) == 1


TOOLS = ({"type": "function", "function": {"name": "retrieve"}},)


def test_calls_of_tools_are_stored_alone_and_packed(store: ArtifactStore) -> None:
    prompts = [prompt(str(number), tools=TOOLS) for number in range(40)]  # 32 texts are packed
    called = {
        str(number): Completion(text="", reasoning="", finish_reason="tool_calls", tool_calls=(ToolCall("a", "{}"),))
        for number in range(40)
    }

    first = write(store, ScriptedGenerator(called), prompts)

    assert write(store, ScriptedGenerator({}), prompts) == first == list(called.values())
    for name in store.names_of(KIND):
        store.remove(name)
    assert write(store, ScriptedGenerator({}), prompts) == first


def test_tools_are_part_of_a_key_and_texts_without_tools_are_stored_as_ever(store: ArtifactStore) -> None:
    texts = Texts(store)
    [plain], [with_tools] = (texts.keys(MODEL, [item]) for item in (prompt("a"), prompt("a", tools=TOOLS)))

    assert "tools" not in plain.inputs
    assert plain.digest != with_tools.digest
    assert "tool_calls" not in Completion(text="a", reasoning="", finish_reason="stop").to_json()


def test_order_and_number_of_prompts_change_no_key(store: ArtifactStore) -> None:
    write(store, ScriptedGenerator(ANSWERS), [PROMPTS[2], PROMPTS[0]])
    model = ScriptedGenerator(ANSWERS)

    assert said(write(store, model, PROMPTS)) == ["A", "B", "C"]
    assert model.calls == [(PROMPTS[1],)]


def test_a_text_says_which_model_wrote_it_about_what_and_neither_changes_its_key(store: ArtifactStore) -> None:
    class Renamed(ScriptedModel):
        def generation_inputs(self) -> dict[str, str]:
            return {"model": "script"}

    write(store, ScriptedGenerator(ANSWERS), PROMPTS[:1])

    assert [artifact.attributes for artifact in store.all()] == [{"model": "script", "unit": "query 'a'"}]
    assert unfinished(store, PROMPTS[:1], Renamed("other")) == 0


def test_two_prompts_that_say_the_same_are_one(store: ArtifactStore) -> None:
    model = ScriptedGenerator(ANSWERS)
    again = ChatPrompt(unit="query 'same words'", messages=PROMPTS[0].messages, seed=42)

    assert said(write(store, model, [PROMPTS[0], again])) == ["A", "A"]
    assert len(model.calls[0]) == 1


def test_what_changes_a_text_is_another_text(store: ArtifactStore) -> None:
    shorter = (({"role": "user", "content": "a"},),)
    for changed in (prompt("a"), prompt("a", seed=43), prompt("a", stop=("x",)), prompt("a", shorter=shorter)):
        assert unfinished(store, [changed]) == 1
        write(store, ScriptedGenerator(ANSWERS), [changed])
    write(store, ScriptedGenerator(ANSWERS), [prompt("a")], ScriptedModel("other"))

    assert len(store.names_of(KIND)) == 5


def test_r13_what_was_written_before_a_failure_is_not_asked_for_again(store: ArtifactStore) -> None:
    with pytest.raises(StageError, match="query 'b'"):
        write(store, FailsAtB(ANSWERS), PROMPTS)
    model = ScriptedGenerator(ANSWERS)

    assert unfinished(store, PROMPTS) == 2
    assert said(write(store, model, PROMPTS)) == ["A", "B", "C"]
    assert model.calls == [(PROMPTS[1], PROMPTS[2])]
    assert unfinished(store, PROMPTS) == 0


def test_everything_about_a_text_is_kept(store: ArtifactStore) -> None:
    whole = Completion(
        text="a\u2028\x00\ud800é",
        reasoning="so",
        finish_reason="length",
        prompt_tokens=3,
        completion_tokens=9,
        shortened=1,
    )

    write(store, ScriptedGenerator({"a": whole}), [prompt("a")])

    assert write(store, ScriptedGenerator({}), [prompt("a")]) == [whole]


def test_a_text_is_stored_with_the_prompt_that_it_answers_in_whatever_order_texts_come(store: ArtifactStore) -> None:
    write(store, ScriptedGenerator(ANSWERS), PROMPTS)  # the generator keeps the last text first

    assert said(write(store, ScriptedGenerator({}), PROMPTS)) == ["A", "B", "C"]


def test_where_all_prompts_are_too_long_all_are_answered_with_none(store: ArtifactStore) -> None:
    class NoRoom(ScriptedGenerator):
        def generate(self, prompts, *, keep=None, order=None):  # type: ignore[no-untyped-def]
            units = tuple(item.unit for item in prompts)
            raise ContextError("generate", "; ".join(units), "too long", units)

    assert said(write(store, NoRoom({}), PROMPTS)) == [None, None, None]
    assert store.names_of(KIND) == []


def test_a_context_error_that_names_no_prompt_of_the_batch_is_passed_on(store: ArtifactStore) -> None:
    class Lost(ScriptedGenerator):
        def generate(self, prompts, *, keep=None, order=None):  # type: ignore[no-untyped-def]
            raise ContextError("generate", "x", "too long", ("nobody's",))

    with pytest.raises(ContextError, match="too long"):
        write(store, Lost({}), PROMPTS)


def test_a_damaged_text_is_an_error(store: ArtifactStore) -> None:
    write(store, ScriptedGenerator(ANSWERS), PROMPTS[:1])
    (file,) = Path(store.root).glob("generation/*")
    file.write_text(file.read_text().replace(r"\"A\"", r"\"B\""))

    with pytest.raises(ArtifactError, match="its manifest is not what its digest says"):
        write(store, ScriptedGenerator(ANSWERS), PROMPTS[:1])


def test_a_text_is_one_file_and_one_from_before_that_is_read_too(store: ArtifactStore) -> None:
    [key, other] = Texts(store).keys(MODEL, PROMPTS[:2])
    written = write(store, ScriptedGenerator(ANSWERS), PROMPTS[:1])
    with store.create(ArtifactKey(other.kind, other.inputs)) as writer:  # as r2med wrote it before
        writer.write(FILE, b'{"text": "old", "reasoning": "", "finish_reason": "stop"}')

    assert [path.name for path in Path(store.root).glob("generation/*") if path.is_file()] == [
        f"{key.digest}.manifest.json"
    ]
    found = Texts(store).find([key, other])
    assert found[key.digest] == written[0]
    assert found[other.digest].text == "old"
    assert store.names() == sorted([key.name, other.name])
