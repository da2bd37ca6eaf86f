"""The measures: each is a function and one row of a table.

A function is given `Rankings`, a cut-off and the measure's parameters. The cut-off is infinite if the measure has
none. The function returns one value per query. If trec_eval 9 (github.com/usnistgov/trec_eval) has the measure, the
definition is trec_eval's, and the row names trec_eval's source file. Spellings are those of ir_measures.

Shape letters: Q queries, H documents of all queries.
"""

from collections.abc import Callable, Mapping

import numpy as np

from r2med_ray.evaluation.measure_row import Definition, Parameter, TrecEval, Value
from r2med_ray.evaluation.ranks import GradedRanks, Rankings
from r2med_ray.storage.arrow import DoubleVector, IntVector

INFAP_EPSILON = 0.00001
"""The constant of the same name in trec_eval.h. It smooths the share of relevant documents among the judged ones."""


_GAINS: Mapping[Value, Callable[[IntVector], DoubleVector]] = {
    "log2": lambda grade: grade.astype(np.float64),
    "exp-log2": lambda grade: np.exp2(grade) - 1,
}
"""Value of the parameter `dcg` → function from the grade of a positive to its gain."""


def _dcg(ranks: GradedRanks, cutoff: float, dcg: Value) -> DoubleVector:
    return ranks.sums(_GAINS[dcg](ranks.grade) / np.log2(ranks.rank + 1) * (ranks.rank <= cutoff))


def _ndcg(rankings: Rankings, cutoff: float, dcg: Value = "log2") -> DoubleVector:
    """Discounted gain of the ranking, divided by that of the ideal ranking. Both are cut at the same rank.

    The gain of a positive is its grade under `log2`, and 2 to the power of its grade, minus 1, under `exp-log2`.
    """
    return _dcg(rankings.positives, cutoff, dcg) / _dcg(rankings.ideal, cutoff, dcg)


def _average_precision(rankings: Rankings, cutoff: float) -> DoubleVector:
    found = rankings.positives
    return found.sums(found.nth / found.rank * (found.rank <= cutoff)) / rankings.ideal.counts


def _recall(rankings: Rankings, cutoff: float) -> DoubleVector:
    return rankings.positives.within(cutoff) / rankings.ideal.counts


def _precision(rankings: Rankings, cutoff: float) -> DoubleVector:
    return rankings.positives.within(cutoff) / cutoff


def _reciprocal_rank(rankings: Rankings, cutoff: float) -> DoubleVector:
    found = rankings.positives
    return found.sums(1 / found.rank * ((found.nth == 1) & (found.rank <= cutoff)))


def _reciprocal_rank_at(whole: float, cutoff: int) -> float:
    """Return RR@k for a value of RR. It is the same value if the first positive has a rank up to k, else 0."""
    return whole if whole > 0 and round(1 / whole) <= cutoff else 0.0


def _success(rankings: Rankings, cutoff: float) -> DoubleVector:
    return (rankings.positives.within(cutoff) > 0).astype(np.float64)


def _judged(rankings: Rankings, cutoff: float) -> DoubleVector:
    """Share of the ranked documents up to the cut-off that the qrels have for the query, with any grade.

    If a ranking is shorter than the cut-off, the share is taken of its own length, as in ir_measures.
    """
    num_seen = np.minimum(rankings.num_ranked, cutoff)
    return rankings.found.within(cutoff) / np.maximum(num_seen, 1)


def _bpref(rankings: Rankings, cutoff: float) -> DoubleVector:
    """Mean over all positives of the share of documents with grade 0 that don't rank above the positive.

    If a query has R positives, only its first R documents with grade 0 count. A positive that is not ranked adds
    nothing. Pooled and unjudged documents are passed over.
    """
    found = rankings.positives
    num_positives_H = rankings.ideal.counts[found.query]
    num_above_H = np.minimum(rankings.nonrelevant.above(found), num_positives_H)
    num_counted_H = np.minimum(rankings.num_nonrelevant[found.query], num_positives_H)
    return found.sums(1 - num_above_H / np.maximum(num_counted_H, 1)) / rankings.ideal.counts


def _rank_biased_precision(rankings: Rankings, cutoff: float, p: float) -> DoubleVector:
    """Relevance that a reader meets. The reader goes on from each document to the next with probability p.

    A positive counts 1 whatever its grade, as under `rel=1` in ir_measures. Any other document counts 0.
    """
    found = rankings.positives
    return found.sums((1 - p) * np.power(p, found.rank - 1, dtype=np.float64) * (found.rank <= cutoff))


