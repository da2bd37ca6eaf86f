"""The settings of a mining job, called as in `mine_hard_negatives` of sentence-transformers where it has them."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from r2med_ray.settings.config import TaskConfig
from r2med_ray.settings.file_paths import PathField
from r2med_ray.settings.frozen import Frozen
from r2med_ray.settings.resources import ResourcesConfig
from r2med_ray.settings.retriever import RetrieverField

Finite = Annotated[float, Field(allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class MiningConfig(Frozen):
    """What is mined, from which rankings, and which candidates are kept.

    All scores are those of the cross-encoder, because the scores of two retrievers don't compare.
    """

    name: str = Field(pattern=r"^[\w.-]+$")
    """The name of the job, which is also the folder of its files."""

    task: str | TaskConfig
    """The name of a task of the catalogue, or a collection in a folder."""

    retrievers: tuple[RetrieverField, ...] = Field(min_length=1)
    """Whose rankings candidates are taken from: names, or keys and values, as in a benchmark file."""

    cross_encoder: str
    """The name of a reranker that scores pairs. It scores every candidate and every positive."""

    range_min: int = Field(default=0, ge=0)
    """How many of the best candidates that pass are skipped, because they are positives that nobody judged."""

    range_max: int = Field(default=100, ge=1)
    """How many documents of each ranking are candidates, positives not counted."""

    max_score: Finite | None = None
    """The greatest score of a negative."""

    min_score: Finite | None = None
    """The least score of a negative."""

    absolute_margin: Share | None = None
    """How much less than the lowest score of the query's positives a negative scores at least."""

    relative_margin: Share | None = None
    """The same, as a share of the size of that score; 0.05 is 5 %."""

    num_negatives: int = Field(default=3, ge=1)
    """How many negatives a query gets at most."""

    sampling_strategy: Literal["top", "random"] = "top"
    """`top` takes the candidates with the greatest scores, `random` any of those that pass."""

    seed: int = 42
    """The seed of `random`."""

    models: PathField | None = None
    """A YAML file with models of your own."""

    resources: ResourcesConfig = ResourcesConfig()
    """As in a benchmark file."""

    @model_validator(mode="after")
    def _leaves_room(self) -> "MiningConfig":
        if self.num_negatives > self.range_max - self.range_min:
            raise ValueError(
                f"range_min {self.range_min} and range_max {self.range_max} leave "
                f"{max(0, self.range_max - self.range_min)} candidates for num_negatives {self.num_negatives}"
            )
        return self
