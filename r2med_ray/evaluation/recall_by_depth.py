"""Recall after each of several depths of a ranking, for a curve."""

from statistics import fmean

from r2med_ray.types import Qrels, Run, positives_of

DEPTHS = (1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000)


def recall_by_depth(run: Run, qrels: Qrels, depth: int) -> dict[int, float]:
    """Return for each of `DEPTHS` up to `depth`, and for `depth`, the mean recall over the queries with a positive.

    A query that the run doesn't answer has recall 0. Without any positive there is nothing to return.
    """
    positives = {query_id: found for query_id, grades in qrels.items() if (found := positives_of(grades))}
    depths = sorted({*(each for each in DEPTHS if each < depth), depth}) if positives else []
    recalls: dict[int, list[float]] = {each: [] for each in depths}
    for query_id, found in positives.items():
        ids = [hit.doc_id for hit in run.rankings.get(query_id, ())]
        for each in depths:
            recalls[each].append(len(found.intersection(ids[:each])) / len(found))
    return {each: fmean(of_queries) for each, of_queries in recalls.items()}
