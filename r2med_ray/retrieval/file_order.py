"""Cuts a ranking in the order of the corpus file: among equal scores, the earlier row stays.

R2MED's BM25 keeps the top 100 by a stable sort (eval_BM25.py:80 at 62b7074). trec_eval then orders the kept documents
by score and doc id. Shards must still merge by the one order of `ranking`. So an index holds `row_id`s in place of
doc ids: an earlier row has a greater `row_id`, whatever its shard. After the cut, each `row_id` is turned back into a
doc id.
"""

from r2med_ray.first_stage import Ties
from r2med_ray.ranking import best
from r2med_ray.types import DocId, Ranking, ScoredDoc

_LAST_ROW = 2**63 - 1
_DIGITS = 19


def row_id(row: int, doc_id: DocId) -> DocId:
    """Return an id that is greater, by code point, than the ids of all later rows.

    Args:
        row: the document's row in the corpus.
        doc_id: the document's id; it is the end of the result.
    """
    return f"{_LAST_ROW - row:0{_DIGITS}d}{doc_id}"


def id_of(held: DocId, ties: Ties) -> DocId:
    """Return the doc id of an id that an index holds."""
    return held[_DIGITS:] if ties == "file row" else held


def in_run_order(ranking: Ranking) -> Ranking:
    """Return a ranking of `row_id`s with its doc ids, in the order of `ranking.best`."""
    return best((ScoredDoc(id_of(hit.doc_id, "file row"), hit.score) for hit in ranking), len(ranking))
