"""What a file says about a generation of hard negatives; checked when it is read."""

from typing import Annotated, Literal, Self, TypeAlias, get_args

from pydantic import Field, model_validator

from r2med_ray.settings.config import TaskConfig
from r2med_ray.settings.file_paths import PathField
from r2med_ray.settings.frozen import Frozen
from r2med_ray.settings.resources import ClusterConfig, ResourcesConfig
from r2med_ray.settings.retriever import RetrieverConfig, RetrieverField

NegativeKind: TypeAlias = Literal["another entity", "wrong question", "contradicting", "mimic"]
"""What makes a passage look right; `prompts/<kind>.txt` says it to the model."""

KINDS: tuple[NegativeKind, ...] = get_args(NegativeKind)

Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]


class AnchorsConfig(Frozen):
    """Passages of the corpus that a model is shown as examples of style. A search for the hard query finds them."""

    retriever: RetrieverField = RetrieverConfig(model="bm25")
    """The retriever of that search."""

    count: int = Field(default=2, ge=1)
    """Passages that a model is shown."""

    words: int = Field(default=120, ge=1)
    """Words kept of each."""


class FiltersConfig(Frozen):
    """The limits of the filters, each of which refuses a text."""

    length: tuple[Annotated[float, Field(gt=0)], Annotated[float, Field(gt=0)]] = (0.5, 1.5)
    """Fewest and most words of a passage, as multiples of the words of its positive."""

    english: Share = 0.1
    """The least share of a text's words that are English function words; 0 allows any language. The demo's passages
    have 0.16 to 0.44."""

    copied: Share = 0.5
    """The greatest share of a text's runs of five words that the query or one of its positives may have too."""

    jaccard: Share = 0.5
    """The greatest Jaccard similarity, over runs of five words, with a document or with another text."""

    embedder: RetrieverField = RetrieverConfig(model="all-MiniLM-L6-v2")
    """The encoder that compares texts by meaning. Its scores must be cosines."""

    cosine: float = Field(default=0.95, ge=-1, le=1)
    """The greatest cosine with a document or with another text. The text is embedded as a query, the other as a
    document; for encoders without prompts the two are the same."""

    neighbours: int = Field(default=5, ge=1)
    """How many documents that both searches find for a text are compared with it."""

    @model_validator(mode="after")
    def _band(self) -> Self:
        if self.length[0] >= self.length[1]:
            raise ValueError(f"length should go from a smaller to a greater multiple, got {list(self.length)}")
        return self


class MarginConfig(Frozen):
    """A reranker that scores each text and its positive for the query."""

    model: str
    """Name of a reranker of the catalogue that scores pairs."""

    at_least: float = 0.0
    """How far the positive has to score above the text. A text that comes nearer is set aside."""


class GenerationConfig(Frozen):
    """One round of hard negatives for some tasks."""

    name: str = Field(pattern=r"^[\w.-]+$")
    """The name of the folder that the packs are written to, unless a command names another."""

    tasks: tuple[str | TaskConfig, ...] = Field(min_length=1)
    """Tasks, as in a benchmark file."""

    writer: str
    """Name of the language model that writes queries and passages."""

    judges: tuple[str, ...] = Field(min_length=1)
    """Names of the language models that judge. Each judges every passage, and the greatest grade counts; the first
    one also ranks and answers. Best of another family than the writer."""

    models: PathField | None = None
    """A YAML file with rows of your own."""

    prompts: PathField | None = None
    """A folder with prompts of your own, which has every file of the shipped one."""

    queries: int | None = Field(default=None, ge=1)
    """How many queries of each task get hard negatives, in the order of the file; all if left out."""

    round: int = Field(default=1, ge=1)
    """Number of the round. Each round plans other passages and has a folder of its own, so that rounds add labels in
    any order and change none."""

    per_query: int = Field(default=5, ge=1)
    """Hard negatives that a round plans for each query."""

    kinds: tuple[NegativeKind, ...] = Field(default=KINDS, min_length=1)
    """The kinds that are planned in turn."""

    attempts: int = Field(default=3, ge=1)
    """How often a passage is written, each time with another seed, until one passes all checks."""

    anchors: AnchorsConfig = AnchorsConfig()
    filters: FiltersConfig = FiltersConfig()

    margin: MarginConfig | None = MarginConfig(model="maxsim-minilm")
    """The reranker that judges too; null for none."""

    calibration: int = Field(default=20, ge=0)
    """Positives, and as many documents drawn at random, that each judge grades without being told what they are."""

    controls: bool = True
    """Whether a pack of controls is written beside the hard negatives."""

    audit: int = Field(default=80, ge=0)
    """Passages in the sheet for a person, for each task."""

    seed: int = 42
    """What everything that is drawn depends on: the plan, the model's sampling, the sheet."""

    resources: ResourcesConfig = ResourcesConfig()
    cluster: ClusterConfig | None = None

    @model_validator(mode="after")
    def _names_once(self) -> Self:
        for key, names in (("judges", self.judges), ("kinds", self.kinds)):
            if len({*names}) < len(names):
                raise ValueError(f"{key} names one twice: {', '.join(names)}")
        return self
