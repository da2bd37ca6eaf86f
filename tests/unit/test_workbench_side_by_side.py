"""Two halves of a job run at once. The first failure is raised and soon ends the other half."""

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from r2med_ray.chat import ChatPrompt
from r2med_ray.distributed.stopping import until_stopped
from r2med_ray.errors import ConfigError, StageError, StoppedError
from r2med_ray.models.catalog.language_models import ChatCallPolicy, LanguageModelRow
from r2med_ray.models.services.chat import ChatModel
from r2med_ray.models.services.retries import RefusedError
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.workbench.side_by_side import side_by_side
from r2med_ray.workbench.texts import Texts
from tests.http_services import Reply, Request, Service, completions, refuse, slow

PROMPTS = [
    ChatPrompt(unit=text, messages=({"role": "user", "content": text},), seed=1) for text in ("first", *"abcdef")
]

shout = completions(str.upper)


def first_at_once(request: Request) -> Reply:
    """Answer the prompt `first` at once, and any other prompt after 8 s."""
    return slow(shout, 0.0 if request.body["messages"][-1]["content"] == "first" else 8.0)(request)


class Halves:
    """The two halves: a model behind a service, with two prompts at once, and encoding of shards of 0.05 s each."""

    def __init__(self, store: ArtifactStore, service: Service) -> None:
        self.stop = threading.Event()
        self.shards: list[int] = []
        calls = ChatCallPolicy(max_in_flight=2, attempts=1)
        row = LanguageModelRow(name="m", kind="openai", model="org/m", calls=calls)
        self.texts = Texts(store)
        self.row = row
        self.model = ChatModel(row, base_url=service.url, stop=self.stop)
        self.keys = self.texts.keys(row, PROMPTS)

    @property
    def unfinished(self) -> int:
        return len(PROMPTS) - len(self.texts.find(self.keys))

    def write(self) -> None:
        asked = {key.digest: (key, prompt) for key, prompt in zip(self.keys, PROMPTS, strict=True)}
        self.texts.write(self.row, self.model, asked)

    def encode(self, shards: int = 400) -> list[int]:
        for shard in until_stopped(self.stop, range(shards)):
            time.sleep(0.05)
            self.shards.append(shard)
        return self.shards

    def fail_to_encode(self) -> None:
        while self.unfinished == len(PROMPTS):
            time.sleep(0.01)
        raise StageError("encode", "shard 3", "out of memory")

    def be_interrupted(self) -> None:
        while self.unfinished == len(PROMPTS):
            time.sleep(0.01)
        signal.raise_signal(signal.SIGINT)
        self.encode()


def halves(tmp_path: Path, service: Service) -> Halves:
    return Halves(ArtifactStore(str(tmp_path)), service)


def test_both_halves_come_to_their_end(tmp_path: Path) -> None:
    with Service(shout) as service:
        work = halves(tmp_path, service)
        done = side_by_side(lambda: work.encode(3), work.write, work.stop)

    assert done == [0, 1, 2]
    assert work.unfinished == 0
    assert not work.stop.is_set()


def test_a_refused_key_is_said_before_the_corpora_are_encoded(tmp_path: Path) -> None:
    with Service(refuse(401, "Incorrect API key")) as service:
        work = halves(tmp_path, service)
        with pytest.raises(RefusedError, match="HTTP 401: Incorrect API key"):
            side_by_side(work.encode, work.write, work.stop)

    # All 400 shards would take 20 s. There was only time for a few.
    assert len(work.shards) < 40


def test_an_engine_that_does_not_start_ends_the_encoding(tmp_path: Path) -> None:
    def no_engine() -> None:
        raise ConfigError("vLLM isn't installed")

    with Service(shout) as service:
        work = halves(tmp_path, service)
        with pytest.raises(ConfigError, match="vLLM isn't installed"):
            side_by_side(work.encode, no_engine, work.stop)

    assert len(work.shards) < 40


@pytest.mark.parametrize(
    ("half", "error"), [(Halves.fail_to_encode, StageError), (Halves.be_interrupted, KeyboardInterrupt)]
)
def test_what_ends_the_encoding_ends_the_writing_and_keeps_what_is_written(
    tmp_path: Path, half: Callable[[Halves], None], error: type[BaseException]
) -> None:
    with Service(first_at_once) as service:
        work = halves(tmp_path, service)
        began = time.monotonic()
        with pytest.raises(error) as raised:
            side_by_side(lambda: half(work), work.write, work.stop)
        took = time.monotonic() - began
        # Two prompts are in flight at once. The first is answered. While a and b are in flight, no other is begun.
        assert len(service.requests) <= 3

    assert raised.type is error
    assert took < 4  # each call in flight would take 8 s
    assert work.unfinished == len(PROMPTS) - 1


def test_nothing_is_sent_after_the_stop(tmp_path: Path) -> None:
    with Service(shout) as service:
        work = halves(tmp_path, service)
        work.stop.set()
        with pytest.raises(StoppedError, match="generate with m: stopped"):
            work.write()

        assert service.requests == []


def test_items_end_with_the_stop_and_not_with_the_last_of_them() -> None:
    stop = threading.Event()
    items = until_stopped(stop, range(5))
    seen = [next(items), next(items)]
    stop.set()

    with pytest.raises(StoppedError):
        next(items)
    assert seen == [0, 1]
    assert list(until_stopped(threading.Event(), range(3))) == [0, 1, 2]
