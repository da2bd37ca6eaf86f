"""What a benchmark file says about a rewriter."""

import re
from typing import Literal

from pydantic import Field, model_validator

from r2med_ray.settings.file_paths import PathField, TextsField
from r2med_ray.settings.frozen import Frozen
from r2med_ray.settings.retriever import RetrieverField
from r2med_ray.types import Combine


def require_plain_address(address: str | None) -> None:
    """Check that an address holds nothing secret, because reports and errors show addresses.

    Raises:
        ValueError: the address holds a user, a password, a query or a fragment. The message doesn't repeat it.
    """
    if address is not None and not re.fullmatch(r"https?://[^@?#\s]+", address):
        raise ValueError(
            "`base_url` should be scheme, host, port and path alone, e.g. https://host:8000/v1. A key belongs in the "
            "environment variable that `key_variable` names; other fields of a request belong in the row's `body`"
        )


class CandidatesConfig(Frozen):
    """The passages that a language model is shown. A first search for the unchanged query finds them. In rounds of
    feedback, each search is made for the query with the texts so far, and passages shown before are left out."""

    retriever: RetrieverField
    """The retriever of the first search."""

    depth: int = Field(default=10, ge=1)
    """Passages that the model is shown."""

    words: int = Field(default=512, ge=1)
    """Words kept of a candidate. R2MED uses 10 candidates of 512 words."""

    rounds: int | None = Field(default=None, ge=1)
    """Rounds of feedback. If left out, the method decides: 1 for lamer, 2 for diver-qexpand, 3 for thinkqe."""

    too_long: Literal["error", "halve"] = "error"
    """What happens to a prompt that is too long for the model. With `error`, its text counts as unusable (`context
    limit`). `halve` halves the words of each candidate until the prompt fits, and counts the query in the report."""


class SearchAgentConfig(Frozen):
    """The limits of a language model that searches while it reasons, or whose answer is a ranking."""

    retriever: RetrieverField
    """The retriever that the model searches with."""

    depth: int = Field(default=5, ge=1)
    """Passages that each search shows the model. A `retrieval-agent` may ask for fewer."""

    words: int = Field(default=300, ge=1)
    """Words kept of each passage."""

    max_turns: int = Field(default=5, ge=1)
    """Searches of one conversation; turns of a `retrieval-agent`. After the last, the model is told to answer."""

    max_tokens: int = Field(default=16_384, ge=1)
    """Tokens that the model may write in one conversation. The conversation ends after the turn that reaches them."""

    max_seconds: float = Field(default=3600.0, gt=0)
    """Seconds that the texts of one conversation may take. After that, the conversation begins no other search."""


class RewriterConfig(Frozen):
    """A change of the query. With `llm` a language model writes texts; `generations` replays earlier texts."""

    method: str
    """What is written for a query: `hyde`, `query2doc`, `lamer`, `reason`, ..., or a row of yours under `methods`."""

    generations: TextsField | None = None
    """Name of a generation set of the task (`hyde/<NAME>/query_with_hydoc.jsonl`), or the path of a file, which
    starts at the folder of this file."""

    llm: str | None = None
    """Name of a language model of the catalogue."""

    base_url: str | None = Field(default=None, pattern=r"^https?://")
    """The address of that model, up to `/v1`. If left out, it is the address of the model's row, or the address of a
    server that the job starts."""

    prompts: PathField | None = None
    """A folder with prompts of your own (`<method>/<family>.txt`), or R2MED's repository. It starts at the folder of
    this file."""

    samples: int = Field(default=1, ge=1)
    """Texts per query, with the seeds `seed`, `seed` + 1, ..."""

    combine: Combine = "mean"
    """How several texts of a query are used. `mean` uses all texts in one search: words are put together, vectors are
    averaged. The others make one search per text: `rrf` fuses the rankings by reciprocal rank, `sum` adds the scores
    as they come, `minmax` and `zscore` add them on one scale."""

    seed: int = 42
    """The seed of the first text of each query."""

    temperature: float | None = Field(default=None, ge=0)
    """Overrides the temperature of the model's row."""

    max_tokens: int | None = Field(default=None, ge=1)
    """Overrides the limit of the model's row: tokens of one text."""

    candidates: CandidatesConfig | None = None
    """The passages that `lamer`, `diver-qexpand` and `thinkqe` show the model."""

    agent: SearchAgentConfig | None = None
    """The search tool and the limits of `search-o1`, `search-r1` and `retrieval-agent`."""

    on_unusable: Literal["original", "error"] = "original"
    """What happens to a query whose text is empty, or was cut while the model was still thinking."""

    max_unusable: float = Field(default=0.05, ge=0, le=1)
    """Share of queries without a usable text above which the system fails."""

    @model_validator(mode="after")
    def _one_source(self) -> "RewriterConfig":
        if self.generations is not None and self.llm is not None:
            raise ValueError("give either `llm: MODEL` or `generations: NAME`, not both")
        require_plain_address(self.base_url)
        replayed = {"method", "generations", "on_unusable", "max_unusable"}
        if self.generations and (given := sorted(self.model_dump(exclude_defaults=True).keys() - replayed)):
            raise ValueError(
                f"`{given[0]}` is a setting for texts that a model has to write; leave it out with `generations`"
            )
        return self

    @property
    def writer(self) -> str:
        """The language model or the generation set that the texts come from; empty if a class writes without one."""
        return self.llm or self.generations or ""
