"""Lets a language model condense the passages that were found for a request, before the agent goes on."""

from collections.abc import Sequence

from r2med_ray.chat import ChatPrompt, Completion, LanguageModel
from r2med_ray.demands import Ask, Steps
from r2med_ray.rewriting.agents.conversations import chat_prompt, message
from r2med_ray.rewriting.agents.transcripts import Transcript
from r2med_ray.rewriting.answer_formats import AnswerFormat
from r2med_ray.rewriting.answers import read_completion
from r2med_ray.settings.templates import Template
from r2med_ray.types import Query


class Condenser:
    """Condenses passages with the agent's own language model.

    Args:
        model: the language model.
        form: how the model marks its answer.
        prompt: the prompt, with the places `query`, `reasoning`, `request` and `passages`.
        seed: the seed of every text.
    """

    def __init__(self, model: LanguageModel, form: AnswerFormat, prompt: Template, seed: int) -> None:
        self._model = model
        self._form = form
        self._template = prompt
        self._seed = seed

    def condense(self, asked: Sequence[tuple[Query, Transcript]], passages: Sequence[str]) -> Steps[list[str]]:
        """Return what the model writes about the passages of each request; "" if they are too long for the model.

        The time that the model takes counts for the turn that made the request. If the passages are too long, the
        conversation ends.

        Args:
            asked: one or more conversations whose last turn made a request.
            passages: the passages that were found for each request.
        """
        prompts = tuple(self._prompt(query, item, text) for (query, item), text in zip(asked, passages, strict=True))
        completions = yield Ask(model=self._model, prompts=prompts)
        for (_, transcript), completion in zip(asked, completions, strict=True):
            if completion is None:
                transcript.ended = "context limit"
            else:
                transcript.turns[-1].condensing_seconds += completion.seconds
        return [self._text(completion) if completion else "" for completion in completions]

    def _prompt(self, query: Query, transcript: Transcript, passages: str) -> ChatPrompt:
        last = transcript.turns[-1]
        whole, shorter = (
            self._template.fill(
                query=query.text,
                reasoning="".join(turn.text for turn in turns),
                request=last.request or "",
                passages=passages,
            )
            for turns in (transcript.turns, [last])
        )
        unit = f"query {query.query_id!r}, condensing search {transcript.requests}"
        return chat_prompt(unit, [message("user", whole)], [message("user", shorter)], seed=self._seed)

    def _text(self, completion: Completion) -> str:
        return read_completion(completion, self._form).text
