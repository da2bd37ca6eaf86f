"""The client of a language model behind an OpenAI-compatible address: it turns messages into completions.

Answers are streamed unless the row says otherwise, so that an answer that stalls is noticed long before its deadline.
A stream that ends without a reason is no answer, and neither is one that the service breaks off (`chat.ending_of`).
Such a request is sent again. What a service sends in place of an answer is quoted.
"""

import asyncio
import re
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from r2med_ray.chat import ChatPrompt, Completion, Message
from r2med_ray.errors import ConfigError, ContextError, R2MedError, StageError, StoppedError
from r2med_ray.models.catalog.language_models import LanguageModelRow
from r2med_ray.models.services.answer_parts import AnswerParts
from r2med_ray.models.services.calls import ApiCalls
from r2med_ray.models.services.retries import RefusedError
from r2med_ray.models.services.streams import overhear, require_stream

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_TOO_LONG = re.compile(
    r"context.{0,3}(?:length|window|size)|maximum (?:model|prompt) length|(?:prompt|input)\b.{0,30} is too long"
    r"|exceeds the maximum number of tokens|tokens in the prompt cannot exceed|reduce the length of the messages"
    r"|inputs.{0,2} (?:must have less than|tokens \+)",
    re.IGNORECASE,
)
"""The words for a conversation that is too long for the model: of OpenAI, vLLM, SGLang, llama.cpp, Anthropic,
Bedrock, xAI, Gemini, Cohere, Groq and Text Generation Inference."""

_NO_SYSTEM_ROLE = re.compile(
    r"system (?:role|message|prompt|instruction)s?\b.{0,40}\bnot\b.{0,20}\b(?:supported|allowed|enabled)"
    r"|\bnot support.{0,20}\bsystem|roles must alternate|only user.{0,30}roles|developer instruction is not enabled",
    re.IGNORECASE,
)
"""The words of chat templates (Gemma, Mistral), OpenAI and Gemini for a system role that they don't know."""

_NO_STREAM = re.compile(
    r"\bstream(?:ing|_options)?\b.{0,60}\b(?:not (?:supported|allowed|permitted|available)|unsupported|extra inputs)"
    r"|\b(?:unsupported|unrecognized|unknown|unexpected|extra)\b.{0,60}\bstream|\bverified to stream",
    re.IGNORECASE,
)
"""The words of OpenAI and of other servers for a stream that they don't give."""

CONTINUED = {"continue_final_message": True, "add_generation_prompt": False}
"""The keys that tell vLLM to continue the last message, which is the model's own, in place of answering it."""


