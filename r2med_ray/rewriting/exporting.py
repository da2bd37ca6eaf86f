"""Writes generated texts in R2MED's layout, for `replay` to read."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from r2med_ray.chat import Completion
from r2med_ray.rewriting.answer_formats import AnswerFormat
from r2med_ray.rewriting.answers import joined
from r2med_ray.rewriting.published_generations import FILE_NAME
from r2med_ray.types import Query, QueryId


def written_rows(
    queries: Sequence[Query], completions: Mapping[QueryId, Completion | None], form: AnswerFormat
) -> Iterator[dict[str, Any]]:
    """Yield one row per query, in their order: `id`, `text`, `hy_doc` and `finish_reason`.

    Args:
        queries: the queries whose texts are written.
        completions: query id → what a language model wrote; None if the prompt was too long. With None, `hy_doc` and
            `finish_reason` are null, and a replay counts the query as one without a usable text.
        form: how the model marks reasoning and answer; `hy_doc` holds both.
    """
    for query in queries:
        completion = completions[query.query_id]
        yield {
            "id": query.query_id,
            "text": query.text,
            "hy_doc": completion and joined(completion.reasoning, completion.text, form),
            "finish_reason": completion and completion.finish_reason,
        }


def write_generations(rows: Iterable[Mapping[str, Any]], folder: Path, name: str) -> Path:
    """Write rows as `<folder>/<name>/query_with_hydoc.jsonl`, and return the path of this file.

    Args:
        rows: see `written_rows`.
        folder: the task's folder, or another one.
        name: method and writer, e.g. `hyde/qwen-7b`.
    """
    path = folder / name / FILE_NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", errors="surrogatepass") as stream:
        stream.writelines(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    return path
