"""What rerankers that ask a language model have in common: their settings, and the orders that they keep."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from r2med_ray.chat import Completion, LanguageModel
from r2med_ray.demands import Keep, Recall, Steps
from r2med_ray.protocols import Candidates
from r2med_ray.reranking.llm_prompts import LlmReranking
from r2med_ray.reranking.orderings import RepairCounts
from r2med_ray.reranking.passages import PassageLimit
from r2med_ray.reranking.prompt_files import Prompt
from r2med_ray.reranking.readability import CONTEXT_LIMIT
from r2med_ray.reranking.shown_ids import OTHER_FORMAT, VERSION
from r2med_ray.reranking.stored_scores import read_reranking, reranking_files, scores_key
from r2med_ray.storage.keys import Json
from r2med_ray.types import Reranking

Read: TypeAlias = Callable[[Completion], tuple[str, str]]
"""A function that cuts the answer out of a model's text.

It returns the answer, and what is wrong with it (`cut at limit`) or "".
"""


class AskingReranker(ABC):
    """Has a language model order the candidates of many queries, and keeps the finished orders.

    Args:
        model: the model that is asked.
        read: cuts the answer out of the model's text.
        prompt: what the model is asked.
        settings: how the model is asked.
        limit: the most that is shown of a passage.
    """

    def __init__(
        self, model: LanguageModel, read: Read, prompt: Prompt, settings: LlmReranking, limit: PassageLimit
    ) -> None:
        self._model = model
        self._read = read
        self._prompt = prompt
        self._settings = settings
        self._limit = limit

    def score_all(self, work: Sequence[Candidates]) -> Steps[Reranking]:
        """Return scores made from the ranks, and the repairs of the model's answers.

        The model is asked only if no order of these candidates was kept before. The prompts of all queries are asked
        together. A prompt that the model has no room for counts as an unreadable answer.
        """
        sees_scores = self._settings.show_scores or self._prompt.shows_scores
        key = scores_key(self._inputs(), work, sees_scores=sees_scores)
        [artifact] = yield Recall(keys=(key,))
        if artifact is not None:
            return read_reranking(artifact)
        reranking = yield from self._order(work)
        yield Keep(key=key, files=reranking_files(reranking))
        return reranking

    def _inputs(self) -> Mapping[str, Json]:
        return {
            "generator": dict(self._model.generation_inputs()),
            "prompt": self._prompt.digest,
            "rules": VERSION,
            **self._settings.inputs(),
        }

    def _answer(self, completion: Completion | None) -> tuple[str, str]:
        """Return the answer in a model's text, and what is wrong with it or ""."""
        return ("", CONTEXT_LIMIT) if completion is None else self._read(completion)

    def _told(self, answer: str, counts: RepairCounts) -> str:
        """Return an answer as the prompt file reads it. One that is not as the file says is counted, and returned."""
        told = self._prompt.told(answer)
        if told is None and answer:
            counts.rules[OTHER_FORMAT] += 1
        return answer if told is None else told

    @abstractmethod
    def _order(self, work: Sequence[Candidates]) -> Steps[Reranking]: ...
