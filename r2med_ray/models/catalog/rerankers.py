"""The rows of rerankers that score pairs of a query and a document."""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from r2med_ray.models.catalog import sources
from r2med_ray.models.catalog.devices import Dtype, best_device, pass_inputs
from r2med_ray.models.catalog.needs import Needs, Source
from r2med_ray.models.catalog.own_class import OwnClassRow
from r2med_ray.models.catalog.row import library_versions, prompts_cell, revision_cell

SCORES_WITH = {"cross-encoder": "model", "yes-no": "model", "maxsim": "encoder"}
"""Kind of reranker → the key that names the model it scores with."""


class RerankerRow(OwnClassRow):
    """A model that gives scores to (query, document) pairs. A row has a `kind` or a `class`; the class is given the
    whole row.
    """

    kind: Literal["cross-encoder", "yes-no", "maxsim"] | None = None
    """What the score is. `cross-encoder`: the logit of a sequence classifier. `yes-no`: how much more likely a
    language model is to answer yes than no. `maxsim`: late interaction over the token vectors of an encoder of the
    catalogue."""

    model: str = ""
    """The checkpoint of a cross-encoder or a yes-no model, spelled as in an encoder's row. A row with a class may
    leave it out."""

    adapter: str = ""
    """LoRA weights that are merged into a cross-encoder's `model`, with the head that was trained together with
    them."""

    adapter_revision: str | None = Field(default=None, pattern=r"^[0-9a-f]{40}$")
    """Commit of the adapter on the Hub."""

    encoder: str = ""
    """The catalogue's name of a maxsim row's encoder."""

    query_prompt: str = ""
    """A text that is put before the query."""

    document_prompt: str = ""
    """A text that is put before the document; for `yes-no`, between query and document."""

    prefix: str = ""
    """The text that a yes-no model reads before the pair: chat markers and system message. The text is never cut."""

    suffix: str = ""
    """The text that a yes-no model reads after the pair. The text is never cut. The answer is the next token."""

    yes: str = "yes"
    """The answer of a yes-no model for a relevant document: a token of its vocabulary."""

    no: str = "no"
    """The answer for any other document."""

    max_length: int = Field(default=512, ge=3)
    """Tokens kept of a pair, with all that is read around it; never more than tokenizer and positions allow. If a
    pair is too long, the longer of its two texts is cut, until both have the same length: a passage is cut to what
    the query leaves, and a query that leaves a passage less than half of the room is cut itself."""

    score_class: int | None = Field(default=None, ge=0)
    """Which logit is the score, if a cross-encoder's checkpoint has several classes."""

    @model_validator(mode="after")
    def _kind_or_class(self) -> Self:
        if self.class_ and (self.kind or self.encoder):
            raise ValueError("a reranker with a `class` takes neither `kind` nor `encoder`: the class scores")
        if not self.class_ and not self.kind:
            raise ValueError(f"a reranker needs a `kind` ({', '.join(SCORES_WITH)}), or a `class`")
        return self

    @model_validator(mode="after")
    def _kind_has_its_model(self) -> Self:
        if not self.kind:
            return self
        given = {"model": self.model, "encoder": self.encoder}
        right = SCORES_WITH[self.kind]
        [wrong] = given.keys() - {right}
        if not given[right] or given[wrong]:
            raise ValueError(f"kind {self.kind!r} needs `{right}`, and not `{wrong}`")
        if self.adapter and self.kind != "cross-encoder":
            raise ValueError(f"kind {self.kind!r} takes no `adapter`; a cross-encoder does")
        return self

    @property
    def named_rows(self) -> Mapping[str, str]:
        return {"encoders": self.encoder} if self.encoder else {}

    def needs(self) -> Needs:
        if self.encoder:  # the row's files and memory are the encoder's
            return Needs()
        checkpoints = [Source(self.model, self.revision), Source(self.adapter, self.adapter_revision)]
        return Needs(
            modules=self.class_modules(),
            checkpoints=tuple(checkpoint for checkpoint in checkpoints if checkpoint.name),
            memory_gb=self.memory_gb,
        )

    @property
    def how(self) -> str:
        return super().how or str(self.kind)

    @property
    def shown_model(self) -> str:
        return self.model or self.encoder

    @property
    def shown_length(self) -> str:
        return str(self.max_length)

    @property
    def shown_prompts(self) -> str:
        return prompts_cell(self.query_prompt, self.document_prompt)

    @property
    def shown_revision(self) -> str:
        return revision_cell(self.model, self.revision)

    def resolved_dtype(self, device: str = "auto") -> Dtype:
        """Return the row's dtype. For `auto`, return the dtype that suits kind and device.

        A classifier's scores are close together, and bfloat16 changes their order (rank correlation with float32:
        0.996). So a classifier gets float16 on a GPU, and float32 on a CPU. float16 is eight times as precise as
        bfloat16, keeps the order (rank correlation 0.9998), and is as fast.
        """
        if self.dtype != "auto" or self.kind != "cross-encoder":
            return super().resolved_dtype(device)
        on_gpu = (best_device() if device == "auto" else device).startswith("cuda")
        return "float16" if on_gpu else "float32"

    def scoring_inputs(self, *, device: str = "auto") -> dict[str, Any]:
        """Return everything that changes a score, for an artefact's key.

        `pair_scorers.scoring_inputs` adds the inputs of a maxsim row's encoder.

        Raises:
            ConfigError: the folder or package has no checkpoint.
            NotAtHand: the row names a Hub model without a revision.
        """
        keep = {
            "kind",
            "query_prompt",
            "document_prompt",
            "prefix",
            "suffix",
            "yes",
            "no",
            "max_length",
            "score_class",
        }
        inputs: dict[str, Any] = {
            **self.model_dump(include=keep, exclude_defaults=True),
            "kind": self.kind,
            "max_length": self.max_length,
            "score_class": self.score_class,
            **self.loading_inputs(),
            **(self.class_inputs() or pass_inputs(device)),
            "dtype": self.resolved_dtype(device),
            "libraries": library_versions(),
        }
        if self.kind == "cross-encoder":  # the row doesn't know which checkpoints have a score for every token
            inputs["last_layer"] = "float32, at the last real token"
        elif self.kind == "yes-no" and inputs["dtype"] != "float32":
            inputs["last_layer"] = "float32"
        if self.kind == "yes-no":
            inputs["cut"] = "longer text first"
        if self.model:
            inputs["model"] = sources.identity(self.model, self.revision)
        if self.adapter:
            inputs["adapter"] = sources.identity(self.adapter, self.adapter_revision)
        return inputs
