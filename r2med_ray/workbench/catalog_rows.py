"""Rows of the catalogue behind the values that parts hand over: a part sees less of a row than a runner needs."""

from r2med_ray.chat import LanguageModel
from r2med_ray.errors import ConfigError
from r2med_ray.models.catalog.language_models import LanguageModelRow
from r2med_ray.models.catalog.rerankers import RerankerRow
from r2med_ray.protocols import Scorer


def language_model_row(model: LanguageModel) -> LanguageModelRow:
    """Return the row of a language model.

    Raises:
        ConfigError: it is none of the catalogue's.
    """
    if not isinstance(model, LanguageModelRow):
        raise ConfigError(
            f"language model {model.name!r}: expected a row of the catalogue, got {type(model).__name__}"
        )
    return model


def reranker_row(scorer: Scorer) -> RerankerRow:
    """Return the row of a scorer of pairs.

    Raises:
        ConfigError: it is none of the catalogue's.
    """
    if not isinstance(scorer, RerankerRow):
        raise ConfigError(f"scorer {scorer.name!r}: expected a row of the catalogue, got {type(scorer).__name__}")
    return scorer
