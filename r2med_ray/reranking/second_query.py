"""Reranking by a second query vector: an encoder reads the query together with its best candidates (E2Rank).

The prompt shows the first candidates of a query, numbered in their order. Its vector takes the query's place, and all
candidates are ordered by their stored vectors (E2Rank, Liu et al. 2025, arXiv 2510.22733). So a query costs one
forward pass, and the documents cost none.

Nobody reads ids out of the vector, so numbers in brackets within the texts stay as they are.
"""

from collections.abc import Sequence

from r2med_ray.demands import Find, Steps
from r2med_ray.first_stage import FirstStage
from r2med_ray.protocols import Candidates
from r2med_ray.reranking.passages import PassageLimit
from r2med_ray.reranking.prompt_files import EXPRESSIONS, Passage, Prompt, refuse_expressions
from r2med_ray.types import Query, Repairs, Reranking, Run, Task

SHIPPED = "second-query"
"""The name of the shipped prompt file."""

NO_VECTOR = "no vector"
"""The rule for a candidate that the encoder has no vector of: it comes last."""


class SecondQuery:
    """Has candidates scored against a vector of the query with its candidates.

    Args:
        task: its corpus has the candidates.
        first_stage: embeds the prompts, and scores documents by their ids.
        prompt: the prompt file.
        limit: the most that is shown of a passage.
        shown: how many candidates the prompt shows.
        around: the texts before and after the prompt.

    Raises:
        ConfigError: the prompt has expressions about answers.
    """

    def __init__(
        self,
        task: Task,
        first_stage: FirstStage,
        prompt: Prompt,
        limit: PassageLimit,
        *,
        shown: int,
        around: tuple[str, str] = ("", ""),
    ) -> None:
        self._task = task
        self._first_stage = first_stage
        refuse_expressions(prompt, EXPRESSIONS, f"reranker {first_stage.label!r} reads no answer")
        self._prompt = prompt
        self._limit = limit
        self._shown = shown
        self._around = around

    def score_all(self, work: Sequence[Candidates]) -> Steps[Reranking]:
        """Return the similarity of each candidate's vector with that of the prompt."""
        if not work:
            return Reranking(scores={})
        ids = {each.query.query_id: tuple(document.doc_id for document in each.documents) for each in work}
        run: Run = yield Find(
            task=self._task,
            first_stage=self._first_stage,
            queries=tuple(Query(query_id=each.query.query_id, text=self._text(each)) for each in work),
            k=max(map(len, ids.values())),
            among=ids,
        )
        found = {query_id: dict(ranking) for query_id, ranking in run.rankings.items()}
        last = {query_id: min(scores.values(), default=0.0) - 1 for query_id, scores in found.items()}
        lacking = {query_id: sum(each not in found[query_id] for each in of) for query_id, of in ids.items()}
        heads = [Candidates(query, found[: self._shown], scores[: self._shown]) for query, found, scores in work]
        return Reranking(
            scores={
                query_id: [found[query_id].get(doc_id, last[query_id]) for doc_id in doc_ids]
                for query_id, doc_ids in ids.items()
            },
            repairs=Repairs(rules={query_id: {NO_VECTOR: count} for query_id, count in lacking.items() if count}),
            cuts=self._limit.cuts(heads),
        )

    def _text(self, candidates: Candidates) -> str:
        query, documents, scores = candidates
        passages = [
            Passage(self._limit.cut(document.content), score)
            for document, score in zip(documents[: self._shown], scores, strict=False)
        ]
        messages = self._prompt.messages(query.text, passages, show_scores=False)
        before, after = self._around
        return before + "\n".join(message["content"] for message in messages) + after
