"""The rows of rerankers that read several candidates at once with a language model of the catalogue."""

from typing import Any, Literal

from pydantic import Field, model_validator

from r2med_ray.errors import ConfigError
from r2med_ray.models.catalog.rows import Row
from r2med_ray.settings.config import RerankerConfig


class LlmRerankerRow(Row):
    """A query with a window of its candidates to their order; see `retrieval.llm_reranking`."""

    strategy: Literal["listwise", "groupwise"]
    """`listwise` orders sliding windows, `groupwise` grades groups."""

    language_model: str
    """Name of a language model's row."""

    think: bool = False
    """Whether the model is asked to reason before it ranks; a reasoning model does so anyway."""

    window: int = Field(default=20, ge=2)
    """Candidates of one prompt. 20 by 10 are RankGPT's (Sun et al. 2023, arXiv 2304.09542)."""

    step: int = Field(default=10, ge=1)
    passes: int = Field(default=1, ge=1)
    """Orders that are fused; every one but the first sees shuffled candidates."""

    show_scores: bool = False
    """Whether the first stage's scores stand beside the passages."""

    passage_words: int = Field(default=300, ge=1)
    seed: int = 42
    prompt: str | None = None
    """A prompt file of your own with the places `{query}`, `{passages}` and `{count}`."""

    @model_validator(mode="after")
    def _windows_overlap(self) -> "LlmRerankerRow":
        if self.step > self.window:
            raise ValueError(f"step {self.step} would jump over candidates: at most the window, {self.window}")
        return self

    @property
    def how(self) -> str:
        notes = {"thinks": self.think, "sees scores": self.show_scores, f"{self.passes} passes": self.passes > 1}
        return ", ".join([self.strategy, *(note for note, holds in notes.items() if holds)])

    def settings(self) -> dict[str, Any]:
        """Return how the model is asked, as `retrieval.llm_reranking.LlmReranking` takes it."""
        fields = {"strategy", "window", "step", "passes", "show_scores", "passage_words", "seed"}
        return self.model_dump(include=fields)


def require_heeded(config: RerankerConfig, row: Row) -> None:
    """Check that a reranker heeds every setting that a system gives it.

    Raises:
        ConfigError: `max_unusable` for a reranker that scores pairs and writes no answers.
    """
    if "max_unusable" in config.model_dump(exclude_defaults=True) and not isinstance(row, LlmRerankerRow):
        raise ConfigError(
            f"reranker {row.name!r} scores pairs and writes no answers that could be unusable: leave out "
            f"`max_unusable: {config.max_unusable:g}`, which is for `llm_rerankers`"
        )
