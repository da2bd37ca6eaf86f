"""Ray's metrics of rerankers and language models, as the job sees them. `ray_` stands before the exported names.

Each is made when it is asked for first, because Ray has to run by then.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, partial

from ray.util.metrics import Counter, Gauge

from r2med_ray.activity import GAUGES_EVERY_S, Activity, every, going_on
from r2med_ray.chat import ChatPrompt, Completion, TextGenerator

TAGS = ("model",)


pairs = cache(partial(Counter, "r2med_pairs", "Pairs of query and document that a reranker has scored", TAGS))
requests_waiting = cache(
    partial(Gauge, "r2med_requests_waiting", "Requests that wait in the job for their turn", TAGS)
)
requests_in_flight = cache(
    partial(Gauge, "r2med_requests_in_flight", "Requests that were sent and are not answered", TAGS)
)
waited_for_answers = cache(
    partial(Counter, "r2med_waited_for_answers_seconds", "Seconds that the job waited for answers", TAGS)
)
texts = cache(partial(Counter, "r2med_texts", "Texts that a language model has written", TAGS))
tokens_written = cache(partial(Counter, "r2med_tokens_written", "Tokens that a language model has written", TAGS))


class CountedTexts:
    """A text generator whose texts and tokens are counted.

    Args:
        generator: writes the texts.
        model: the name of the language model.
    """

    def __init__(self, generator: TextGenerator, model: str) -> None:
        self._generator = generator
        self._tags = {"model": model}

    def generate(
        self,
        prompts: Sequence[ChatPrompt],
        *,
        keep: Callable[[int, Completion], None] | None = None,
        order: Iterable[int] | None = None,
    ) -> list[Completion]:
        """See `chat.TextGenerator`."""

        def keep_counted(place: int, completion: Completion) -> None:
            if keep is not None:
                keep(place, completion)
            texts().inc(1, self._tags)
            if completion.completion_tokens:
                tokens_written().inc(completion.completion_tokens, self._tags)

        return self._generator.generate(prompts, keep=keep_counted, order=order)


class Told:
    """Tells how far the scoring of some pairs is, as metrics and as an activity, as long as a `with` block runs.

    Args:
        model: the name of the scorer.
        num_pairs: how many pairs there are.
    """

    def __init__(self, model: str, num_pairs: int) -> None:
        self._tags = {"model": model}
        self._activity = Activity(f"rerank with {model}", num_pairs, "pairs")
        self._stack = ExitStack()

    def __enter__(self) -> "Told":
        self.queue(waiting=0, in_flight=0)
        self._stack.enter_context(going_on(self._activity))
        self._stack.enter_context(every(GAUGES_EVERY_S, self._tell))
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()
        self.queue(waiting=0, in_flight=0)
        self._tell()

    def queue(self, *, waiting: int, in_flight: int) -> None:
        """Note how many requests wait for their turn, and how many for their answer."""
        self._activity.queue.update({"requests waiting": waiting, "in flight": in_flight})

    def scored(self, count: int) -> None:
        """Count pairs that were scored."""
        pairs().inc(count, self._tags)
        self._activity.add(count)

    @contextmanager
    def waiting_for_answer(self) -> Iterator[None]:
        """Count the seconds of the block."""
        began = time.monotonic()
        try:
            yield
        finally:
            waited_for_answers().inc(max(time.monotonic() - began, 1e-9), self._tags)

    def _tell(self) -> None:
        requests_waiting().set(self._activity.queue["requests waiting"], self._tags)
        requests_in_flight().set(self._activity.queue["in flight"], self._tags)
