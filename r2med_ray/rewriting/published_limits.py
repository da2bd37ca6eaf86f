"""What the published protocol of R2MED doesn't know of rewritten queries, refused before anything starts."""

from r2med_ray.errors import ConfigError
from r2med_ray.settings.compat import Rules
from r2med_ray.types import Use


def require_published_use(name: str, use: Use, rules: Rules) -> None:
    """Refuse a use of texts that was never published, where the published protocol says what a retriever is asked.

    Raises:
        ConfigError: the use is neither `joined` nor `averaged`; names the method.
    """
    if _is_published(rules) and use not in ("joined", "averaged"):
        raise ConfigError(
            f"rewriter {name}: its texts have the use `{use}`; the published protocol (`compat: r2med`) knows "
            "`joined` and `averaged`"
        )


def require_one_text(name: str, samples: int, rules: Rules) -> None:
    """Refuse several texts per query, where the published protocol says what a retriever is asked.

    Raises:
        ConfigError: there is to be more than one; names the method.
    """
    if _is_published(rules) and samples > 1:
        raise ConfigError(f"rewriter {name}: samples {samples}; the published protocol knows one")


def _is_published(rules: Rules) -> bool:
    return rules.bm25_rewrite or rules.dense_rewrite_join or rules.dense_rewrite_prompt