class ChatModel:
    """Asks a language model, many prompts at once, within the limits of its row.

    Args:
        row: the model.
        base_url: address of the service, up to `/v1`; None for the row's address.
        computer: what the model is computed on, where that is known; noted with every answer.
        stop: an event that ends the work when another thread sets it.
        heard: is told the unit of a prompt and the parts of its answer, after each part. An answer that is begun
            again has new parts.

    Raises:
        ConfigError: there is no address.

    Attributes:
        requests: HTTP requests sent so far, repetitions included.
    """

    def __init__(
        self,
        row: LanguageModelRow,
        *,
        base_url: str | None = None,
        computer: str = "",
        stop: threading.Event | None = None,
        heard: Callable[[str, AnswerParts], None] | None = None,
    ) -> None:
        address = base_url or row.base_url
        if address is None:
            raise ConfigError(f"language model {row.name!r} has no address: give `base_url`, or have it served")
        self.row = row
        self.base_url = address
        self.requests = 0
        self._computer = computer
        self._stop = stop
        self._heard = heard or (lambda unit, parts: None)
        self._stage = f"generate with {row.name}"

    def generate(
        self,
        prompts: Sequence[ChatPrompt],
        *,
        keep: Callable[[int, Completion], None] | None = None,
        order: Iterable[int] | None = None,
    ) -> list[Completion]:
        """Return one completion per prompt, in the order of the prompts; see `protocols.TextGenerator`.

        After a failure no further prompt is begun. Prompts in flight go on to their end and are kept, unless the
        service refuses everything.

        Raises:
            RefusedError: the service refuses every request: the key, the model or the address is wrong.
            ContextError: prompts are too long for the model, and nothing else failed; names their units.
            StageError: prompts failed after all attempts; names their units.
            NotAtHand: the environment variable with the key is not set.
            StoppedError: `stop` was set. Calls in flight were cancelled; finished calls are kept.
        """
        return asyncio.run(self._generate(prompts, keep, range(len(prompts)) if order is None else order))

    async def _generate(
        self,
        prompts: Sequence[ChatPrompt],
        keep: Callable[[int, Completion], None] | None,
        order: Iterable[int],
    ) -> list[Completion]:
        completions: dict[int, Completion] = {}
        failures: dict[int, StageError] = {}

        async def answer(position: int) -> None:
            try:
                completion = await self._answer(calls, prompts[position])
            except StageError as error:
                failures[position] = error
                raise
            if keep is not None:
                await asyncio.to_thread(keep, position, completion)
            completions[position] = completion

        row = self.row
        service = self._stage, self.base_url, row.key_variable, row.calls
        async with ApiCalls(*service, model=row.served_as, stop=self._stop) as calls:
            try:
                await calls.each(order, answer)
            except R2MedError as error:
                if len(failures) < 2 or isinstance(error, RefusedError | StoppedError):
                    raise
                in_order = [failures[position] for position in sorted(failures)]
                units = "; ".join(failure.unit for failure in in_order)
                others = [failure for failure in in_order if not isinstance(failure, ContextError)]
                if others:
                    raise StageError(self._stage, units, others[0].cause) from error
                too_long = tuple(prompts[position].unit for position in sorted(failures))
                raise ContextError(self._stage, units, in_order[0].cause, too_long) from error
            finally:
                self.requests += calls.requests
        return [completions[position] for position in range(len(prompts))]

    async def _answer(self, calls: ApiCalls, prompt: ChatPrompt) -> Completion:
        versions = (prompt.messages, *prompt.shorter)
        for shortened, messages in enumerate(versions):
            try:
                body = request_body(self.row, prompt, messages)
                request = partial(self._ask, body, prompt.unit, shortened)
                if prompt.is_raw:
                    request = partial(self._ask_raw, body, shortened)
                return await calls.call(request, unit=prompt.unit)
            except StageError as error:
                if not _TOO_LONG.search(error.cause):
                    raise self._advised(error, messages) from None
                problem = error
        words = sum(len(message["content"].split()) for message in versions[-1])
        unit = f"{prompt.unit}, whose prompt of {words} words is too long for the model"
        raise ContextError(self._stage, unit, problem.cause, (prompt.unit,))

    def _advised(self, error: StageError, messages: Sequence[Message]) -> StageError:
        """Return an error with what to set in the model's row, if the service's words tell that."""
        advice = ""
        if self.row.stream and _NO_STREAM.search(error.cause):
            advice = "stream: false"
        elif system_prompt(self.row, messages) and _NO_SYSTEM_ROLE.search(error.cause):
            advice = "system_prompt: null"
        if not advice:
            return error
        return type(error)(error.stage, error.unit, f"{error.cause}. Set `{advice}` in the row of {self.row.name}")

    async def _ask_raw(self, body: dict[str, Any], shortened: int, client: "AsyncOpenAI") -> Completion:
        """Have a text continued. It isn't streamed, as not every server streams log-probabilities."""
        parts = AnswerParts(shortened, self._computer)
        create: Any = client.completions.create  # Any: the overloads depend on keys of the row
        parts.add(await create(**body), "text", top_tokens=body.get("logprobs", 0))
        return parts.completion()

    async def _ask(self, body: dict[str, Any], unit: str, shortened: int, client: "AsyncOpenAI") -> Completion:
        parts = AnswerParts(shortened, self._computer)
        create: Any = client.chat.completions.create  # Any: the overloads depend on keys of the row
        if not self.row.stream:
            parts.add(await create(**body), "message")
            return parts.completion()
        async with await create(**body, stream=True, stream_options={"include_usage": True}) as stream:
            heard = overhear(stream.response)
            while True:
                async with asyncio.timeout(self.row.calls.idle_timeout_s if parts.begun else None):
                    piece = await anext(stream, None)
                if piece is None:
                    if parts.finish_reason is None:
                        require_stream(heard)
                    return parts.completion()
                parts.add(piece, "delta")
                self._heard(unit, parts)


def request_body(row: LanguageModelRow, prompt: ChatPrompt, messages: Sequence[Message]) -> dict[str, Any]:
    """Return what a language model is sent; `extra_body` holds further keys of the same request.

    Args:
        row: the model.
        prompt: has seed and stops.
        messages: one of the versions of `prompt`.
    """
    if prompt.is_raw:
        return _raw_body(row, prompt, messages)
    system = system_prompt(row, messages)
    optional = {
        "temperature": row.sampling.temperature,
        "top_p": row.sampling.top_p,
        row.token_limit: row.sampling.max_tokens,
        "stop": list(prompt.stop) or None,
        "tools": [dict(tool) for tool in prompt.tools] or None,
    }
    return {
        "model": row.served_as,
        "messages": [*([{"role": "system", "content": system}] if system else []), *messages],
        "seed": prompt.seed,
        **{key: value for key, value in optional.items() if value is not None},
        "extra_body": dict(row.body) | (CONTINUED if messages[-1]["role"] == "assistant" else {}),
    }


def _raw_body(row: LanguageModelRow, prompt: ChatPrompt, messages: Sequence[Message]) -> dict[str, Any]:
    [message] = messages
    optional: dict[str, Any] = {
        "temperature": row.sampling.temperature,
        "top_p": row.sampling.top_p,
        "max_tokens": row.sampling.max_tokens,
        "stop": list(prompt.stop) or None,
    }
    if prompt.top_tokens:
        optional = {"temperature": 0.0, "max_tokens": 1, "logprobs": prompt.top_tokens}
    return {
        "model": row.served_as,
        "prompt": message["content"],
        "seed": prompt.seed,
        **{key: value for key, value in optional.items() if value is not None},
        "extra_body": dict(row.body),
    }


def system_prompt(row: LanguageModelRow, messages: Sequence[Message]) -> str | None:
    """Return a row's system prompt if these messages get it. A conversation may have its own."""
    return row.system_prompt if messages[0]["role"] != "system" else None
