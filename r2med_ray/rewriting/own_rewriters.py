"""A rewriter that is a class of the user's: what it returns is checked, and unusable texts are counted."""

import inspect
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from r2med_ray.cuts import are_known_sides
from r2med_ray.demands import Ask, Demand, QueryRewriter, Steps
from r2med_ray.errors import OwnCodeError, R2MedError, named
from r2med_ray.rewriting.answers import NO_ROOM
from r2med_ray.rewriting.expanding import require_few
from r2med_ray.settings.own_code import own_code
from r2med_ray.settings.rewriter import RewriterConfig
from r2med_ray.types import Expansion, Query, Rewriting


class OwnRewriter:
    """Rewrites with a user's class, and refuses a result that is not what `demands.QueryRewriter` says.

    Queries without an expansion are counted as unchanged. Those that the class flags or calls unchanged are allowed
    within the limits of `config`. If a prompt was too long for the model and the class flags no query for that, all
    queries without an expansion are flagged for it.

    Args:
        own: the class.
        config: the rewriter's settings in the benchmark file.
        about: the other arguments that the class is called with, see `methods.RewriterArguments`.

    Raises:
        OwnCodeError: the class raised an error.
    """

    def __init__(self, own: Any, config: RewriterConfig, **about: Any) -> None:
        self._config = config
        self._task: str = about["task"].name
        self._where = f"rewriter {config.method} on {self._task}: class {own.__module__}.{own.__qualname__}"
        with own_code(self._where):
            self._rewriter: QueryRewriter = own(config, **about)

    def rewrite(self, queries: Sequence[Query]) -> Steps[Rewriting]:
        """Return what the class makes of the queries.

        Raises:
            OwnCodeError: the class raised an error, or returned something else than these queries with expansions.
            DataError: too many queries have no usable text.
        """
        too_long: list[str] = []
        try:
            with own_code(f"{self._where}: `rewrite`"):
                steps = self._rewriter.rewrite(queries)
                if not inspect.isgenerator(steps):
                    raise self._refused(
                        f"a generator, which yields demands and returns a `Rewriting`, got {steps!r:.80}"
                    )
                rewriting = yield from _led(steps, too_long)
        except OwnCodeError as error:
            if not too_long:
                raise
            hint = f"prompts were too long for the model, and such a prompt is answered with None: {named(too_long)}"
            raise OwnCodeError(f"{error}; {hint}") from error
        return self._counted(self._checked(rewriting, queries), too_long)

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
        if rewriting.cuts is not None and not are_known_sides(rewriting.cuts):
            raise self._refused(f"`cuts` that are None, or `query` and `document` → Cuts, got {rewriting.cuts!r:.80}")
        return rewriting

    def _counted(self, rewriting: Rewriting, too_long: Sequence[str]) -> Rewriting:
        bare = tuple(query.query_id for query in rewriting.queries if not query.expansions)
        flagged = dict(rewriting.flagged)
        if too_long and bare and NO_ROOM not in flagged:
            flagged[NO_ROOM] = bare
        unusable = {*rewriting.unchanged}.union(*flagged.values()).intersection(bare)
        counted = replace(rewriting, flagged=flagged, unchanged=bare)
        limited = replace(counted, unchanged=tuple(query_id for query_id in bare if query_id in unusable))
        require_few(limited, self._config, self._task)
        return counted

    def _refused(self, expected: str) -> OwnCodeError:
        return OwnCodeError(f"{self._where}: `rewrite` has to return {expected}")


def _led(steps: Generator[Any, Any, Any], too_long: list[str]) -> Steps[Any]:
    """Pass demands and answers on. Add the units of prompts that a model has no room for to `too_long`."""
    try:
        demand = next(steps)
        while True:
            try:
                answer = yield demand
            except R2MedError as error:
                demand = steps.throw(error)
            else:
                too_long += _without_room(demand, answer)
                demand = steps.send(answer)
    except StopIteration as ended:
        return ended.value
    finally:
        steps.close()


def _without_room(demand: Demand | tuple[Demand, ...], answer: Any) -> Iterator[str]:
    pairs = zip(demand, answer, strict=True) if isinstance(demand, tuple) else [(demand, answer)]
    for each, completions in pairs:
        if isinstance(each, Ask):
            yield from (prompt.unit for prompt, text in zip(each.prompts, completions, strict=True) if text is None)


def _name(query: Query) -> tuple[str, str]:
    return query.query_id, query.text
