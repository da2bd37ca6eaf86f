"""Leads search agents side by side: what all of them wait for is asked for together, so a server sees one batch."""

import logging
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import TypeAlias

from r2med_ray.errors import ContextError
from r2med_ray.protocols import ChatPrompt, Completion, TextGenerator

logger = logging.getLogger(__name__)

Answers: TypeAlias = list[Completion | None]
"""One per prompt, in order; None where the prompt was too long for the model."""

Steps: TypeAlias = Generator[list[ChatPrompt], Answers, None]
"""Yields what a model is to be asked next, and is sent its answers."""


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
        named = [replace(item, unit=f"{name}, {item.unit}") for name, prompts in waiting.items() for item in prompts]
        answers = iter(_complete(generator, named))
        told = {name: list(islice(answers, len(prompts))) for name, prompts in waiting.items()}
        waiting = {}
        for name, of_agent in told.items():
            with suppress(StopIteration):
                waiting[name] = agents[name].send(of_agent)


def _complete(generator: TextGenerator, prompts: Sequence[ChatPrompt]) -> Answers:
    """Ask for all prompts, and for the others again where some are too long; what had been written is stored."""
    answers: Answers = [None] * len(prompts)
    waiting = dict(enumerate(prompts))
    while waiting:
        try:
            for at, completion in zip(waiting, generator.generate([*waiting.values()]), strict=True):
                answers[at] = completion
            return answers
        except ContextError as error:
            outgrown = [at for at, prompt in waiting.items() if prompt.unit in error.units]
            if not outgrown:
                raise
            logger.warning("conversations end at the context limit: %s", error)
        for at in outgrown:
            del waiting[at]
    return answers