def _inferred_average_precision(rankings: Rankings, cutoff: float) -> DoubleVector:
    """Average precision, inferred from a pool of which only a sample was judged.

    A grade below 0 says that a document was in the pool but not in the sample. Such a document is passed over:
    documents of the pool are assumed to be relevant as often as the judged documents above the same rank. A document
    that the qrels don't have was not in the pool, and counts as not relevant. If no grade is below 0, the value is
    that of `AP`, except for the effect of `INFAP_EPSILON`.
    """
    found = rankings.positives
    num_judged_H = found.nth - 1 + rankings.nonrelevant.above(found)
    num_in_pool_H = num_judged_H + rankings.pooled.above(found)
    share_H = (found.nth - 1 + INFAP_EPSILON) / (num_judged_H + 2 * INFAP_EPSILON)
    return found.sums(1 / found.rank + num_in_pool_H / found.rank * share_H) / rankings.ideal.counts


DEFINITIONS: Mapping[str, Definition] = {
    "nDCG": Definition(
        values=_ndcg,
        parameters={
            "dcg": Parameter(
                accepts=lambda value: value in _GAINS,
                expected="'log2' (the gain is the grade) or 'exp-log2' (the gain is 2**grade - 1)",
                example="exp-log2",
                default="log2",
            )
        },
        other_spellings=("ndcg_cut",),
        trec_eval=TrecEval(whole="ndcg", cut="ndcg_cut"),
        positives_only=True,
        citation="Järvelin and Kekäläinen, Cumulated gain-based evaluation of IR techniques, TOIS 2002; exponential "
        "gain: Burges et al., Learning to rank using gradient descent, ICML 2005; m_ndcg.c, m_ndcg_cut.c",
    ),
    "AP": Definition(
        values=_average_precision,
        other_spellings=("map", "map_cut"),
        trec_eval=TrecEval(whole="map", cut="map_cut"),
        grows=True,
        positives_only=True,
        citation="Harman, Evaluation issues in information retrieval, IPM 1992; m_map.c, m_map_cut.c",
    ),
    "R": Definition(
        values=_recall,
        cutoff="required",
        other_spellings=("recall",),
        trec_eval=TrecEval(cut="recall"),
        grows=True,
        positives_only=True,
        citation="van Rijsbergen, Information Retrieval, 1979; m_recall.c",
    ),
    "P": Definition(
        values=_precision,
        cutoff="required",
        other_spellings=("precision",),
        trec_eval=TrecEval(cut="P"),
        positives_only=True,
        citation="van Rijsbergen, Information Retrieval, 1979; m_P.c",
    ),
    "RR": Definition(
        values=_reciprocal_rank,
        other_spellings=("mrr", "recip_rank"),
        trec_eval=TrecEval(whole="recip_rank", at=_reciprocal_rank_at),
        grows=True,
        positives_only=True,
        citation="Kantor and Voorhees, The TREC-5 confusion track, Information Retrieval 2000; m_recip_rank.c",
    ),
    "Success": Definition(
        values=_success,
        cutoff="required",
        other_spellings=("hit", "hit_rate", "hits"),
        trec_eval=TrecEval(cut="success"),
        grows=True,
        positives_only=True,
        citation="m_success.c",
    ),
    "Judged": Definition(
        values=_judged,
        other_spellings=("judgement_rate",),
        citation="ir_measures, measures/judged.py (github.com/terrierteam/ir_measures)",
    ),
    "Bpref": Definition(
        values=_bpref,
        cutoff="none",
        trec_eval=TrecEval(whole="bpref"),
        citation="Buckley and Voorhees, Retrieval evaluation with incomplete information, SIGIR 2004; m_bpref.c",
    ),
    "RBP": Definition(
        values=_rank_biased_precision,
        parameters={
            "p": Parameter(
                accepts=lambda value: isinstance(value, float) and 0 < value < 1,
                expected="a number above 0 and below 1: how likely a reader goes on to the next document",
                example=0.8,
            )
        },
        grows=True,
        positives_only=True,
        citation="Moffat and Zobel, Rank-biased precision for measurement of retrieval effectiveness, TOIS 2008",
    ),
    "infAP": Definition(
        values=_inferred_average_precision,
        cutoff="none",
        other_spellings=("inferred_ap", "inf_ap"),
        trec_eval=TrecEval(whole="infAP"),
        citation="Yilmaz and Aslam, Estimating average precision with incomplete and imperfect judgments, CIKM 2006; "
        "m_infap.c",
    ),
}
"""Name → row. A new measure is a function above and one row here."""
