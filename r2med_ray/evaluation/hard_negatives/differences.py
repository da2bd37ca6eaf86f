"""How much a measure loses when hard negatives are added to the corpus, query by query.

`ΔnDCG@10` of a system is its value with the hard negatives minus its value without them, as a mean over queries. The
two values of a query are a pair: the interval is a bootstrap's, the p-value a randomisation test's, adjusted by Holm
over the systems; see `evaluation.significance`.
"""

from collections.abc import Mapping

from r2med_ray.evaluation.significance import Comparison, adjusted, compare_with_baseline
from r2med_ray.types import QueryId

Values = Mapping[str, Mapping[QueryId, float]]
"""System → query_id → value of one measure."""


def differences(base: Values, changed: Values, *, seed: int) -> dict[str, Comparison]:
    """Compare each system with itself.

    Args:
        base: the values without hard negatives.
        changed: the values with them, of the same systems and queries.
        seed: of the resamples.

    Raises:
        DataError: a query was measured on one side only.
    """
    compared = {
        name: compare_with_baseline({"task": base[name]}, {name: {"task": values}}, seed=seed)[name]
        for name, values in changed.items()
    }
    return adjusted(compared)
