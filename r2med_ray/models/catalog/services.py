"""The rows of embedding services: a model behind an OpenAI-compatible API, and the limits of a call."""

import json
from collections.abc import Mapping
from typing import Any, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from r2med_ray.cuts import Side
from r2med_ray.models.catalog.call_policy import CallPolicy
from r2med_ray.models.catalog.needs import Needs, Source
from r2med_ray.models.catalog.row import Row
from r2med_ray.models.catalog.tokenizer_names import tokenizer_identity
from r2med_ray.settings.rewriter import require_plain_address

InputFormat: TypeAlias = Literal["plain", "json-quoted"]

USAGE = ("sent", "stored", "tokens", "requests", "repeated")
"""The counts of a service's use: texts that were sent, texts whose answers were stored before, tokens as the service
counted them, HTTP requests, and requests that were repetitions."""


class ApiEncoderRow(Row):
    """A service that gives one vector per text."""

    model: str
    """The service's name for the model."""

    base_url: str = Field(pattern=r"^https?://")
    """Address of the service, to which `/embeddings` is appended."""

    key_variable: str | None = Field(default=None, pattern=r"^[A-Z_][A-Z0-9_]*$")
    """The environment variable that holds the key; None for a service that wants none."""

    dimension: int = Field(ge=1)
    """Numbers of a vector; an answer with another length is an error."""

    body: Mapping[str, Any] = Field(default_factory=dict)
    """Further keys of every request, besides model and texts."""

    query_body: Mapping[str, Any] = Field(default_factory=dict)
    """Further keys of requests for queries."""

    document_body: Mapping[str, Any] = Field(default_factory=dict)
    """Further keys of requests for documents."""

    tokenizer: str
    """`tiktoken:NAME`, `org/name` on the Hub, or a folder that is spelled as a model's."""

    revision: str | None = Field(default=None, pattern=r"^[0-9a-f]{40}$")
    """Commit of the tokenizer on the Hub. The service alone decides which weights compute."""

    max_length: int = Field(ge=1)
    """Tokens kept of a text."""

    max_input_tokens: int = Field(ge=1)
    """Most tokens of a text that the service takes. Quoting may make a text longer than `max_length`."""

    batch_texts: int = Field(default=64, ge=1)
    """Most texts of one request."""

    batch_tokens: int = Field(ge=1)
    """Most tokens of one request, over all its texts."""

    calls: CallPolicy = CallPolicy()
    """How many calls at once, how often and how long."""

    input_format: InputFormat = "plain"
    """`json-quoted`: newlines become spaces, and the text is sent as a JSON string: in quotes, with all characters
    beyond ASCII escaped. R2MED's code does this (utils.py:776 at 62b7074)."""

    similarity: Literal["cosine", "dot"] = "cosine"
    """How two vectors are compared. With `cosine`, they get unit length."""

    expansion_prompt: Literal["none", "query"] = "none"
    """How a hypothetical document is sent under `compat: r2med`: with the body of a query, or with no side's body."""

    usd_per_million_tokens: float | None = Field(default=None, ge=0)
    """The price in US dollars, for the report; None if it is not known."""

    @model_validator(mode="after")
    def _no_weights_are_here(self) -> Self:
        given = self.model_dump(exclude_defaults=True)
        for key in ("dtype", "trust_remote_code"):
            if key in given:
                raise ValueError(f"`{key}` has no meaning for a model behind an API")
        return self

    @model_validator(mode="after")
    def _a_text_fits(self) -> Self:
        require_plain_address(self.base_url)
        if not self.max_length <= self.max_input_tokens <= self.batch_tokens:
            raise ValueError("`max_length` must not exceed `max_input_tokens`, which must not exceed `batch_tokens`")
        return self

    def known_dimension(self) -> int:
        """Return the components of a vector."""
        return self.dimension

    def needs(self) -> Needs:
        keys = (self.key_variable,) if self.key_variable else ()
        return Needs(key_variables=keys, tokenizers=(Source(self.tokenizer, self.revision),))

    @property
    def shown_model(self) -> str:
        return self.model

    @property
    def shown_length(self) -> str:
        return str(self.max_length)

    @property
    def shown_memory(self) -> str:
        return ""

    @property
    def shown_revision(self) -> str:
        return "the service's"

    def usd(self, tokens: int) -> float | None:
        """Return the price of tokens in US dollars; None if it is not known."""
        return None if self.usd_per_million_tokens is None else tokens * self.usd_per_million_tokens / 1e6

    def formatted(self, text: str) -> str:
        """Return a text in the form that is sent."""
        return text if self.input_format == "plain" else json.dumps(text.replace("\n", " "))

    def encoding_inputs(self, task: str, *, device: str = "auto", side: Side | None = None) -> dict[str, Any]:
        """Return everything that changes a vector, for an artefact's key; see `EncoderRow.encoding_inputs`.

        Raises:
            NotAtHand: a Hub tokenizer has no revision, or a folder has no tokenizer.
        """
        of_side = {"query": {**self.body, **self.query_body}, "document": {**self.body, **self.document_body}}
        return {
            "service": self.base_url,
            "model": self.model,
            "dimension": self.dimension,
            **tokenizer_identity(self.tokenizer, self.revision),
            "max_length": self.max_length,
            "input_format": self.input_format,
            "similarity": self.similarity,
            **({side: of_side[side]} if side else of_side),
        }


def cost_line(row: ApiEncoderRow, usage: Mapping[str, int]) -> str:
    """Return one line for people about a stage's use of a service.

    Args:
        row: the service.
        usage: the counts of `USAGE`, summed over the stage.
    """
    sent, stored, tokens, requests, repeated = (usage[name] for name in USAGE)
    usd = row.usd(tokens)
    paid = "price not known" if usd is None else f"${usd:.4f}"
    return (
        f"{row.name}: {sent:,} texts sent, {tokens:,} tokens, {paid}; {requests:,} requests, "
        f"{repeated:,} of them repetitions; {stored:,} texts from earlier answers"
    )
