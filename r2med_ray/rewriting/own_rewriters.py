"""A rewriter that is a class of the user's, with checks of what it returns."""

import inspect
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

from r2med_ray.demands import QueryRewriter, Steps
from r2med_ray.errors import OwnCodeError
from r2med_ray.settings.config import RewriterConfig
from r2med_ray.settings.own_code import own_code
from r2med_ray.types import Expansion, Query, Rewriting


class OwnRewriter:
    """Rewrites with a user's class, and refuses a result that is not what `demands.QueryRewriter` says.

    Args:
        own: the class.
        config: the rewriter's settings in the benchmark file.
        about: the other arguments of `build.build_rewriter`, which the class is called with.

    Raises:
        OwnCodeError: the class raised an error.
    """

    def __init__(self, own: Any, config: RewriterConfig, **about: Any) -> None:
        self._where = f"rewriter {config.method} on {about['task'].name}: class {own.__module__}.{own.__qualname__}"
        with own_code(self._where):
            self._rewriter: QueryRewriter = own(config, **about)

    def rewrite(self, queries: Sequence[Query]) -> Steps[Rewriting]:
        """Return what the class makes of the queries.

        Raises:
            OwnCodeError: the class raised an error, or returned something else than these queries with expansions.
        """
        with own_code(f"{self._where}: `rewrite`"):
            steps = self._rewriter.rewrite(queries)
            if not inspect.isgenerator(steps):
                raise self._refused(f"a generator, which yields demands and returns a `Rewriting`, got {steps!r:.80}")
            rewriting = yield from steps
        return self._checked(rewriting, queries)

    def _checked(self, rewriting: object, queries: Sequence[Query]) -> Rewriting:
        if not isinstance(rewriting, Rewriting):
            raise self._refused(f"a `Rewriting`, got {rewriting!r:.80}")
        for given, returned in zip_longest(queries, rewriting.queries):
            if given is None or not isinstance(returned, Query) or _name(given) != _name(returned):
                raise self._refused(
                    f"every query with its id and text, in their order: {given!r:.80}, got {returned!r:.80}"
                )
            wrong = [expansion for expansion in returned.expansions if not isinstance(expansion, Expansion)]
            if wrong:
                raise self._refused(f"`Expansion`s for query {given.query_id!r}, got {wrong[0]!r:.80}")
        return rewriting

    def _refused(self, expected: str) -> OwnCodeError:
        return OwnCodeError(f"{self._where}: `rewrite` has to return {expected}")


def _name(query: Query) -> tuple[str, str]:
    return query.query_id, query.text
