"""What a language model is asked about one query, and what is stored of its answer."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from r2med_ray.chat import ChatPrompt, Completion
from r2med_ray.demands import Ask
from r2med_ray.models.catalog.language_models import LanguageModelRow
from r2med_ray.models.services.chat import request_body
from r2med_ray.rewriting.answers import FORMATS, read_completion
from r2med_ray.storage.artifacts import ArtifactStore
from r2med_ray.types import QueryId
from r2med_ray.workbench.catalog_rows import language_model_row
from r2med_ray.workbench.showing.values import Asked
from r2med_ray.workbench.texts import Texts


def asked_about(query_id: QueryId, asks: Iterable[Ask], store: ArtifactStore) -> Iterator[Asked]:
    """Yield the requests about one query. Every request of a query begins its unit with the query's id."""
    texts, unit = Texts(store), f"query {query_id!r}"
    for ask in asks:
        prompts = [each for each in ask.prompts if each.unit == unit or each.unit.startswith(f"{unit},")]
        keys = texts.keys(ask.model, prompts)
        stored = texts.find(keys)
        row = language_model_row(ask.model)
        for key, prompt in zip(keys, prompts, strict=True):
            yield _asked(row, prompt, stored.get(key.digest))


def _asked(row: LanguageModelRow, prompt: ChatPrompt, completion: Completion | None) -> Asked:
    body = request_body(row, prompt, (prompt.messages, *prompt.shorter)[completion.shortened if completion else 0])
    messages = tuple(body.pop("messages", prompt.messages))
    body.pop("prompt", None)  # of a raw prompt, whose only message it is
    request = body | body.pop("extra_body")
    if completion is None:
        return Asked(unit=prompt.unit, messages=messages, request=request, shorter=len(prompt.shorter))
    if completion.tool_calls:
        called = "\n".join(f"{call.name}({call.arguments})" for call in completion.tool_calls)
        completion = replace(completion, text=f"{completion.text}\n{called}".strip(), finish_reason="stop")
    answer = read_completion(completion, FORMATS[row.answer_format])
    return Asked(
        unit=prompt.unit,
        messages=messages,
        request=request,
        shorter=len(prompt.shorter),
        answer=answer.text,
        reasoning=answer.reasoning_text,
        flag=answer.flag,
    )
