"""The rows of rerankers in which a language model of the catalogue reads several candidates at once."""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from r2med_ray.errors import ConfigError
from r2med_ray.models.catalog.needs import Needs
from r2med_ray.models.catalog.rerankers import RerankerRow
from r2med_ray.models.catalog.row import Row
from r2med_ray.settings.config import RerankerConfig


class LlmRerankerRow(Row):
    """A reranker that asks a language model about several candidates of a query; see `reranking.llm_reranking`."""

    strategy: Literal["listwise", "groupwise"]
    """`listwise` orders the candidates of sliding windows. `groupwise` grades the candidates of groups."""

    language_model: str
    """The catalogue's name of the language model that ranks."""

    think: bool = False
    """Whether the model is asked to reason before it ranks; a reasoning model does so anyway."""

    window: int = Field(default=20, ge=2)
    """Candidates of one prompt. RankGPT has a window of 20 and a step of 10 (Sun et al. 2023, arXiv 2304.09542)."""

    step: int = Field(default=10, ge=1)
    """Candidates by which the window moves on."""

    passes: int = Field(default=1, ge=1)
    """How many orders are made and fused. The candidates are shuffled for every order but the first."""

    show_scores: bool = False
    """Whether the prompt shows the first stage's score of each passage."""

    passage_words: int = Field(default=300, ge=1)
    """Words of a passage that the model is shown."""

    seed: int = 42
    """The seed of the answers and of the shuffles."""

    prompt: str | None = None
    """A prompt file of your own, with the placeholders `{query}`, `{passages}` and `{count}`."""

    @model_validator(mode="after")
    def _windows_overlap(self) -> Self:
        if self.step > self.window:
            raise ValueError(
                f"step {self.step} is larger than the window, {self.window}: candidates would be skipped"
            )
        return self

    @property
    def writes_answers(self) -> bool:
        """Whether a language model writes answers, which may be unusable."""
        return True

    @property
    def named_rows(self) -> Mapping[str, str]:
        return {"language_models": self.language_model}

    def needs(self) -> Needs:
        return Needs()

    @property
    def how(self) -> str:
        notes = {"thinks": self.think, "sees scores": self.show_scores, f"{self.passes} passes": self.passes > 1}
        return ", ".join([self.strategy, *(note for note, holds in notes.items() if holds)])

    @property
    def shown_model(self) -> str:
        return self.language_model

    @property
    def shown_license(self) -> str:
        return ""

    @property
    def shown_memory(self) -> str:
        return ""

    def settings(self) -> dict[str, Any]:
        """Return how the model is asked, in the form that `reranking.llm_reranking` takes."""
        fields = {"strategy", "window", "step", "passes", "show_scores", "passage_words", "seed"}
        return self.model_dump(include=fields)


def require_heeded(config: RerankerConfig, row: RerankerRow | LlmRerankerRow) -> None:
    """Check that a reranker uses every setting that a system gives it.

    Raises:
        ConfigError: `max_unusable` for a reranker that scores pairs and writes no answers.
    """
    if "max_unusable" in config.model_dump(exclude_defaults=True) and not row.writes_answers:
        raise ConfigError(
            f"reranker {row.name!r} scores pairs, so it has no answers that could be unusable: leave out "
            f"`max_unusable: {config.max_unusable:g}`, a setting of `llm_rerankers`"
        )
