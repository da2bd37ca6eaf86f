"""What a benchmark file says about one retriever."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from r2med_ray.settings.file_paths import ListsField
from r2med_ray.settings.frozen import Frozen

CompressedDtype: TypeAlias = Literal["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8", "int4", "binary"]
"""What a component of a compressed vector can be."""

INTEGERS: tuple[CompressedDtype, ...] = ("int8", "int4")
"""Those that need the range of each component."""


def _model_or_candidates(schema: dict[str, Any]) -> None:
    """Say in the JSON schema that `candidates` may stand in place of `model`."""
    schema.pop("required", None)
    schema["anyOf"] = [{"required": ["model"]}, {"required": ["candidates"]}]


class RetrieverConfig(Frozen):
    """A first stage. `model` names a row of the catalogue, and the other keys override this row."""

    model_config = ConfigDict(json_schema_extra=_model_or_candidates)

    model: str
    """Name of a retriever: a variant of BM25, an encoder, ...; see `r2med models`."""

    candidates: ListsField | None = None
    """Ranked lists that exist already, in place of `model`: `bm25`, `dense` or `reranking_hybrid` of a Nano set, or
    the path of a Parquet or TREC run file, which starts at the folder of this file. `{task}` in the path becomes the
    task's name."""

    safeguard: Literal["keep", "drop"] | None = None
    """Whether the positive that Nano sets add at rank 101 of `candidates` stays. If left out, it stays."""

    k1: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """BM25's k1: how fast repeats of a term stop to count. If left out, it is the row's."""

    b: float | None = Field(default=None, ge=0, le=1)
    """BM25's b: how much long documents are discounted. If left out, it is the row's."""

    max_length: int | None = Field(default=None, ge=1)
    """Tokens that the encoder reads of a text. If left out, it is the row's."""

    dtype: Literal["float32", "bfloat16", "float16", "fastest"] | None = None
    """The numbers that the encoder computes with; see `resources.encode.dtype`. If left out, it is the row's."""

    index: str | None = None
    """A FAISS factory string. If left out, it is `Flat`, which is exact. Search parameters may follow a semicolon:
    `IVF1024,Flat;nprobe=64`. If left out, they are those of `indexing.factory`."""

    embed_dim: int | None = Field(default=None, ge=1)
    """How many components of each vector are searched, the first ones (Matryoshka); all if left out. For cosine, what
    is left gets unit length again. Whole vectors are stored, so every number of dimensions uses the same ones."""

    output_dtype: CompressedDtype | None = None
    """Compresses the vectors that are searched: fewer bits for each component, down to one. The best candidates are
    then scored exactly. If left out, vectors are searched as they are stored."""

    rescore_multiplier: int | None = Field(default=None, ge=0)
    """How many candidates per document of a ranking are scored exactly under `output_dtype`. If left out, they are 4;
    with 0 the order and the scores of the compressed vectors stay."""

    clipping_margin: tuple[float, float] | None = None
    """Two quantiles of each component, e.g. `[0.01, 0.99]`, which are the ends of its range under `output_dtype` int8
    and int4. Values outside get the code of the end. If left out, the smallest and the largest value are the ends."""

    @model_validator(mode="after")
    def _one_first_pass(self) -> "RetrieverConfig":
        if self.rescore_multiplier is not None and self.output_dtype is None:
            raise ValueError("`rescore_multiplier` needs `output_dtype`: vectors that aren't compressed are exact")
        if self.clipping_margin is not None:
            if self.output_dtype not in INTEGERS:
                raise ValueError(f"`clipping_margin` needs `output_dtype` {' or '.join(INTEGERS)}, which have ranges")
            if not 0 < self.clipping_margin[0] < self.clipping_margin[1] < 1:
                raise ValueError(f"`clipping_margin` needs 0 < lower < upper < 1, not {list(self.clipping_margin)}")
        if self.index is not None and self.output_dtype is not None:
            raise ValueError("give either `index` or `output_dtype`: both say how candidates are found")
        return self


CANDIDATES = "candidates"
"""The value of `model` if `candidates` is given in its place."""


def _as_retriever(value: Any) -> Any:
    if isinstance(value, dict) and CANDIDATES in value and "model" not in value:
        return {"model": CANDIDATES, **value}
    return {"model": value} if isinstance(value, str) else value


RetrieverField = Annotated[
    RetrieverConfig, BeforeValidator(_as_retriever, json_schema_input_type=str | RetrieverConfig)
]
