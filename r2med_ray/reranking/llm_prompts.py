"""Prompts that ask a language model to rerank: settings, prompt files, and filling in the candidates."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import resources
from pathlib import Path
from typing import Literal, TypeAlias

from r2med_ray.chat import ChatPrompt
from r2med_ray.errors import ConfigError
from r2med_ray.protocols import Candidates
from r2med_ray.reranking.orderings import Ordering
from r2med_ray.reranking.passages import PassageLimit, Tokenizer, no_tokenizer
from r2med_ray.reranking.prompt_files import PAIR_PLACES, WINDOW_PLACES, Passage, Prompt, TextPrompt, read_parts
from r2med_ray.reranking.setwise import Sort
from r2med_ray.reranking.shown_ids import without_ids
from r2med_ray.settings.file_paths import is_path_of_prompt
from r2med_ray.settings.templates import load_template
from r2med_ray.storage.keys import Json

Strategy: TypeAlias = Literal["listwise", "groupwise", "setwise", "pointwise", "probability"]
"""How the model is asked; see `llm_reranking` and `pair_asking`."""

Fuse: TypeAlias = Literal["rank", "mean"]

PAIRWISE = ("pointwise", "probability")
"""The strategies whose prompts show one passage."""

PARTS = (".yaml", ".yml")
"""Endings of prompt files of parts."""

PROMPTS = Path(str(resources.files("r2med_ray.reranking"))) / "prompts"

_ALWAYS_IN_KEYS = {"strategy", "window", "step", "passes", "show_scores", "passage_words", "seed"}
"""Settings that are part of every key. Any other is part of a key if it isn't the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LlmReranking:
    """Settings by which a language model is asked to rerank. They are part of the key of the stored scores."""

    strategy: Strategy = "listwise"
    window: int = 20
    """Number of candidates in one prompt."""

    step: int = 10
    """Number of places that a listwise window moves. Candidates in the overlap of two windows can rise further."""

    passes: int = 1
    """Number of passes. The first pass shows the first stage's order; every other pass shows a shuffled order."""

    shuffle_first: bool = False
    """Whether the first pass shows a shuffled order too."""

    fuse: Fuse = "rank"
    """How passes become one: by reciprocal rank, or by the mean of their grades."""

    best_grade: float = 10.0
    """The best grade on the scale that the prompt asks for. The worst is 0."""

    sort: Sort = "heap"
    """How a setwise reranker sorts; see `setwise`."""

    top: int = 10
    """Number of places that a setwise sort finds. The candidates below keep their order."""

    samples: int = 1
    """Number of answers about each pair, whose numbers or probabilities are averaged."""

    raw: bool = False
    """Whether the prompt is continued as it is, without the model's chat template; it always is for a probability."""

    yes: str = " true"
    """The next token after the reasoning about a relevant passage, with its space."""

    no: str = " false"
    """The next token after the reasoning about any other passage."""

    closing: str = "</think>"
    """The mark that ends the reasoning, before the next token."""

    stop: tuple[str, ...] = ("</think> true", "</think> false")
    """Texts that end the reasoning."""

    show_scores: bool = False
    """Whether each passage is shown with the first stage's score."""

    passage_words: int = 300
    """Number of words of each passage that are shown, unless one of the next two limits it."""

    passage_characters: int = 0
    passage_tokens: int = 0
    tokenizer: Mapping[str, str] = field(default_factory=dict)
    """What names the tokenizer that counts the tokens of passages."""

    seed: int = 42

    @property
    def is_raw(self) -> bool:
        """Whether prompts are continued without a chat template."""
        return self.raw or self.strategy == "probability"

    def inputs(self) -> dict[str, Json]:
        """Return what the key of stored scores says of the settings."""
        defaults = asdict(type(self)())
        return {
            name: value for name, value in asdict(self).items() if name in _ALWAYS_IN_KEYS or value != defaults[name]
        }

    def limit(self, open_tokenizer: Callable[[], Tokenizer] = no_tokenizer) -> PassageLimit:
        """Return the most that is shown of a passage."""
        if self.passage_tokens:
            return PassageLimit(most=self.passage_tokens, unit="tokens", open_tokenizer=open_tokenizer)
        if self.passage_characters:
            return PassageLimit(most=self.passage_characters, unit="characters")
        return PassageLimit(most=self.passage_words)


def load_llm_prompt(
    strategy: Strategy, *, think: bool = False, prompt: str | None = None, places: Mapping[str, str] | None = None
) -> Prompt:
    """Read the prompt file of a reranker.

    Args:
        strategy: the strategy of the shipped prompt file.
        think: whether the shipped prompt file asks for reasoning first.
        prompt: in place of it, another shipped prompt file by its name, or the path of a file of the user's own.
        places: further places of a prompt of parts, with their texts.

    Raises:
        ConfigError: the file can't be read, has no version, or has wrong places.
    """
    path = Path(prompt) if prompt and is_path_of_prompt(prompt) else PROMPTS / (prompt or _shipped(strategy, think))
    if not path.suffix:
        path = next(iter(sorted(PROMPTS.glob(f"{path.name}.*"))), path)
    one_passage = strategy in PAIRWISE
    if places and path.suffix not in PARTS:
        raise ConfigError(f"prompt {path}: only a prompt of parts ({', '.join(PARTS)}) takes `places`")
    if path.suffix in PARTS:
        return read_parts(path, PAIR_PLACES if one_passage else WINDOW_PLACES, places or {})
    return TextPrompt(load_template(path, ("query", "passage") if one_passage else ("query", "passages", "count")))


def pair_prompt(
    prompt: Prompt,
    settings: LlmReranking,
    limit: PassageLimit,
    candidates: Candidates,
    position: int,
    *,
    sample: int,
) -> ChatPrompt:
    """Return the question about one candidate of a query; `sample` counts from 0, and is added to the seed."""
    query, documents, scores = candidates
    passage = Passage(limit.cut(documents[position].content), scores[position])
    return ChatPrompt(
        unit=f"query {query.query_id!r}, document {documents[position].doc_id!r}, sample {sample + 1}",
        messages=prompt.messages(query.text, [passage], show_scores=settings.show_scores),
        seed=settings.seed + sample,
        stop=settings.stop if settings.strategy == "probability" else (),
        is_raw=settings.is_raw,
    )


def window_prompt(
    prompt: Prompt,
    settings: LlmReranking,
    limit: PassageLimit,
    ordering: Ordering,
    shown: Sequence[int],
    *,
    turn: int,
) -> ChatPrompt:
    """Return the question about some candidates of a query. The candidates are numbered from 1 in the shown order.

    Numbers in brackets within the texts would look like these ids, and are shown in round brackets.

    Args:
        prompt: a prompt whose places are those of a window.
        settings: what is shown of each candidate, and the seed. The number of the pass is added to the seed.
        limit: the most that is shown of a passage.
        ordering: the query's candidates in one pass.
        shown: positions of the candidates to show.
        turn: number of the window in the pass, from 0. Errors name it.
    """
    query, documents, scores = ordering.candidates
    passages = [Passage(limit.cut(without_ids(documents[each].content)), scores[each]) for each in shown]
    return ChatPrompt(
        unit=f"query {query.query_id!r}, pass {ordering.number + 1}, window {turn + 1}",
        messages=prompt.messages(without_ids(query.text), passages, show_scores=settings.show_scores),
        seed=settings.seed + ordering.number,
    )


def _shipped(strategy: Strategy, think: bool) -> str:
    return f"{strategy}{'-think' if think and strategy != 'probability' else ''}.txt"
