"""Refuses rewriters for which R2MED's published protocol has no rule, before anything starts."""

from r2med_ray.errors import ConfigError
from r2med_ray.settings.compat import Rules
from r2med_ray.types import Use


def require_published_use(name: str, use: Use, rules: Rules) -> None:
    """Refuse a use of texts that was never published, if the published protocol is to make a retriever's queries.

    Raises:
        ConfigError: the use is neither `joined` nor `averaged`; names the method.
    """
    if _is_published(rules) and use not in ("joined", "averaged"):
        raise ConfigError(
            f"rewriter {name}: its texts have the use `{use}`; the published protocol (`compat: r2med`) knows "
            "`joined` and `averaged`"
        )


def require_one_text(name: str, samples: int, rules: Rules) -> None:
    """Refuse several texts per query, if the published protocol is to make a retriever's queries.

    Raises:
        ConfigError: there is more than one sample; names the method.
    """
    if _is_published(rules) and samples > 1:
        raise ConfigError(f"rewriter {name}: samples {samples}; the published protocol knows one")


def _is_published(rules: Rules) -> bool:
    return rules.bm25_rewrite or rules.dense_rewrite_join or rules.dense_rewrite_prompt
