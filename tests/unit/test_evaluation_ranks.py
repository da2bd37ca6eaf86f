"""The rankings that a measure is given, worked out for two small rankings and an unanswered query.

q1    rank 1 n (0)   2 x (not judged)   3 a (2)   4 p (-1)   5 m (0)        b (1) and o (0) are not ranked
q2    rank 1 x (not judged)   2 c (1)
q3    no answer                                                            d (1) is not ranked
"""

import numpy as np
import pytest

from r2med_ray.evaluation.judged import find_judged, judgements
from r2med_ray.evaluation.ranked import rows_of_run
from r2med_ray.types import Run, ScoredDoc

QRELS = {
    "q1": {"a": 2, "b": 1, "m": 0, "n": 0, "o": 0, "p": -1},
    "q2": {"c": 1},
    "q3": {"d": 1},
    "without positives": {"n": 0},
}


def rankings(*, positives_only=False):
    hits = {
        query_id: tuple(ScoredDoc(doc_id, -float(rank)) for rank, doc_id in enumerate(doc_ids))
        for query_id, doc_ids in {"q2": "xc", "q1": "nxapm", "not judged": "abc"}.items()
    }
    judged = judgements(QRELS, positives_only=positives_only)
    return find_judged(judged, rows_of_run(Run(tag="t", rankings=hits))).rankings


def columns(ranks):
    return list(zip(ranks.query.tolist(), ranks.rank.tolist(), strict=True))


def test_every_ranked_document_is_of_one_kind():
    given = rankings()

    assert columns(given.positives) == [(0, 3), (1, 2)]
    assert given.positives.grade.tolist() == [2, 1]
    assert columns(given.nonrelevant) == [(0, 1), (0, 5)]
    assert columns(given.pooled) == [(0, 4)]
    assert columns(given.unjudged) == [(0, 2), (1, 1)]
    assert given.num_ranked.tolist() == [5, 2, 0]


def test_judgements_are_counted_whether_ranked_or_not():
    given = rankings()

    assert given.ideal.counts.tolist() == [2, 1, 1]
    assert (columns(given.ideal), given.ideal.grade.tolist()) == ([(0, 1), (0, 2), (1, 1), (2, 1)], [2, 1, 1, 1])
    assert given.num_nonrelevant.tolist() == [3, 0, 0]
    assert given.num_pooled.tolist() == [1, 0, 0]


def test_documents_above_others_are_counted_within_a_query():
    given = rankings()

    # in q1, n is above a, and n and a are above m; in q2, x is above c
    assert given.nonrelevant.above(given.positives).tolist() == [1, 0]
    assert given.unjudged.above(given.positives).tolist() == [1, 1]
    assert given.positives.above(given.nonrelevant).tolist() == [0, 1]
    assert given.nonrelevant.within(4).tolist() == [1.0, 0.0, 0.0]


def test_positives_are_the_same_where_nothing_else_is_looked_up():
    alone, beside = rankings(positives_only=True), rankings()

    assert columns(alone.positives) == columns(beside.positives)
    assert np.array_equal(alone.positives.grade, beside.positives.grade)
    for name in ("nonrelevant", "pooled", "unjudged", "num_nonrelevant", "num_pooled"):
        with pytest.raises(ValueError, match="must not be declared `positives_only`"):
            getattr(alone, name)
