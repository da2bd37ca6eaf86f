"""The rows of rerankers in which a language model of the catalogue reads candidates."""

from collections.abc import Mapping
from typing import Any, Literal, Self, get_args

from pydantic import Field, model_validator

from r2med_ray.errors import ConfigError
from r2med_ray.models.catalog.language_models import LanguageModelRow
from r2med_ray.models.catalog.listwise_encoders import ListwiseEncoderRow
from r2med_ray.models.catalog.needs import Needs
from r2med_ray.models.catalog.rerankers import RerankerRow
from r2med_ray.models.catalog.row import Row
from r2med_ray.models.catalog.tokenizer_names import tokenizer_identity
from r2med_ray.settings.config import RerankerConfig

_OF_PAIRS = ("pointwise", "probability")
"""The strategies whose prompts are about one candidate each."""

_SETTINGS: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("setwise",): ("sort", "top"),
    ("pointwise",): ("raw",),
    _OF_PAIRS: ("samples",),
    ("listwise",): ("step",),
    ("groupwise", "pointwise"): ("best_grade",),
    ("probability",): ("yes", "no", "closing", "stop"),
    ("listwise", "groupwise", "setwise"): ("window", "passes", "shuffle_first"),
}
"""Strategies → the keys that only they have."""


class LlmRerankerRow(Row):
    """A reranker that asks a language model about the candidates of a query; see `reranking.llm_reranking`."""

    strategy: Literal["listwise", "groupwise", "setwise", "pointwise", "probability"]
    """`listwise` orders the candidates of sliding windows. `groupwise` grades the candidates of groups. `setwise`
    names the best of a few, by which a sort finds the first ones. `pointwise` gives each candidate a number.
    `probability` reasons about each candidate, and scores it by the token that follows."""

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

    shuffle_first: bool = False
    """Whether the candidates are shuffled for the first order too, as GroupRank does."""

    fuse: Literal["rank", "mean"] = "rank"
    """How the orders of several passes are fused: by reciprocal rank, or by the `mean` of a candidate's grades."""

    best_grade: float = Field(default=10.0, gt=0)
    """The best grade on the scale that the prompt asks for. The worst is 0."""

    sort: Literal["heap", "bubble"] = "heap"
    """How a setwise reranker sorts."""

    top: int = Field(default=10, ge=1)
    """Places that a setwise sort finds. The candidates below keep their order."""

    samples: int = Field(default=1, ge=1)
    """Answers about each candidate, of which a pointwise reranker takes the mean."""

    raw: bool = False
    """Whether the prompt is continued as it is, without the model's chat template; for `probability` it always is."""

    yes: str = " true"
    """The token that follows the reasoning about a relevant candidate, with its space."""

    no: str = " false"
    """The token that follows the reasoning about any other candidate."""

    closing: str = "</think>"
    """The mark that ends the reasoning, before that token."""

    stop: tuple[str, ...] = ("</think> true", "</think> false")
    """Texts that end the reasoning."""

    show_scores: bool = False
    """Whether the prompt shows the first stage's score of each passage."""

    passage_words: int = Field(default=300, ge=1)
    """Words of a passage that the model is shown."""

    passage_characters: int | None = Field(default=None, ge=1)
    """The limit in characters, in place of the limit in words. White space counts as one character."""

    passage_tokens: int | None = Field(default=None, ge=1)
    """The limit in tokens, in place of the limit in words."""

    tokenizer: str | None = None
    """What counts the tokens: a folder, a model of the Hub or `tiktoken:NAME`, as in an API encoder's row. If left
    out, it is the language model's own."""

    tokenizer_revision: str | None = Field(default=None, pattern=r"^[0-9a-f]{40}$")
    """Commit of `tokenizer` on the Hub."""

    seed: int = 42
    """The seed of the answers and of the shuffles."""

    prompt: str | None = None
    """The name of a shipped prompt file, or the path of one of your own, from the folder of this file on. A text file
    has the placeholders `{query}`, `{passages}` and `{count}`. A YAML file has the parts of RankLLM's templates
    (`system_message`, `prefix`, `body`, `suffix`, ...); see `reranking.prompt_files`."""

    places: Mapping[str, str] = Field(default_factory=dict)
    """Further placeholders of a YAML prompt file, with their texts."""

    system_prompt: str | None = None
    """The system message, in place of the language model's. A prompt file's own `system_message` comes first; a YAML
    file without one means that there is none, unless this key gives it."""

    thinking: bool | None = None
    """Whether the model's chat template lets it think (`enable_thinking`); if left out, its row decides."""

    temperature: float | None = Field(default=None, ge=0)
    """The temperature, in place of the language model's."""

    top_p: float | None = Field(default=None, gt=0, le=1)
    """Share of the probability from which tokens are drawn, in place of the language model's."""

    top_k: int | None = Field(default=None, ge=1)
    """How many tokens are drawn from; vLLM and most servers know it."""

    max_tokens: int | None = Field(default=None, ge=1)
    """Tokens of an answer, in place of the language model's."""

    @model_validator(mode="after")
    def _windows_overlap(self) -> Self:
        if self.strategy == "listwise" and self.step > self.window:
            raise ValueError(
                f"step {self.step} is larger than the window, {self.window}: candidates would be skipped"
            )
        return self

    @model_validator(mode="after")
    def _grades_are_averaged(self) -> Self:
        if self.fuse == "mean" and self.strategy != "groupwise":
            raise ValueError(f"`fuse: mean` averages the grades of a groupwise reranker, and this is {self.strategy}")
        return self

    @model_validator(mode="after")
    def _settings_of_its_strategy(self) -> Self:
        for strategies, keys in _SETTINGS.items():
            given = [key for key in keys if getattr(self, key) != type(self).model_fields[key].default]
            unused = given if self.strategy not in strategies else []
            if unused:
                raise ValueError(f"a {self.strategy} reranker has no `{unused[0]}`; for {' and '.join(strategies)}")
        return self

    @model_validator(mode="after")
    def _raw_texts_have_no_template(self) -> Self:
        given = [key for key in ("system_prompt", "thinking") if getattr(self, key) is not None]
        if given and (self.raw or self.strategy == "probability"):
            raise ValueError(f"`{given[0]}` is part of a chat template, and this prompt is continued without one")
        return self

    @model_validator(mode="after")
    def _one_limit(self) -> Self:
        limits = ("passage_words", "passage_characters", "passage_tokens")
        given = [limit for limit in limits if getattr(self, limit) != type(self).model_fields[limit].default]
        if len(given) > 1:
            raise ValueError(f"give one limit of a passage, got {' and '.join(given)}")
        if self.tokenizer and not self.passage_tokens:
            raise ValueError("`tokenizer` counts `passage_tokens`, which are not given")
        return self

    @property
    def asks_about_pairs(self) -> bool:
        """Whether each prompt is about one candidate."""
        return self.strategy in _OF_PAIRS

    @property
    def has_text_prompt(self) -> bool:
        """Whether its prompt file is of text, as are those shipped ones that are named after a strategy."""
        name = self.prompt or self.strategy
        strategies = get_args(type(self).model_fields["strategy"].annotation)
        return name.endswith(".txt") or name.removesuffix("-think") in strategies

    @property
    def answers_per_candidate(self) -> int | None:
        """How many answers there are about each candidate; None if an answer is about several."""
        return self.samples if self.asks_about_pairs else None

    @property
    def named_rows(self) -> Mapping[str, str]:
        return {"language_models": self.language_model}

    def needs(self) -> Needs:
        return Needs()

    @property
    def how(self) -> str:
        notes = {
            "thinks": self.think,
            "sees scores": self.show_scores,
            f"{self.passes} passes": self.passes > 1,
            f"{self.samples} samples": self.samples > 1,
        }
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

    def settings(self, model: LanguageModelRow) -> dict[str, Any]:
        """Return how the model is asked, in the form that `reranking.llm_reranking` takes.

        Args:
            model: the row of the language model.

        Raises:
            NotAtHand: the tokenizer that counts tokens has no commit, or its folder no tokenizer.
        """
        fields = {
            *("strategy", "window", "step", "passes", "shuffle_first", "fuse", "best_grade", "sort", "top"),
            *("samples", "raw", "yes", "no", "closing", "stop", "show_scores", "passage_words", "seed"),
        }
        limits = self.model_dump(include={"passage_characters", "passage_tokens"}, exclude_none=True)
        if self.passage_tokens:
            limits["tokenizer"] = tokenizer_identity(*self.counts_with(model))
        return self.model_dump(include=fields) | limits

    def sampled(self, samples: int | None) -> Self:
        """Return the row with another number of samples; None keeps the row's."""
        return self if samples is None else self.model_copy(update={"samples": samples})

    def counts_with(self, model: LanguageModelRow) -> tuple[str, str | None]:
        """Return name and commit of the tokenizer that counts the tokens of passages."""
        return (self.tokenizer, self.tokenizer_revision) if self.tokenizer else (model.model, model.revision)

    def asked(self, model: LanguageModelRow) -> LanguageModelRow:
        """Return the row of the language model as this reranker asks it."""
        row = model.with_sampling(temperature=self.temperature, top_p=self.top_p, max_tokens=self.max_tokens)
        body = dict(row.body) | ({"top_k": self.top_k} if self.top_k else {})
        if self.thinking is not None:
            template = {**body.get("chat_template_kwargs", {}), "enable_thinking": self.thinking}
            body["chat_template_kwargs"] = template
        system = row.system_prompt
        if self.system_prompt is not None or not self.has_text_prompt:
            system = self.system_prompt
        return row.model_copy(update={"body": body, "system_prompt": system})


def require_heeded(config: RerankerConfig, row: RerankerRow | LlmRerankerRow | ListwiseEncoderRow) -> None:
    """Check that a reranker uses every setting that a system gives it.

    Raises:
        ConfigError: `max_unusable` for a reranker that writes no answers, or `samples` for one that has none.
    """
    has_samples = isinstance(row, LlmRerankerRow) and row.asks_about_pairs
    if config.samples is not None and not has_samples:
        raise ConfigError(
            f"reranker {row.name!r} has no samples: leave out `samples: {config.samples}`, a setting of pointwise "
            "`llm_rerankers`"
        )
    if "max_unusable" in config.model_dump(exclude_defaults=True) and not isinstance(row, LlmRerankerRow):
        raise ConfigError(
            f"reranker {row.name!r} writes no texts, so it has no answers that could be unusable: leave out "
            f"`max_unusable: {config.max_unusable:g}`, a setting of `llm_rerankers`"
        )
