import pytest

from r2med_ray.errors import ConfigError
from r2med_ray.models.catalog.llm_rerankers import require_heeded
from r2med_ray.models.catalog.load import load_catalog
from r2med_ray.settings.config import RerankerConfig


def test_a_limit_on_unreadable_answers_is_refused_where_there_are_no_answers() -> None:
    catalog = load_catalog()
    listwise, pairs = (catalog.reranker(name) for name in ("listwise-qwen-7b", "bge-reranker-v2-m3"))
    limited = RerankerConfig(model="m", max_unusable=0.1)

    require_heeded(limited, listwise)
    with pytest.raises(ConfigError, match=r"'bge-reranker-v2-m3' writes no texts.* leave out `max_unusable: 0\.1`"):
        require_heeded(limited, pairs)


def test_a_configuration_that_was_written_with_its_defaults_is_read_again() -> None:
    written = RerankerConfig(model="m").model_dump()

    require_heeded(RerankerConfig.model_validate(written), load_catalog().reranker("bge-reranker-v2-m3"))
