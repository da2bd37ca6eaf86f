"""Leads search agents side by side: what all of them wait for is asked for together, so a server sees one batch."""

import logging
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeAlias

from r2med_ray.errors import ContextError
from r2med_ray.protocols import ChatPrompt, Completion, TextGenerator

logger = logging.getLogger(__name__)

Steps: TypeAlias = Generator[list[ChatPrompt], Mapping[int, Completion], None]
"""Yields what a model is to be asked next, and is sent its completions by position; what was too long has none."""


def take_turns(agents: Mapping[str, Steps], generator: TextGenerator) -> None:
    """Lead agents to their end, all of them a step at a time.

    Args:
        agents: their steps by the name that errors call them.
        generator: the language model that all of them ask.

    Raises:
        StageError: the model failed for good; names agents and queries.
    """
    waiting: dict[str, list[ChatPrompt]] = {}
    for name, steps in agents.items():
        with suppress(StopIteration):
            waiting[name] = next(steps)
    while waiting:
        places = [(name, at) for name, prompts in waiting.items() for at in range(len(prompts))]
        prompts = [replace(waiting[name][at], unit=f"{name}, {waiting[name][at].unit}") for name, at in places]
        told: dict[str, dict[int, Completion]] = {name: {} for name in waiting}
        for place, completion in _complete(generator, prompts).items():
            name, at = places[place]
            told[name][at] = completion
        waiting = {}
        for name, completions in told.items():
            with suppress(StopIteration):
                waiting[name] = agents[name].send(completions)


def _complete(generator: TextGenerator, prompts: Sequence[ChatPrompt]) -> dict[int, Completion]:
    """Return completions by position, but for prompts that are too long for the model.

    The others are asked for again then: what had been written is stored.
    """
    waiting = dict(enumerate(prompts))
    while waiting:
        try:
            return dict(zip(waiting, generator.generate([*waiting.values()]), strict=True))
        except ContextError as error:
            outgrown = [at for at, prompt in waiting.items() if prompt.unit in error.units]
            if not outgrown:
                raise
            logger.warning("conversations end at the context limit: %s", error)
        for at in outgrown:
            del waiting[at]
    return {}
