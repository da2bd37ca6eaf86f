"""The rows of rerankers: what reads a query and a document together, and how it is meant to be used."""

from typing import Any, Literal

from pydantic import Field, model_validator

from r2med_ray.models.catalog import sources
from r2med_ray.models.catalog.devices import Dtype, best_device
from r2med_ray.models.catalog.rows import Row, library_versions

NEEDS = {"cross-encoder": "model", "yes-no": "model", "maxsim": "encoder"}
"""Kind → the key that names what it scores with."""


class RerankerRow(Row):
    """(query, document) pairs to scores."""

    kind: Literal["cross-encoder", "yes-no", "maxsim"]
    """`cross-encoder`: the logit of a sequence classifier. `yes-no`: how much more likely a language model is to
    answer yes than no. `maxsim`: late interaction over the token vectors of an encoder of the catalogue."""

    model: str = ""
    """Of a cross-encoder or a yes-no model; spelled as in an encoder's row."""

    adapter: str = ""
    """LoRA weights that are merged into a cross-encoder's `model`, with the head that they were trained with."""

    adapter_revision: str | None = Field(default=None, pattern=r"^[0-9a-f]{40}$")
    """Commit of the adapter on the Hub."""

    encoder: str = ""
    """Of maxsim."""

    query_prompt: str = ""
    """Stands before the query."""

    document_prompt: str = ""
    """Stands before the document; for `yes-no`, between the two."""

    prefix: str = ""
    """What a yes-no model reads before the pair: chat markers and system message, never cut."""

    suffix: str = ""
    """What it reads after the pair, never cut; its answer is the next token."""

    yes: str = "yes"
    no: str = "no"
    """The two answers of a yes-no model: tokens of its vocabulary."""

    max_length: int = Field(default=512, ge=3)
    """Tokens kept of a pair; of a cross-encoder's, the longer of the two texts is cut first."""

    score_class: int | None = Field(default=None, ge=0)
    """Which logit is the score, where a cross-encoder's checkpoint has several classes."""

    @model_validator(mode="after")
    def _kind_has_its_model(self) -> "RerankerRow":
        right = NEEDS[self.kind]
        wrong = "model" if right == "encoder" else "encoder"
        if not getattr(self, right) or getattr(self, wrong):
            raise ValueError(f"kind {self.kind!r} needs `{right}`, and not `{wrong}`")
        if self.adapter and self.kind != "cross-encoder":
            raise ValueError(f"kind {self.kind!r} takes no `adapter`; a cross-encoder does")
        return self

    def resolved_dtype(self, device: str = "auto") -> Dtype:
        """Return the row's dtype, or the one that suits kind and device.

        A classifier's scores lie close together, and bfloat16 changes their order (rank correlation with float32
        0.996). On a GPU float16, with eight times its precision, keeps it (0.9998) and is as fast; on a CPU float32.
        """
        if self.dtype != "auto" or self.kind != "cross-encoder":
            return super().resolved_dtype(device)
        on_gpu = (best_device() if device == "auto" else device).startswith("cuda")
        return "float16" if on_gpu else "float32"

    def scoring_inputs(self, *, device: str = "auto") -> dict[str, Any]:
        """Return everything that changes a score, for an artefact's key; what maxsim adds is its encoder's.

        Raises:
            ConfigError: a folder or package without a checkpoint.
            NotAtHand: a Hub model without revision.
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
            "model": sources.identity(self.model, self.revision),
            "dtype": self.resolved_dtype(device),
            "libraries": library_versions(),
        }
        if self.adapter:
            inputs["adapter"] = sources.identity(self.adapter, self.adapter_revision)
        return inputs
