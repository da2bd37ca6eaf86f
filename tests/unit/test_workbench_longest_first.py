"""The prompt that should have the longest answer is begun first, and no order changes a text or a key."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from r2med_ray.chat import ChatPrompt, Completion
from r2med_ray.demands import Ask, Steps
from r2med_ray.models.catalog.language_models import ChatCallPolicy, LanguageModelRow
from r2med_ray.models.services.chat import ChatModel
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.workbench.driver import Driver
from r2med_ray.workbench.longest_first import Lengths, LongestFirst
from r2med_ray.workbench.parts import Ended
from r2med_ray.workbench.texts import Texts
from r2med_ray.workbench.worklog import Worklog
from tests.benchmarks.bench_l1_makespan import BAR, REPLICAS, demo, ratios, seeded
from tests.http_services import Service, completions
from tests.unit.scripted_runner import ScriptedModel, ScriptedRunner, fetch

MODEL = ScriptedModel()


def prompt(part: str, characters: int) -> ChatPrompt:
    messages = ({"role": "user", "content": "x" * characters},)
    return ChatPrompt(unit=f"{part}, {characters}", messages=messages, seed=1, part=part)


def answer(tokens: int) -> Completion:
    return Completion(text="", reasoning="", finish_reason="stop", completion_tokens=tokens)


def known(*answers: tuple[str, int, int]) -> Lengths:
    """Lengths of some answers: part, characters of the prompt, tokens."""
    lengths = Lengths()
    for part, characters, tokens in answers:
        lengths.note(prompt(part, characters), answer(tokens))
    return lengths


def test_parts_whose_answers_were_long_go_first() -> None:
    lengths = known(("hyde", 10, 100), ("agent", 10, 900), ("hyde", 10, 120), ("agent", 10, 700))

    assert list(LongestFirst([prompt("hyde", 10), prompt("agent", 10), prompt("other", 10)], lengths)) == [1, 2, 0]


@pytest.mark.parametrize(("tokens", "order"), [((100, 400), [1, 0]), ((400, 100), [0, 1])])
def test_within_a_part_prompts_go_first_whose_length_went_with_long_answers(
    tokens: tuple[int, int], order: list[int]
) -> None:
    short, long = tokens
    lengths = known(*[("a", 100, short), ("a", 1000, long)] * 5)

    assert list(LongestFirst([prompt("a", 100), prompt("a", 1000)], lengths)) == order


def test_where_nothing_is_known_the_longest_prompts_of_each_part_go_first_whatever_the_part() -> None:
    # The middle of the logarithms is 200 characters in one part, and 2,000 in the other.
    prompts = [prompt("a", 100), prompt("a", 400), prompt("b", 1000), prompt("b", 4000)]

    assert sorted(list(LongestFirst(prompts, Lengths()))[:2]) == [1, 3]


def test_answers_that_go_on_while_later_ones_end_speak_for_their_part() -> None:
    prompts = [prompt("long", 10)] * 2 + [prompt("short", 10)] * 2 + [prompt("short", 10), prompt("long", 10)]
    first = LongestFirst(prompts, Lengths())
    begun = [next(first) for _ in range(4)]
    assert begun == [0, 1, 2, 3]
    for position in (2, 3):
        first.note(position, answer(100))

    assert next(first) == 5  # no answer of this part has ended, and two go on


def test_every_prompt_is_begun_once_though_answers_come_from_several_threads() -> None:
    prompts = [prompt("a", 10 + number) for number in range(400)]
    first, begun = LongestFirst(prompts, Lengths()), list[int]()

    def work() -> None:
        for position in first:
            begun.append(position)
            first.note(position, answer(position + 1))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(begun) == list(range(400))


@pytest.mark.parametrize("replicas", REPLICAS)
def test_l1_recorded_and_seeded_lengths_take_at_most_1_10_of_the_lower_bound(replicas: int) -> None:
    for asked in (demo("demo-writer"), demo("demo-reasoner"), seeded(1)):
        by = ratios(asked, replicas)
        assert 1.0 <= by["ours"] <= BAR < by["chunks"]


class InOrder:
    """A language model that answers in the order that it is given, and remembers it.

    Args:
        chosen: chooses the order among the positions; by default they stay as they are.
    """

    def __init__(self, chosen: Callable[[list[int]], list[int]] = list) -> None:
        self.begun: list[str] = []
        self._chosen = chosen

    def generate(
        self,
        prompts: Sequence[ChatPrompt],
        *,
        keep: Callable[[int, Completion], None] | None = None,
        order: Iterable[int] | None = None,
    ) -> list[Completion]:
        assert keep is not None
        assert order is not None
        for position in self._chosen(list(order)):
            self.begun.append(prompts[position].messages[-1]["content"])
            keep(position, Completion(text=self.begun[-1].upper(), reasoning="", finish_reason="stop"))
        return []


@pytest.mark.parametrize("chosen", [lambda order: order[::-1], sorted])
def test_no_order_changes_a_text_or_a_key(tmp_path: Path, chosen: Callable[[list[int]], list[int]]) -> None:
    prompts = [ChatPrompt(unit=text, messages=({"role": "user", "content": text},), seed=1) for text in ("a", "bb")]
    stores = [ArtifactStore(str(tmp_path / name)) for name in ("first", "second")]
    for store, way in zip(stores, (list, chosen), strict=True):
        texts = Texts(store)
        keys = texts.keys(MODEL, prompts)
        asked = {key.digest: (key, each) for key, each in zip(keys, prompts, strict=True)}
        texts.write(MODEL, InOrder(way), asked)
    first, second = (
        {artifact.name: artifact.read("completion.json").to_pybytes() for artifact in store.all()} for store in stores
    )

    assert len(first) == 2
    assert first == second


def test_texts_that_the_store_has_say_which_go_first(store: ArtifactStore) -> None:
    def asks(*texts: str) -> Steps[object]:
        prompts = tuple(
            ChatPrompt(unit=f"query {text!r}", messages=({"role": "user", "content": text},), seed=1)
            for text in texts
        )
        return (yield Ask(model=MODEL, prompts=prompts))

    def begun(*parts: tuple[str, Steps[object]]) -> Iterator[str]:
        model, worklog = InOrder(), Worklog()
        driver = Driver(store, ScriptedRunner(store, worklog, generator=model), worklog, fetch)
        assert all(isinstance(ended, Ended) for _, ended in driver.run(dict(parts)))
        yield from model.begun

    # Without tokens, words count: one for a text of `brief`, and five for one of `wordy`.
    list(begun(("wordy", asks("a b c d e", "f g h i j")), ("brief", asks("aaaaa"))))

    told = begun(("brief", asks("aaaaa", "qqqqqqqqq")), ("wordy", asks("a b c d e", "f g h i j", "ppppppppp")))
    assert list(told) == ["ppppppppp", "qqqqqqqqq"]


def test_a_service_is_asked_in_the_order_that_is_given() -> None:
    prompts = [ChatPrompt(unit=text, messages=({"role": "user", "content": text},), seed=1) for text in "abc"]
    row = LanguageModelRow(name="m", kind="openai", model="m", calls=ChatCallPolicy(max_in_flight=1))
    with Service(completions(str.upper)) as service:
        said = ChatModel(row, base_url=service.url).generate(prompts, order=[2, 0, 1])
        asked = [request.body["messages"][-1]["content"] for request in service.requests]

    assert asked == ["c", "a", "b"]
    assert [each.text for each in said] == ["A", "B", "C"]
