"""Agents side by side: one batch for what all of them wait for, whatever each of them does next."""

from collections.abc import Callable, Sequence

import pytest

from r2med_ray.errors import ContextError, StageError
from r2med_ray.protocols import ChatPrompt, Completion
from r2med_ray.rewriting.agents.taking_turns import Steps, take_turns
from tests.fakes import ScriptedGenerator


class Echo(ScriptedGenerator):
    """A language model that repeats the figure it is asked, but for what is too long for it."""

    def __init__(self, *too_long: str) -> None:
        super().__init__({figure: figure for figure in "1234567"})
        self._too_long = too_long

    @property
    def batches(self) -> list[list[str]]:
        return [[prompt.unit for prompt in call] for call in self.calls]

    def generate(
        self, prompts: Sequence[ChatPrompt], *, keep: Callable[[int, Completion], None] | None = None
    ) -> list[Completion]:
        units = tuple(prompt.unit for prompt in prompts if prompt.unit in self._too_long)
        if units:
            raise ContextError("generate", "; ".join(units), "too long", units)
        return super().generate(prompts, keep=keep)


def asks(heard: list[dict[int, str]], *steps: Sequence[str]) -> Steps:
    """Ask for some texts at every step, and write down what came back."""
    for texts in steps:
        completions = yield [
            ChatPrompt(unit=f"prompt {at}", messages=({"role": "user", "content": text},), seed=0)
            for at, text in enumerate(texts)
        ]
        heard.append({at: completion.text for at, completion in enumerate(completions) if completion})


def test_what_all_agents_wait_for_is_one_batch_and_each_hears_its_own() -> None:
    first: list[dict[int, str]] = []
    second: list[dict[int, str]] = []
    model = Echo()

    take_turns({"a": asks(first, ["1", "2"], ["3"]), "b": asks(second, ["4"], ["5", "6"], ["7"])}, model)

    assert model.batches == [
        ["a, prompt 0", "a, prompt 1", "b, prompt 0"],
        ["a, prompt 0", "b, prompt 0", "b, prompt 1"],
        ["b, prompt 0"],
    ]
    assert first == [{0: "1", 1: "2"}, {0: "3"}]
    assert second == [{0: "4"}, {0: "5", 1: "6"}, {0: "7"}]


def test_a_prompt_that_is_too_long_is_missing_for_its_own_agent_alone() -> None:
    first: list[dict[int, str]] = []
    second: list[dict[int, str]] = []

    take_turns({"a": asks(first, ["1", "2"]), "b": asks(second, ["3", "4"])}, Echo("b, prompt 0"))

    assert first == [{0: "1", 1: "2"}]
    assert second == [{1: "4"}]


def test_agents_hear_of_it_where_all_prompts_are_too_long() -> None:
    heard: list[dict[int, str]] = []

    take_turns({"a": asks(heard, ["1"], ["2"])}, Echo("a, prompt 0"))

    assert heard == [{}, {}]


def test_an_agent_with_nothing_to_ask_keeps_nobody_waiting() -> None:
    heard: list[dict[int, str]] = []
    model = Echo()

    take_turns({"a": asks([]), "b": asks(heard, ["1"])}, model)

    assert model.batches == [["b, prompt 0"]]
    assert heard == [{0: "1"}]


def test_a_model_that_fails_ends_all_agents_with_its_error() -> None:
    class Failing(Echo):
        def generate(
            self, prompts: Sequence[ChatPrompt], *, keep: Callable[[int, Completion], None] | None = None
        ) -> list[Completion]:
            raise StageError("generate with m", prompts[0].unit, "no")

    with pytest.raises(StageError, match="generate with m failed on a, prompt 0: no"):
        take_turns({"a": asks([], ["1"])}, Failing())
